// Layers that share their weights, and matrices that are products of two thin ones.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/unit/workloads/plans.hpp"
#include "tests/unit/workloads/shardings.hpp"
#include "tests/unit/workloads/trainables.hpp"
#include "tests/unit/workloads/untimed.hpp"
#include "tests/unit/workloads/work.hpp"
#include "workloads/build.hpp"
#include "workloads/flops.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

Workload built(const ModelSpec& model, const TrainingSpec& training, const ParallelismSpec& parallelism,
               std::int64_t ranks) {
  Result<Workload> w = build_workload(model, training, parallelism, ranks);
  REQUIRE_MESSAGE(w.ok(), to_string(w.problems()));
  return std::move(w).value();
}

std::int64_t resident(const Workload& w) {
  std::int64_t sum = 0;
  for (const MemoryOperation& m : w.programs[0].resident_memory()) sum += m.bytes.count();
  return sum;
}

ModelSpec shared(std::int64_t groups) {
  ModelSpec m = gpt(4, 64, 4, 512, 128);
  m.layer_groups = groups;
  return m;
}

ModelSpec thin(Targets which) {
  ModelSpec m = llama(4, 64, 4, 2, 96, 512);
  m.low_rank = 8;
  m.low_rank_targets = which;
  return m;
}

}  // namespace

// A layer of gpt(4, 64, ...) has 49,984 weights, all outside 41,088.
TEST_CASE("weights that layers share are counted, reduced and kept once, and computed with as often as without") {
  CHECK(parameters(shared(0)) == 4 * 49'984 + 41'088);
  CHECK(parameters(shared(1)) == 49'984 + 41'088);
  CHECK(parameters(shared(2)) == 2 * 49'984 + 41'088);
  for (const std::int64_t groups : {1, 2}) {
    for (const char* sharding : {"none", "distributed-optimizer", "zero1", "zero2"}) {
      CAPTURE(sharding);
      ParallelismSpec p = parallel(1);
      p.sharding.kind = sharding;
      const Workload own = built(shared(0), training(32, 4), p, 2);
      const Workload one = built(shared(groups), training(32, 4), p, 2);
      CHECK(one.model_flops == own.model_flops);
      CHECK(flops_of(one, KernelKind::gemm) == flops_of(own, KernelKind::gemm));
      CHECK(UntimedRun(one).deadlock() == "");
      CHECK(inconsistencies(one).empty());
      CHECK(resident(one) < resident(own));
    }
    const Workload w = built(shared(groups), training(32, 4), parallel(1), 2);
    CHECK(resident(w) == 18 * parameters(shared(groups)));
    CHECK(collective_bytes(w, 0, CollectiveOp::all_reduce, Phase::gradient_reduction) ==
          4 * parameters(shared(groups)));
  }
}

// The gradient of the one block is complete with the lowest layer, so that its reduction is the last but the
// embedding's; with small buckets none is reduced before.
TEST_CASE("a shared gradient is reduced after its last use") {
  ParallelismSpec p = parallel(1);
  p.sharding.options = {{"bucket_elements", std::int64_t{1}}};
  const Workload w = built(shared(1), training(32, 2), p, 2);
  bool reduced = false;
  for (const Task& task : w.programs[0].tasks()) {
    if (task.kind == TaskKind::collective && task.phase == Phase::gradient_reduction && task.layer >= 0) {
      reduced = true;
      CHECK(task.layer == 0);
    }
  }
  CHECK(reduced);
}

TEST_CASE("layers that share weights are refused where that is not simulated") {
  ParallelismSpec pipeline = parallel(1, 2);
  CHECK_FALSE(check_plan(shared(1), training(32, 4), pipeline, 2).empty());
  for (const char* sharding : {"fsdp", "zero3"}) {
    ParallelismSpec p = parallel(1);
    p.sharding.kind = sharding;
    CHECK_FALSE(check_plan(shared(1), training(32, 4), p, 2).empty());
  }
  CHECK_FALSE(check_plan(shared(3), training(32, 4), parallel(1), 2).empty());
}

// W [96, 64] of rank 8 has 8 x (96 + 64) weights: of an MLP 3 x 1,280 = 3,840 in place of 18,432. Queries 8 x 128, keys
// and values 8 x 96 each, output 8 x 128.
TEST_CASE("low-rank matrices have the weights of their two halves, and FLOPs accordingly") {
  const std::int64_t full = parameters(llama(4, 64, 4, 2, 96, 512));
  const ModelSpec mlp = thin(targets({Target::gate, Target::up, Target::down}));
  CHECK(parameters(mlp) == full - 4 * (18'432 - 3'840));
  const ModelSpec all = thin(all_linear());
  CHECK(parameters(all) == full - 4 * (18'432 - 3'840) - 4 * (12'288 - 8 * (128 + 96 + 96 + 128)));
  for (const ModelSpec& m : {mlp, all, thin(targets({Target::q, Target::o, Target::up}))}) {
    TrainingSpec t = training(32, 2);
    t.attention = AttentionKind::plain;
    for (const TrainableSpec& spec : {TrainableSpec{}, only({Part::attention}), only({Part::mlp, Part::head})}) {
      t.trainable = spec;
      const Workload w = built(m, t, parallel(1), 1);
      CHECK(flops_of(w, KernelKind::gemm) == doctest::Approx(w.model_flops.count()).epsilon(1e-12));
      for (const bool sequence_parallel : {false, true}) {
        const Workload split = built(m, t, parallel(2, 2, sequence_parallel), 8);
        CHECK(UntimedRun(split).deadlock() == "");
        CHECK(inconsistencies(split).empty());
      }
    }
  }
  CHECK(resident(built(all, training(32, 2), parallel(1), 1)) == 18 * parameters(all));
}
