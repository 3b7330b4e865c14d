// What travels in a step: each parameter's weights and gradients exactly as often as the strategy says.
//
// The model: 4 layers of 12 h^2 + 13 h = 49,984 parameters (h = 64); a table of 512 x 64 = 32,768, positions 128 x 64 =
// 8,192 and a final norm of 128, which are 41,088 together: all multiples of 4 = the replicas, so that nothing is
// padded. bf16: 2 bytes a weight and, unless said otherwise, a gradient.
#include <doctest/doctest.h>

#include <map>
#include <string>

#include "tests/unit/workloads/plans.hpp"
#include "workloads/build.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

constexpr std::int64_t kReplicas = 4;
constexpr std::int64_t kLayers = 4 * 49'984;
constexpr std::int64_t kTable = 512 * 64;
constexpr std::int64_t kRest = 41'088;
constexpr std::int64_t kAll = kLayers + kRest;
constexpr std::int64_t kLoss = 4;  // bytes, averaged once a step

using Options = std::map<std::string, OptionValue>;

struct Traffic {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
};

struct Step {
  Workload workload;
  std::map<std::pair<std::string, CollectiveOp>, Traffic> by;

  [[nodiscard]] std::int64_t bytes(const char* group, CollectiveOp op) { return by[{group, op}].bytes; }
  [[nodiscard]] std::int64_t calls(const char* group, CollectiveOp op) { return by[{group, op}].calls; }
};

Step step_of(const char* kind, const Options& options, std::int64_t micro_batches, std::int64_t replicas = kReplicas,
             Recompute recompute = Recompute::none) {
  TrainingSpec t = training(32, replicas * micro_batches);
  t.recompute = recompute;
  ParallelismSpec plan = parallel(1);
  plan.sharding = {kind, options};
  Result<Workload> built = build_workload(gpt(4, 64, 4, 512, 128), t, plan, replicas);
  REQUIRE_MESSAGE(built.ok(), to_string(built.problems()));
  Step step{std::move(built).value(), {}};
  const Program& program = step.workload.programs[0];
  for (const Task& task : program.tasks()) {
    if (task.kind != TaskKind::collective) continue;
    const CollectiveCall& call = program.collective(task);
    Traffic& traffic = step.by[{step.workload.group_kinds[call.group.index()].name, call.op}];
    ++traffic.calls;
    traffic.bytes += call.bytes.count();
  }
  return step;
}

Options with(Options options, const Options& more) {
  options.insert(more.begin(), more.end());
  return options;
}

const Options kExact{{"stage3_param_persistence_threshold", std::int64_t{0}},
                     {"stage3_prefetch_bucket_size", std::int64_t{0}},
                     {"stage3_max_reuse_distance", std::int64_t{0}}};

}  // namespace

TEST_CASE("FSDP gathers layers twice and the root once a micro-batch, and reduces everything with each") {
  for (const std::int64_t version : {1, 2}) {
    for (const std::int64_t m : {1, 3}) {
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        Step s = step_of("fsdp", {{"version", version}}, m, kReplicas, recompute);
        CHECK(s.bytes("data", CollectiveOp::all_gather) == 2 * m * (2 * kLayers + kRest));
        CHECK(s.calls("data", CollectiveOp::all_gather) == m * (2 * 4 + 1));
        CHECK(s.bytes("data", CollectiveOp::reduce_scatter) == 2 * m * kAll);
        CHECK(s.calls("data", CollectiveOp::reduce_scatter) == m * 5);
        CHECK(s.bytes("data", CollectiveOp::all_reduce) == kLoss);
      }
    }
  }
}

TEST_CASE("FSDP's strategies: weights that stay are gathered once, parts that are shared are summed across") {
  for (const std::int64_t version : {1, 2}) {
    CAPTURE(version);
    Step grad_op = step_of("fsdp", {{"version", version}, {"strategy", std::string("shard-grad-op")}}, 2);
    CHECK(grad_op.bytes("data", CollectiveOp::all_gather) == 2 * 2 * kAll);
    CHECK(grad_op.bytes("data", CollectiveOp::reduce_scatter) == 2 * 2 * kAll);
    for (const bool keeps : {false, true}) {
      const std::string strategy = keeps ? "hybrid-shard-zero2" : "hybrid-shard";
      Step hybrid = step_of("fsdp", {{"version", version}, {"strategy", strategy}, {"shard_size", std::int64_t{2}}}, 2);
      CHECK(hybrid.bytes("shard", CollectiveOp::all_gather) == 2 * 2 * ((keeps ? 1 : 2) * kLayers + kRest));
      CHECK(hybrid.bytes("shard", CollectiveOp::reduce_scatter) == 2 * 2 * kAll);
      CHECK(hybrid.bytes("replicate", CollectiveOp::all_reduce) == 2 * 2 * kAll / 2);
      CHECK(hybrid.calls("data", CollectiveOp::all_gather) == 0);
    }
  }
  Step none = step_of("fsdp", {{"version", std::int64_t{1}}, {"strategy", std::string("no-shard")}}, 2);
  CHECK(none.calls("data", CollectiveOp::all_gather) == 0);
  CHECK(none.bytes("data", CollectiveOp::all_reduce) == 2 * 2 * kAll + kLoss);
}

TEST_CASE("FSDP with no_sync reduces once, and in reduce_dtype") {
  for (const std::int64_t version : {1, 2}) {
    Step s = step_of("fsdp", {{"version", version}, {"no_sync", true}, {"reduce_dtype", std::string("fp32")}}, 3);
    CHECK(s.bytes("data", CollectiveOp::reduce_scatter) == 4 * kAll);
    CHECK(s.bytes("data", CollectiveOp::all_gather) == 2 * 3 * (2 * kLayers + kRest));
  }
}

TEST_CASE("FSDP2 gathers for the backward pass from the smaller group that it resharded to") {
  Step s = step_of("fsdp", {{"reshard_after_forward", std::int64_t{2}}}, 1);
  CHECK(s.bytes("data", CollectiveOp::all_gather) == 2 * kAll);
  CHECK(s.bytes("near_shard", CollectiveOp::all_gather) == 2 * kLayers);
}

TEST_CASE("FSDP2 resharded to one rank keeps its weights, and to all ranks is resharded as ever") {
  const auto tasks = [](const OptionValue& reshard) {
    return step_of("fsdp", {{"reshard_after_forward", reshard}}, 2).workload.programs[0].tasks().size();
  };
  const auto gathered = [](const OptionValue& reshard) {
    return step_of("fsdp", {{"reshard_after_forward", reshard}}, 2).bytes("data", CollectiveOp::all_gather);
  };
  CHECK(tasks(std::int64_t{1}) == tasks(false));
  CHECK(gathered(std::int64_t{1}) == gathered(false));
  CHECK(tasks(kReplicas) == tasks(true));
  CHECK(gathered(kReplicas) == gathered(true));
  CHECK(gathered(true) > gathered(false));
}

TEST_CASE("gradients that are not copied as they come are flattened and copied back") {
  // Of one bucket that holds all: as they come, twice two bytes; otherwise flattened, and copied back over themselves.
  const auto moved = [](bool contiguous, const std::string& name) {
    const Step s = step_of("zero2",
                           {{"contiguous_gradients", contiguous},
                            {"reduce_scatter", false},
                            {"reduce_bucket_size", std::int64_t{1'000'000}}},
                           1);
    std::int64_t bytes = 0;
    for (const Task& task : s.workload.programs[0].tasks()) {
      if (task.kind != TaskKind::kernels) continue;
      for (const KernelId id : s.workload.programs[0].sequences()[task.payload]) {
        const Kernel& kernel = s.workload.kernels[id.index()];
        if (kernel.name == name) bytes += kernel.bytes.count();
      }
    }
    return bytes;
  };
  CHECK(moved(true, "zero.copy_gradient") == 4 * kAll);
  CHECK(moved(true, "zero.flatten") == 0);
  CHECK(moved(true, "zero.copy_back") == 0);
  CHECK(moved(false, "zero.copy_gradient") == 0);
  CHECK(moved(false, "zero.flatten") == 4 * kAll);
  CHECK(moved(false, "zero.copy_back") == 4 * kAll);
}

TEST_CASE("FSDP2 gathers linear layers in 8 bits where it is told to") {
  // Of a layer: 12 h^2 weights and 9 h biases of linear layers, 4 h of norms.
  const std::int64_t matrices = 4 * 12 * 64 * 64;
  Step s = step_of("fsdp", {{"float8_all_gather", true}}, 1);
  CHECK(s.bytes("data", CollectiveOp::all_gather) == 2 * (2 * kLayers - matrices) + 2 * kRest);
}

TEST_CASE("what FSDP wraps decides how many gathers there are, not how much they carry") {
  const std::int64_t all = 2 * (2 * kLayers + kRest);
  Step module = step_of("fsdp", {{"wrap", std::string("module")}}, 1);
  CHECK(module.bytes("data", CollectiveOp::all_gather) == all);
  CHECK(module.calls("data", CollectiveOp::all_gather) == 2 * 8 + 1);
  // From 10,000 on: of a layer qkv (12,480), mlp_up (16,640) and mlp_down (16,448, bias with the next leaf or not);
  // 4,416 to 4,480 are left over in each layer and come with the root, as does the head's norm; the table is a unit.
  Step size = step_of("fsdp", {{"wrap", std::string("size")}, {"min_elements", std::int64_t{10'000}}}, 1);
  CHECK(size.calls("data", CollectiveOp::all_gather) == 2 * (4 * 3 + 1) + 1);
  // Larger than anything: one unit, the root.
  Step one = step_of("fsdp", {{"wrap", std::string("size")}}, 1);
  CHECK(one.calls("data", CollectiveOp::all_gather) == 1);
  CHECK(one.bytes("data", CollectiveOp::all_gather) == 2 * kAll);
}

TEST_CASE("ZeRO-3 gathers each operator's weights in both passes and reduces with each micro-batch") {
  for (const std::int64_t m : {1, 2}) {
    Step s = step_of("zero3", kExact, m);
    // The head uses the table too, in both passes.
    CHECK(s.bytes("data", CollectiveOp::all_gather) == 2 * m * 2 * (kAll + kTable));
    CHECK(s.bytes("data", CollectiveOp::reduce_scatter) == 2 * m * kAll);
  }
}

TEST_CASE("ZeRO-3 keeps what is used again soon, and persistent parameters") {
  // Everything is used again within 1e9 elements: gathered once in the forward pass, released in the backward pass.
  Step kept = step_of("zero3", {{"stage3_param_persistence_threshold", std::int64_t{0}}}, 2);
  CHECK(kept.bytes("data", CollectiveOp::all_gather) == 2 * 2 * kAll);
  // Everything is smaller than the threshold: gathered after the update, one by one. 12 tensors a layer, 4 beside.
  Step persistent = step_of("zero3", {}, 2);
  CHECK(persistent.bytes("data", CollectiveOp::all_gather) == 2 * kAll);
  CHECK(persistent.calls("data", CollectiveOp::all_gather) == 4 * 12 + 4);
}

TEST_CASE("a larger prefetch bucket or reduce bucket means fewer messages, of the same bytes") {
  std::int64_t gathers = 1'000'000;
  for (const std::int64_t bucket : {1, 20'000, 100'000}) {
    Step s = step_of("zero3",
                     {{"stage3_param_persistence_threshold", std::int64_t{0}},
                      {"stage3_max_reuse_distance", std::int64_t{0}},
                      {"stage3_prefetch_bucket_size", bucket}},
                     1);
    CHECK(s.calls("data", CollectiveOp::all_gather) < gathers);
    gathers = s.calls("data", CollectiveOp::all_gather);
  }
  for (const char* kind : {"zero1", "zero2", "zero3"}) {
    std::int64_t reductions = 1'000'000;
    const CollectiveOp op = std::string(kind) == "zero3" ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce;
    for (const std::int64_t bucket : {10'000, 60'000, 1'000'000}) {
      Step s = step_of(kind, {{"reduce_bucket_size", bucket}}, 1);
      CHECK(s.calls("data", op) < reductions);
      CHECK(s.bytes("data", op) == 2 * kAll + (op == CollectiveOp::all_reduce ? kLoss : 0));
      reductions = s.calls("data", op);
    }
  }
}

TEST_CASE("ZeRO-2 reduces with each micro-batch, ZeRO-1 once; both gather weights once") {
  for (const bool overlap : {false, true}) {
    for (const bool scatter : {false, true}) {
      const Options options{{"overlap_comm", overlap}, {"reduce_scatter", scatter}};
      Step one = step_of("zero1", options, 3);
      CHECK(one.bytes("data", CollectiveOp::all_reduce) == 2 * kAll + kLoss);
      CHECK(one.bytes("data", CollectiveOp::all_gather) == 2 * kAll);
      Step two = step_of("zero2", options, 3);
      CHECK(two.bytes("data", CollectiveOp::all_reduce) == 3 * 2 * kAll + kLoss);
      CHECK(two.bytes("data", CollectiveOp::all_gather) == 2 * kAll);
    }
  }
}

TEST_CASE("bf16's own optimizer adds up every micro-batch in fp32, and reduces the sums once") {
  for (const std::int64_t micro_batches : {1, 3}) {
    Step s = step_of("bf16-optimizer", {}, micro_batches);
    CHECK(s.bytes("data", CollectiveOp::all_reduce) == 4 * kAll + kLoss);
    CHECK(s.calls("data", CollectiveOp::all_gather) == 1);
    CHECK(s.bytes("data", CollectiveOp::all_gather) == 2 * kAll);
  }
  Step pieces = step_of("bf16-optimizer", {{"allgather_bucket_size", std::int64_t{100'000}}}, 1);
  CHECK(pieces.calls("data", CollectiveOp::all_gather) == 3);
  CHECK(pieces.bytes("data", CollectiveOp::all_gather) == 2 * kAll);
  ParallelismSpec plan = parallel(1);
  plan.sharding = {"bf16-optimizer", {}};
  TrainingSpec half = training(32, 4);
  half.precision = PrecisionRecipe::fp16;
  const Problems problems = check_plan(gpt(4, 64, 4, 512, 128), half, plan, 4);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].key == "parallelism.sharding");
}

TEST_CASE("ZeRO-1 and 2 gather weights in pieces") {
  // 241,024 elements in pieces of 100,000: two of 120,512.
  Step s = step_of("zero1", {{"allgather_bucket_size", std::int64_t{100'000}}}, 1);
  CHECK(s.calls("data", CollectiveOp::all_gather) == 2);
  CHECK(s.bytes("data", CollectiveOp::all_gather) == 2 * kAll);
}

TEST_CASE("ZeRO++: 8-bit weights, a second copy for backward, 4-bit gradients in two steps") {
  Step weights = step_of("zero3", with({{"zero_quantized_weights", true}}, kExact), 1);
  const std::int64_t uses = 2 * (kAll + kTable);
  CHECK(weights.bytes("data", CollectiveOp::all_gather) > uses);  // scales
  CHECK(weights.bytes("data", CollectiveOp::all_gather) < uses + uses / 20);
  Step second = step_of("zero3", with({{"zero_hpz_partition_size", std::int64_t{2}}}, kExact), 1);
  CHECK(second.bytes("data", CollectiveOp::all_gather) == 2 * (kAll + kTable));
  CHECK(second.bytes("near_shard", CollectiveOp::all_gather) == 2 * (kAll + kTable));
  // On 16 ranks, nodes of 8: half a byte a gradient within the node, of an eighth of that between nodes. Buckets hold
  // everything, so that padding is per parameter: each is a multiple of 16 but the smallest.
  Step gradients = step_of("zero3", with({{"zero_quantized_gradients", true}}, kExact), 1, 16);
  CHECK(gradients.calls("data", CollectiveOp::reduce_scatter) == 0);
  CHECK(gradients.bytes("shard", CollectiveOp::all_to_all) == kAll / 2);
  CHECK(gradients.bytes("replicate", CollectiveOp::all_to_all) == kAll / 16);
  // On one node: as usual.
  Step one_node = step_of("zero3", with({{"zero_quantized_gradients", true}}, kExact), 1);
  CHECK(one_node.bytes("data", CollectiveOp::reduce_scatter) == 2 * kAll);
}

TEST_CASE("MiCS keeps to its group, and sums across groups once a step") {
  Step s = step_of("zero3", with({{"mics_shard_size", std::int64_t{2}}}, kExact), 3);
  CHECK(s.bytes("shard", CollectiveOp::all_gather) == 3 * 2 * 2 * (kAll + kTable));
  CHECK(s.bytes("shard", CollectiveOp::reduce_scatter) == 3 * 2 * kAll);
  CHECK(s.bytes("replicate", CollectiveOp::all_reduce) == 2 * kAll / 2);
  CHECK(s.calls("data", CollectiveOp::all_gather) == 0);
}
