// A teacher beside the student: forward only, frozen, split as the student is.
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

const ModelSpec kStudent = llama(4, 64, 4, 2, 96, 512);
const ModelSpec kTeacher = llama(6, 128, 4, 4, 192, 512);

TrainingSpec taught(const TrainableSpec& trainable = {}) {
  TrainingSpec t = training(32, 8);
  t.attention = AttentionKind::plain;
  t.teacher = kTeacher;
  t.trainable = trainable;
  return t;
}

std::int64_t resident(const Workload& w, MemoryTag tag) {
  std::int64_t sum = 0;
  for (const MemoryOperation& m : w.programs[0].resident_memory()) sum += m.tag == tag ? m.bytes.count() : 0;
  return sum;
}

}  // namespace

TEST_CASE("a teacher adds its forward pass and its weights, and no gradients") {
  TrainingSpec alone = taught();
  alone.teacher = {};
  const Result<Workload> with = build_workload(kStudent, taught(), parallel(1), 2);
  const Result<Workload> without = build_workload(kStudent, alone, parallel(1), 2);
  REQUIRE_MESSAGE(with.ok(), to_string(with.problems()));
  REQUIRE(without.ok());
  CHECK(flops_of(*with, KernelKind::gemm) - flops_of(*without, KernelKind::gemm) ==
        doctest::Approx(8 * forward_flops(kTeacher, 32).count()));
  CHECK(with->model_flops.count() - without->model_flops.count() ==
        doctest::Approx(8 * forward_flops(kTeacher, 32).count()));
  CHECK(resident(*with, MemoryTag::weights) - resident(*without, MemoryTag::weights) == 2 * parameters(kTeacher));
  CHECK(resident(*with, MemoryTag::optimizer_state) == resident(*without, MemoryTag::optimizer_state));
  CHECK(collective_bytes(*with, 0, CollectiveOp::all_reduce, Phase::gradient_reduction) ==
        collective_bytes(*without, 0, CollectiveOp::all_reduce, Phase::gradient_reduction));
}

TEST_CASE("programs with a teacher agree, end, and free what they allocate, under every sharding") {
  for (const Choice& sharding : sharding_choices()) {
    for (const std::int64_t tensor : {1, 2}) {
      ParallelismSpec p = parallel(tensor, 1, tensor > 1);
      p.sharding = sharding;
      CAPTURE(fmt::format("{}, tensor {}", testing::name_of(sharding), tensor));
      for (const TrainableSpec& spec : {TrainableSpec{}, lora(4, all_linear())}) {
        const Result<Workload> built = build_workload(kStudent, taught(spec), p, 4 * tensor);
        if (!built.ok() && only_sharding(built.problems())) continue;
        REQUIRE_MESSAGE(built.ok(), to_string(built.problems()));
        const std::vector<std::string> found = inconsistencies(*built);
        CHECK_MESSAGE(found.empty(), found.front());
        CHECK(UntimedRun(*built).deadlock() == "");
      }
    }
  }
}

TEST_CASE("teachers are refused where they are not simulated") {
  const auto refused = [](const TrainingSpec& t, const ParallelismSpec& p, std::int64_t ranks) {
    return !check_plan(kStudent, t, p, ranks).empty();
  };
  CHECK_FALSE(refused(taught(), parallel(1), 2));
  CHECK(refused(taught(), parallel(1, 2), 2));
  TrainingSpec other = taught();
  other.teacher.vocabulary = 1024;
  CHECK(refused(other, parallel(1), 2));
  TrainingSpec odd = taught();
  odd.teacher.heads = odd.teacher.kv_heads = 3;
  CHECK(refused(odd, parallel(2), 2));
  TrainingSpec short_table = taught();
  short_table.teacher.position = PositionKind::learned;
  short_table.teacher.positions = 16;
  CHECK(refused(short_table, parallel(1), 2));
}
