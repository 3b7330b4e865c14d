// Buckets and messages of the sharding strategies, counted by hand.
#include <doctest/doctest.h>

#include <map>
#include <string>

#include "tests/unit/workloads/plans.hpp"
#include "workloads/build.hpp"
#include "workloads/sharding/buckets.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

Stage stage_of(const std::vector<std::int64_t>& elements, const std::vector<std::int32_t>& chunks = {}) {
  Stage stage;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    stage.parameters.push_back({.name = "p", .elements = elements[i]});
    stage.chunk_of_parameter.push_back(chunks.empty() ? 0 : chunks[i]);
  }
  return stage;
}

std::vector<std::int64_t> sizes(const std::vector<Bucket>& buckets) {
  std::vector<std::int64_t> out;
  for (const Bucket& b : buckets) out.push_back(b.elements);
  return out;
}

struct Traffic {
  std::int64_t calls = 0;
  std::int64_t bytes = 0;
};

// Collectives of one role, by (group, operation).
std::map<std::pair<std::string, CollectiveOp>, Traffic> traffic(const Workload& w, std::size_t role) {
  std::map<std::pair<std::string, CollectiveOp>, Traffic> out;
  const Program& program = w.programs[role];
  for (const Task& task : program.tasks()) {
    if (task.kind != TaskKind::collective) continue;
    const CollectiveCall& call = program.collective(task);
    Traffic& t = out[{w.group_kinds[call.group.index()].name, call.op}];
    ++t.calls;
    t.bytes += call.bytes.count();
  }
  return out;
}

Workload built(const ModelSpec& model, const TrainingSpec& training, const ParallelismSpec& parallelism,
               std::int64_t ranks) {
  Result<Workload> result = build_workload(model, training, parallelism, ranks);
  REQUIRE_MESSAGE(result.ok(), to_string(result.problems()));
  return std::move(result).value();
}

}  // namespace

TEST_CASE("buckets fill from the last parameter; the one that reaches the limit closes its bucket") {
  // Reverse order 50, 40, 30, 20, 10; first limit 50: {50}; then limit 60: {40, 30}, {20, 10} (never full).
  CHECK(sizes(gradient_buckets(stage_of({10, 20, 30, 40, 50}), 50, 60)) == std::vector<std::int64_t>{50, 70, 30});
  CHECK(sizes(gradient_buckets(stage_of({1000}), 1, 1)) == std::vector<std::int64_t>{1000});
}

TEST_CASE("buckets do not span model chunks") {
  CHECK(sizes(gradient_buckets(stage_of({10, 20, 30, 40}, {0, 0, 1, 1}), 1000, 1000)) ==
        std::vector<std::int64_t>{70, 30});
}

TEST_CASE("a bucket is complete with its last gradient, in whatever order they come") {
  BucketTracker tracker(gradient_buckets(stage_of({1, 1, 1}), 2, 2), 3);  // {2, 1}, {0}
  CHECK_FALSE(tracker.complete(1));
  CHECK(tracker.complete(0));
  CHECK(tracker.complete(2));
}

TEST_CASE("DDP reduces every gradient once a step, whatever the number of micro-batches") {
  const ModelSpec model = gpt(4, 64, 4, 512, 128);
  ParallelismSpec plan = parallel(1);
  plan.sharding.options["bucket"] = std::int64_t{64 * 1024};
  plan.sharding.options["first_bucket"] = std::int64_t{4 * 1024};
  for (const std::int64_t micro_batches : {1, 3}) {
    const Workload w = built(model, training(32, 2 * micro_batches), plan, 2);
    const Traffic t = traffic(w, 0)[{"data", CollectiveOp::all_reduce}];
    // 4 bytes a gradient (bf16 with fp32 gradients) and the loss.
    CHECK(t.bytes == 4 * parameters(model) + 4);
    // Limits: 1,024 elements, then 16,384. From the last parameter: the final norm (128), and of the last layer
    // mlp_down's bias (64) and weight (16,384) are the first bucket. mlp_up's bias and weight (16,640) are one; the
    // norm, and biases and weights of attention_output and qkv (16,768) are one; the next layer's mlp_down comes with
    // the norm left over (128). Three a layer; the last norm, positions (8,192) and table (32,768) are one more.
    CHECK(t.calls == 3 * 4 + 1 + 1);
  }
}

TEST_CASE("DDP without overlap sends one message after the backward pass when gradients are the bucket") {
  ParallelismSpec plan = parallel(1);
  plan.sharding.options["overlap_gradient_reduction"] = false;
  const ModelSpec model = gpt(4, 64, 4, 512, 128);
  const Workload w = built(model, training(32, 2), plan, 2);
  const Traffic t = traffic(w, 0)[{"data", CollectiveOp::all_reduce}];
  CHECK(t.calls == 2);  // gradients, loss
  CHECK(t.bytes == 4 * parameters(model) + 4);
}

TEST_CASE("ZeRO-1 scatters 4 bytes and gathers 2 per parameter, with buckets padded to the replicas") {
  const ModelSpec model = gpt(4, 64, 4, 512, 128);
  for (const bool overlap : {false, true}) {
    ParallelismSpec plan = parallel(1);
    plan.sharding.kind = "distributed-optimizer";
    plan.sharding.options["overlap_gradient_reduction"] = overlap;
    plan.sharding.options["overlap_parameter_gather"] = overlap;
    plan.sharding.options["bucket_elements"] = std::int64_t{50'000};
    const Workload w = built(model, training(32, 8), plan, 4);
    auto t = traffic(w, 0);
    const Traffic scatter = t[{"data", CollectiveOp::reduce_scatter}];
    const Traffic gather = t[{"data", CollectiveOp::all_gather}];
    CHECK(scatter.calls == gather.calls);
    CHECK(scatter.bytes == 2 * gather.bytes);
    CHECK(scatter.bytes >= 4 * parameters(model));
    CHECK(scatter.bytes <= 4 * (parameters(model) + 3 * scatter.calls));
    // A layer has 12 h^2 + 13 h = 49,984 parameters. With the final norm's 128 the last layer's bucket closes one
    // tensor (64) before its end, as does the next; the third closes one tensor into the first layer (50,048 each), the
    // fourth takes the rest of it and the positions (8,192), the fifth is the table. One bucket without overlap.
    CHECK(scatter.calls == (overlap ? 5 : 1));
  }
}

TEST_CASE("ZeRO-1 divides the optimizer's state by the replicas") {
  const ModelSpec model = gpt(4, 64, 4, 512, 128);
  const auto resident = [&](const char* sharding, std::int64_t ranks, MemoryTag tag) {
    ParallelismSpec plan = parallel(1);
    plan.sharding.kind = sharding;
    const Workload w = built(model, training(32, ranks), plan, ranks);
    std::int64_t sum = 0;
    for (const MemoryOperation& m : w.programs[0].resident_memory()) sum += m.tag == tag ? m.bytes.count() : 0;
    return sum;
  };
  const std::int64_t n = parameters(model);
  // Megatron-LM's table for bf16 with fp32 gradients: 6 + 12 / d bytes per parameter.
  CHECK(resident("none", 4, MemoryTag::optimizer_state) == 12 * n);
  CHECK(resident("distributed-optimizer", 4, MemoryTag::optimizer_state) == 12 * divide_up(n, 4));
  for (const char* sharding : {"none", "distributed-optimizer"}) {
    CHECK(resident(sharding, 4, MemoryTag::weights) == 2 * n);
    CHECK(resident(sharding, 4, MemoryTag::gradients) == 4 * n);
  }
}

TEST_CASE("tensor parallelism: messages of a step by hand") {
  // Per micro-batch: 4 all-reduces a layer, the embedding's, the head's input gradient, 2 of the loss (fused).
  // Per step: norm and, being one replica, no loss average; the norm goes over the model group.
  const Workload w = built(gpt(4, 64, 4, 512, 128), training(32, 3), parallel(2), 2);
  auto t = traffic(w, 0);
  CHECK(t[{"tensor", CollectiveOp::all_reduce}].calls == 3 * (4 * 4 + 1 + 1 + 2));
  CHECK(t[{"model", CollectiveOp::all_reduce}].calls == 1);
  CHECK(t.count({"tensor", CollectiveOp::all_gather}) == 0);
  // 2 bytes x tokens x hidden each; the loss 4 + 8 bytes a token.
  CHECK(t[{"tensor", CollectiveOp::all_reduce}].bytes == 3 * (18 * 2 * 32 * 64 + 32 * 12));
}

TEST_CASE("sequence parallelism sums the gradients of what each rank sees in part") {
  // Norm weights and biases: 2 x 2 x 64 a layer and 2 x 64 at the end; biases of two row-parallel products a layer.
  const Workload w = built(gpt(4, 64, 4, 512, 128), training(32, 1), parallel(2, 1, true), 2);
  const Program& program = w.programs[0];
  std::int64_t found = 0;
  for (const Task& task : program.tasks()) {
    if (task.kind == TaskKind::collective && program.label(task) == "reduce partial gradients") {
      found = program.collective(task).bytes.count();
    }
  }
  CHECK(found == 4 * (4 * (4 * 64 + 2 * 64) + 2 * 64));
}

TEST_CASE("first and last stage sum the gradient of a tied table; the others have no part in it") {
  const Workload w = built(gpt(4, 64, 4, 512, 128), training(32, 4), parallel(1, 4), 4);
  for (const std::size_t role : {0U, 3U}) {
    CHECK(traffic(w, role)[{"embedding", CollectiveOp::all_reduce}].bytes == 4 * 512 * 64);
  }
  for (const std::size_t role : {1U, 2U}) {
    CHECK(traffic(w, role).count({"embedding", CollectiveOp::all_reduce}) == 0);
  }
}

TEST_CASE("with overlapped gathers an operator's first use waits for its bucket, and later ones for nothing") {
  ParallelismSpec plan = parallel(1);
  plan.sharding.kind = "distributed-optimizer";
  plan.sharding.options["bucket_elements"] = std::int64_t{50'000};
  const Workload w = built(gpt(4, 64, 4, 512, 128), training(32, 8), plan, 4);  // two micro-batches
  const Program& program = w.programs[0];
  std::int64_t waits[2] = {0, 0};
  for (const Task& task : program.tasks()) {
    if (task.kind != TaskKind::kernels || task.phase != Phase::forward) continue;
    for (const TaskId before : program.dependencies(task)) {
      if (program.tasks()[before.index()].phase == Phase::parameter_gather) ++waits[task.micro_batch];
    }
  }
  // Five buckets; the embedding's two tables are in two of them, of which it waits for the later.
  CHECK(waits[0] == 4);
  CHECK(waits[1] == 0);
}

// The next bucket's gather starts when an operator has its own, before that operator's kernels: it runs beside them.
TEST_CASE("with overlapped gathers no bucket's gather waits for the operator before the one that needs it") {
  ParallelismSpec plan = parallel(1);
  plan.sharding.kind = "distributed-optimizer";
  plan.sharding.options["bucket_elements"] = std::int64_t{10'000};  // several buckets a layer
  const Workload w = built(gpt(4, 64, 4, 512, 128), training(32, 4), plan, 4);
  const Program& program = w.programs[0];
  std::int64_t beside = 0;
  for (const Task& task : program.tasks()) {
    if (task.kind != TaskKind::kernels || task.phase != Phase::forward) continue;
    const auto id = static_cast<std::int32_t>(&task - program.tasks().data());
    for (const TaskId before : program.dependencies(task)) {
      const Task& gather = program.tasks()[before.index()];
      if (gather.phase != Phase::parameter_gather) continue;
      // What the gather itself comes after: an earlier kernel than the last one before the task.
      std::int32_t latest = -1;
      for (const TaskId cause : program.dependencies(gather)) latest = std::max(latest, cause.value());
      std::int32_t previous = -1;
      for (std::int32_t t = 0; t < id; ++t) {
        if (program.tasks()[static_cast<std::size_t>(t)].kind == TaskKind::kernels) previous = t;
      }
      if (latest < previous) ++beside;
    }
  }
  CHECK(beside > 8);
}
