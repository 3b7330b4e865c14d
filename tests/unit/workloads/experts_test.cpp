// Layers of experts: shapes of published models, what ranks compute and send, routing, refusals.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/workloads/catalog.hpp"
#include "tests/unit/workloads/plans.hpp"
#include "tests/unit/workloads/shardings.hpp"
#include "tests/unit/workloads/untimed.hpp"
#include "tests/unit/workloads/work.hpp"
#include "workloads/build.hpp"
#include "workloads/emit/layout.hpp"
#include "workloads/experts/routing.hpp"
#include "workloads/flops.hpp"
#include "workloads/schedules/schedule.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

constexpr std::int64_t kHidden = 64;
constexpr std::int64_t kInner = 32;
constexpr std::int64_t kExperts = 8;

// The first of four layers is dense; 8 experts, 2 to a token, and a shared one.
ModelSpec model() {
  ModelSpec m = llama(4, kHidden, 4, 4, 96, 128);
  m.experts = kExperts;
  m.top_k = 2;
  m.expert_ffn_hidden = kInner;
  m.shared_experts = 1;
  m.dense_layers = 1;
  return m;
}

ModelSpec latent() {
  ModelSpec m = model();
  m.kv_lora_rank = 16;
  m.q_lora_rank = 24;
  m.qk_nope_head_dim = 16;
  m.qk_rope_head_dim = 8;
  m.v_head_dim = 16;
  return m;
}

ParallelismSpec spread(std::int64_t expert, std::int64_t tensor = 1, std::int64_t expert_tensor = 0) {
  ParallelismSpec p = parallel(tensor, 1, tensor > 1);
  p.expert = expert;
  p.expert_tensor = expert_tensor;
  return p;
}

Choice given(const std::string& shares) { return {"given", {{"shares", OptionValue(shares)}}}; }

Workload built(const ModelSpec& m, const TrainingSpec& t, const ParallelismSpec& p, std::int64_t ranks) {
  Result<Workload> workload = build_workload(m, t, p, ranks);
  REQUIRE_MESSAGE(workload.ok(), to_string(workload.problems()));
  return std::move(workload).value();
}

std::int64_t weights_of(const Workload& w, std::size_t rank) {
  std::int64_t sum = 0;
  for (const MemoryOperation& operation : w.programs[w.role_of[rank].index()].resident_memory()) {
    if (operation.tag == MemoryTag::weights) sum += operation.bytes.count();
  }
  return sum;
}

// What is sent, by task and size, and what is computed.
std::map<std::string, int> communication_of(const Program& program) {
  std::map<std::string, int> counts;
  for (const Task& task : program.tasks()) {
    if (task.kind == TaskKind::collective) {
      ++counts[fmt::format("{} {}", program.label(task), program.collective(task).bytes.count())];
    }
    if (task.kind == TaskKind::send) ++counts[fmt::format("{} {}", program.label(task), task.micro_batch)];
  }
  return counts;
}
std::map<std::size_t, int> kernels_of(const Program& program) {
  std::map<std::size_t, int> counts;
  for (const Task& task : program.tasks()) {
    if (task.kind != TaskKind::kernels) continue;
    for (const KernelId kernel : program.sequence(task)) ++counts[kernel.index()];
  }
  return counts;
}
// How often a micro-batch's kernels come between kernels of the same pass of another's: a pass that is cut in two.
int turns_of(const Program& program) {
  std::vector<std::pair<bool, std::int32_t>> passes;  // whether forward, micro-batch; in order, without repeats
  for (const Task& task : program.tasks()) {
    if (task.kind != TaskKind::kernels || task.micro_batch < 0) continue;
    if (task.phase != Phase::forward && task.phase != Phase::backward) continue;
    const std::pair pass(task.phase == Phase::forward, task.micro_batch);
    if (passes.empty() || passes.back() != pass) passes.push_back(pass);
  }
  std::map<std::pair<bool, std::int32_t>, int> pieces;
  for (const auto& pass : passes) ++pieces[pass];
  int turns = 0;
  for (const auto& [pass, count] : pieces) turns += count > 2 ? 1 : 0;  // two chunks make two pieces
  return turns;
}

}  // namespace

TEST_CASE("parameter counts of mixtures of experts equal the published ones") {
  // Totals of the safetensors indices on Hugging Face; DeepSeek-V3 without the module for a second token and without
  // the 58 x 256 biases that balance its routers. Active ones as the reports give them, in 10^9.
  struct Published {
    const char* name;
    std::int64_t total;
    double active;
  };
  const Published published[] = {
      {"mixtral-8x7b", 46'702'792'704, 12.9},   {"mixtral-8x22b", 140'620'634'112, 39},
      {"deepseek-v2", 235'741'434'880, 21},     {"deepseek-v2-lite", 15'706'484'224, 2.4},
      {"deepseek-v3", 671'026'404'352, 37},     {"qwen3-30b-a3b", 30'532'122'624, 3.3},
      {"qwen3-235b-a22b", 235'093'634'560, 22},
  };
  for (const Published& each : published) {
    CAPTURE(each.name);
    const ModelSpec m = catalog_model(each.name);
    CHECK(check(m).empty());
    CHECK(parameters(m) == each.total);
    // Lite's 2.4 leaves out one of its two tables of 0.2.
    const double table = std::string(each.name) == "deepseek-v2-lite" ? 102400.0 * 2048 : 0;
    CHECK((static_cast<double>(active_parameters(m)) - table) / 1e9 == doctest::Approx(each.active).epsilon(0.025));
  }
}

TEST_CASE("every spread of experts builds a workload that agrees with itself and ends") {
  for (const ModelSpec& m : {model(), latent()}) {
    for (const RegistryRow& dispatch : dispatch_rows()) {
      for (const RegistryRow& routing : routing_rows()) {
        for (const std::int64_t expert : {1, 2, 4}) {
          for (const std::int64_t tensor : {1, 2}) {
            if (dispatch.name == "hierarchical" && routing.name != "even") continue;
            CAPTURE(dispatch.name);
            CAPTURE(routing.name);
            CAPTURE(expert);
            CAPTURE(tensor);
            ParallelismSpec p = spread(expert, tensor, expert == 4 ? 1 : tensor);
            p.pipeline = 2;
            p.dispatch.kind = dispatch.name;
            p.dispatch.options["overlap_shared_experts"] = expert == 2;
            if (dispatch.name == "hierarchical") p.dispatch.options["ranks_per_node"] = expert > 1 ? expert / 2 : 1;
            p.sharding.kind = tensor == 1 ? "none" : "distributed-optimizer";
            TrainingSpec t = training(32, 8);
            t.recompute = static_cast<Recompute>(expert % 3);
            t.routing = routing.name == "given" ? given("8,4,4,2,2,2,1,1") : Choice{std::string(routing.name), {}};
            const Workload w = built(m, t, p, 16);
            const std::vector<std::string> found = inconsistencies(w);
            CHECK_MESSAGE(found.empty(), found.front());
            CHECK(UntimedRun(w).deadlock() == "");
          }
        }
      }
    }
  }
}

TEST_CASE("every sharding strategy takes experts and split sequences, or says that its framework does not") {
  for (const Choice& sharding : sharding_choices()) {
    const std::string name = name_of(sharding);
    CAPTURE(name);
    ParallelismSpec p = spread(2);
    p.context = 2;
    p.sharding = sharding;
    const Result<Workload> w = build_workload(model(), training(32, 8), p, 8);
    if (!w && only_sharding(w.problems())) continue;
    REQUIRE_MESSAGE(w.ok(), to_string(w.problems()));
    const std::vector<std::string> found = inconsistencies(*w);
    CHECK_MESSAGE(found.empty(), found.front());
    CHECK(UntimedRun(*w).deadlock() == "");
  }
}

TEST_CASE("every pipeline schedule takes experts and split sequences, by whole backward passes or by halves") {
  for (const RegistryRow& row : schedule_rows()) {
    if (row.name == "table") continue;  // a user's own
    for (const bool overlaps : {false, true}) {
      CAPTURE(row.name);
      ModelSpec m = model();
      m.layers = 8;
      ParallelismSpec p = spread(2, 2, 1);
      p.pipeline = 2;
      p.context = 2;
      p.schedule.kind = row.name;
      p.dispatch.options["overlap_shared_experts"] = overlaps;
      const Result<Workload> w = build_workload(m, training(32, 16), p, 16);
      REQUIRE_MESSAGE(w.ok(), to_string(w.problems()));
      const std::vector<std::string> found = inconsistencies(*w);
      CHECK_MESSAGE(found.empty(), found.front());
      CHECK(UntimedRun(*w).deadlock() == "");
      CHECK(flops_of(*w, KernelKind::gemm) == flops_of(built(m, training(32, 16), parallel(1), 1), KernelKind::gemm));
    }
  }
}

TEST_CASE("the passes of a pair take turns where rows travel, and only then") {
  struct Paired {
    const char* kind;
    std::string_view option;
    std::int64_t pipeline;
  };
  for (const Paired& paired : {Paired{"dualpipe", "overlap_pairs", 2}, Paired{"dualpipe-v", "overlap_pairs", 2},
                               Paired{"interleaved-1f1b", kOverlapExperts, 2}, Paired{"1f1b", kOverlapExperts, 1}}) {
    const bool megatron = paired.option == kOverlapExperts;
    CAPTURE(paired.kind);
    for (const bool overlap_shared : {false, true}) {
      CAPTURE(overlap_shared);
      ModelSpec m = model();
      m.layers = 8;
      ParallelismSpec p = spread(2);
      p.pipeline = paired.pipeline;
      p.schedule.kind = paired.kind;
      p.dispatch.options["overlap_shared_experts"] = overlap_shared;
      const auto play = [&](bool turns) {
        p.schedule.options[std::string(paired.option)] = turns;
        return build_workload(m, training(32, 16), p, 2 * paired.pipeline);
      };
      if (megatron && overlap_shared) {
        CHECK(!play(true).ok());
        continue;
      }
      const Workload turns = play(true).value();
      const Workload serial = play(false).value();
      CHECK(UntimedRun(turns).deadlock() == "");
      for (std::size_t r = 0; r < turns.programs.size(); ++r) {
        CHECK(communication_of(turns.programs[r]) == communication_of(serial.programs[r]));
        CHECK(kernels_of(turns.programs[r]) == kernels_of(serial.programs[r]));
        CHECK(turns_of(serial.programs[r]) == 0);
        CHECK(turns_of(turns.programs[r]) > 0);
      }
    }
    // Without experts nothing travels, and a pair runs as two passes.
    if (megatron) continue;
    ParallelismSpec p = parallel(1, 2);
    p.schedule.kind = paired.kind;
    const Workload plain = built(llama(8, 64, 4, 4, 96, 128), training(32, 16), p, 2);
    for (const Program& program : plain.programs) CHECK(turns_of(program) == 0);
  }
}

TEST_CASE("ranks together compute what one would, however experts, tensors and sequences are split") {
  for (const ModelSpec& m : {model(), latent()}) {
    const Workload whole = built(m, training(32, 8), parallel(1), 1);
    // Kernels are products of matrices only: 3 x the forward FLOPs less attention, which is causal here.
    const double attention = 3 * 8 * 2.0 * 32 * 32 * static_cast<double>(m.heads * (m.key_dim() + m.value_dim())) * 4;
    CHECK(flops_of(whole, KernelKind::gemm) == model_flops(m, 32, 8).count() - attention);
    for (const std::int64_t expert : {1, 2, 8}) {
      for (const std::int64_t tensor : {1, 2}) {
        for (const std::int64_t expert_tensor : {1, 2}) {
          for (const std::int64_t context : {1, 2}) {
            CAPTURE(expert);
            CAPTURE(tensor);
            CAPTURE(expert_tensor);
            CAPTURE(context);
            ParallelismSpec p = spread(expert, tensor, expert_tensor);
            p.context = context;
            const Workload w = built(m, training(32, 16), p, 16);
            CHECK(flops_of(w, KernelKind::gemm) == 2 * flops_of(whole, KernelKind::gemm));
          }
        }
      }
    }
  }
}

TEST_CASE("uneven routing moves work between ranks and makes none") {
  TrainingSpec t = training(32, 8);
  const Workload even = built(model(), t, spread(4), 8);
  for (const Choice& routing : {given("8,4,4,2,2,2,1,1"), Choice{"zipf", {}}, given("1,1,1,1,1,1,1,1")}) {
    t.routing = routing;
    const Workload w = built(model(), t, spread(4), 8);
    CHECK(w.programs.size() == 4);
    CHECK(flops_of(w, KernelKind::gemm) == flops_of(even, KernelKind::gemm));
  }
}

TEST_CASE("each rank holds its experts and all of the rest") {
  // Three layers of 8 experts of 3 x 64 x 32; 2 bytes a weight.
  const std::int64_t experts = 3 * kExperts * 3 * kHidden * kInner;
  for (const std::int64_t expert : {1, 2, 4, 8}) {
    const Workload w = built(model(), training(32, 8), spread(expert), 8);
    CHECK(weights_of(w, 0) == 2 * (parameters(model()) - experts + experts / expert));
  }
  // Expert tensor parallelism halves each of them again.
  const Workload w = built(model(), training(32, 8), spread(2, 2, 2), 8);
  const Workload whole = built(model(), training(32, 8), spread(2, 2, 1), 8);
  CHECK(weights_of(whole, 0) - weights_of(w, 0) == 2 * (experts / 2 - experts / 4));
}

TEST_CASE("rows travel four times a layer: there and back, forward and backward") {
  // 32 tokens x 2 experts x 64 columns x 2 bytes, in three layers. The counts of rows: 8 bytes for each rank and
  // expert.
  const Workload w = built(model(), training(32, 8), spread(4), 8);
  const std::int64_t once = 32 * 2 * kHidden * 2;
  CHECK(collective_bytes(w, 0, CollectiveOp::all_to_all, Phase::forward) == 3 * 2 * once);
  CHECK(collective_bytes(w, 0, CollectiveOp::all_to_all, Phase::backward) == 3 * 2 * once);
  CHECK(collective_bytes(w, 0, CollectiveOp::all_gather, Phase::forward) == 3 * 8 * 4 * kExperts);
  // All-gather: every rank's rows, once each way.
  ParallelismSpec p = spread(4);
  p.dispatch.kind = "all-gather";
  const Workload gathered = built(model(), training(32, 8), p, 8);
  CHECK(collective_bytes(gathered, 0, CollectiveOp::reduce_scatter, Phase::forward) == 3 * 4 * 32 * kHidden * 2);
}

TEST_CASE("gradients of experts are reduced over those who hold the same") {
  // 8 ranks, 4 to a set of experts: rank 0's experts are rank 4's too.
  const Workload w = built(model(), training(32, 8), spread(4), 8);
  for (std::size_t kind = 0; kind < w.group_kinds.size(); ++kind) {
    if (w.group_kinds[kind].name != "expert_data") continue;
    const Communicator& communicator = w.communicators[w.communicator_of[kind][1].index()];
    CHECK(communicator.ranks == std::vector<RankId>{RankId(std::size_t{1}), RankId(std::size_t{5})});
    return;
  }
  FAIL("no expert_data");
}

TEST_CASE("expert ranks follow Megatron's second order: expert tensor, expert, replicas, pipeline") {
  // tensor 2 x context 2 x data 2, cut as expert tensor 1 x expert 4 x 2 replicas: ranks 0-3 share experts.
  const Degrees d{.tensor = 2, .context = 2, .data = 2, .pipeline = 2, .expert = 4, .expert_tensor = 1};
  CHECK(expert_coordinates_of(d, 3).expert == 3);
  CHECK(expert_coordinates_of(d, 5).expert == 1);
  CHECK(expert_coordinates_of(d, 5).replica == 1);
  CHECK(expert_coordinates_of(d, 13).pipeline == 1);
  const Degrees t{.tensor = 2, .context = 1, .data = 4, .pipeline = 1, .expert = 2, .expert_tensor = 2};
  CHECK(expert_coordinates_of(t, 3).tensor == 1);
  CHECK(expert_coordinates_of(t, 3).expert == 1);
}

TEST_CASE("rows are given out whole: by share, none twice to one expert, none beyond the capacity") {
  ModelSpec m = model();
  m.experts = 4;
  m.top_k = 1;
  CHECK(route_tokens(given("3,1,1,1"), m, 12).to_expert == std::vector<std::int64_t>{6, 2, 2, 2});
  CHECK(route_tokens(given("3,1,1,1"), m, 13).to_expert == std::vector<std::int64_t>{7, 2, 2, 2});
  // Two to a token: the first would get 16 of 24 rows and has 12 tokens; the rest is shared by the others.
  m.top_k = 2;
  CHECK(route_tokens(given("6,1,1,1"), m, 12).to_expert == std::vector<std::int64_t>{12, 4, 4, 4});
  Choice dropping = given("6,1,1,1");
  dropping.options["capacity_factor"] = 1.0;  // 6 rows each
  CHECK(route_tokens(dropping, m, 12).to_expert == std::vector<std::int64_t>{6, 4, 4, 4});
  CHECK(route_tokens(dropping, m, 12).sent == 18);
  Choice seeded{"zipf", {{"seed", OptionValue(std::int64_t{1})}}};
  const Routing first = route_tokens(seeded, catalog_model("deepseek-v3"), 4096);
  CHECK(std::accumulate(first.to_expert.begin(), first.to_expert.end(), std::int64_t{0}) == 8 * 4096);
  CHECK(*std::max_element(first.to_expert.begin(), first.to_expert.end()) <= 4096);
  seeded.options["seed"] = std::int64_t{2};
  CHECK(route_tokens(seeded, catalog_model("deepseek-v3"), 4096).to_expert != first.to_expert);
}

TEST_CASE("a token reaches as many nodes as its experts and the limit allow") {
  ModelSpec m = model();
  CHECK(places_reached(m, 1) == doctest::Approx(1));
  // Two of eight experts, each at a place of its own; of two places with four each, both with probability 4/7.
  CHECK(places_reached(m, 8) == doctest::Approx(2));
  CHECK(places_reached(m, 2) == doctest::Approx(1 + 4.0 / 7));
  // DeepSeek-V3: at most 4 of 8 nodes, and nearly that; without the limit 8 experts would reach 5.3.
  const ModelSpec v3 = catalog_model("deepseek-v3");
  CHECK(places_reached(v3, 8) <= 4);
  CHECK(places_reached(v3, 8) > 3.5);
  ModelSpec free = v3;
  free.groups_per_token = free.expert_groups = 1;
  CHECK(places_reached(free, 8) == doctest::Approx(5.25).epsilon(0.02));
}

TEST_CASE("plans that experts do not fit are refused with what fits") {
  const auto found = [&](const ModelSpec& m, const TrainingSpec& t, const ParallelismSpec& p, std::int64_t ranks) {
    const Problems problems = check_plan(m, t, p, ranks);
    return problems.empty() ? std::string("none") : problems[0].key + ": " + problems[0].note;
  };
  const TrainingSpec t = training(32, 8);
  CHECK(found(model(), t, spread(3), 8) == "parallelism.expert: nearest valid: 2, 4");
  CHECK(found(model(), t, spread(8), 4) == "parallelism.expert: nearest valid: 4");
  CHECK(found(llama(2, 64, 4, 4, 96), t, spread(2), 8) == "parallelism.expert: leave it out: the model has no experts");
  ParallelismSpec p = spread(2, 2);
  p.sequence_parallel = false;
  CHECK(found(model(), t, p, 8) == "parallelism.sequence_parallel: nearest valid: true");
  TrainingSpec wrong = t;
  wrong.routing = given("1,2");
  CHECK(found(model(), wrong, spread(2), 8) ==
        "training.routing.shares: one number for each expert, as in \"3, 1, 1, 1\"");
  ModelSpec greedy = model();
  greedy.top_k = 9;
  CHECK(check(greedy).size() == 1);
}
