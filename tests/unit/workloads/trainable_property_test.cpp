// Every way to train a part of a model under every sharding, schedule and split: programs agree, end, and free what
// they allocate.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/unit/workloads/plans.hpp"
#include "tests/unit/workloads/shardings.hpp"
#include "tests/unit/workloads/trainables.hpp"
#include "tests/unit/workloads/untimed.hpp"
#include "workloads/build.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

std::int64_t left_allocated(const Program& program) {
  std::int64_t sum = 0;
  for (const Task& task : program.tasks()) {
    for (const MemoryOperation& operation : program.memory(task)) sum += operation.bytes.count();
  }
  return sum;
}

void check_sound(const ModelSpec& model, const TrainingSpec& training, const ParallelismSpec& parallelism,
                 std::int64_t ranks) {
  const Result<Workload> built = build_workload(model, training, parallelism, ranks);
  if (!built.ok() && only_sharding(built.problems())) return;
  REQUIRE_MESSAGE(built.ok(), to_string(built.problems()));
  const std::vector<std::string> found = inconsistencies(*built);
  CHECK_MESSAGE(found.empty(), found.front());
  CHECK(UntimedRun(*built).deadlock() == "");
  for (const Program& program : built->programs) CHECK(left_allocated(program) == 0);
}

TrainingSpec turned(std::size_t turn, const TrainableSpec& trainable) {
  TrainingSpec t = training(32, 8);
  t.trainable = trainable;
  t.recompute = static_cast<Recompute>(turn % 3);
  t.precision = static_cast<PrecisionRecipe>(turn % 4);
  t.attention = turn % 5 < 2 ? AttentionKind::plain : AttentionKind::flash;
  t.dropout = turn % 2 == 0 ? 0.1 : 0;
  t.framework.fused_kernels = turn % 7 < 4;
  t.framework.autocast = turn % 11 < 4;
  return t;
}

}  // namespace

TEST_CASE("whatever is trained, under every sharding, programs agree and the ledger ends where it began") {
  std::size_t turn = 0;
  for (const NamedTrainable& each : trainables()) {
    for (const Choice& sharding : sharding_choices()) {
      ParallelismSpec p = parallel(1 + static_cast<std::int64_t>(turn % 2), 1, turn % 4 < 2);
      p.sharding = sharding;
      CAPTURE(fmt::format("{}, {}, turn {}", each.name, testing::name_of(sharding), turn));
      check_sound(llama(4, 64, 4, 2, 96, 512), turned(turn, each.spec), p, 4 * p.tensor);
      ++turn;
    }
  }
}

TEST_CASE("whatever is trained, and whatever is off the GPU, programs agree and the ledger ends where it began") {
  std::size_t turn = 0;
  for (const NamedTrainable& each : trainables()) {
    for (const Choice& sharding : offload_choices()) {
      ParallelismSpec p = parallel(1 + static_cast<std::int64_t>(turn % 2), 1, turn % 4 < 2);
      p.sharding = sharding;
      CAPTURE(fmt::format("{}, {}, turn {}", each.name, testing::name_of(sharding), turn));
      check_sound(llama(4, 64, 4, 2, 96, 512), turned(turn, each.spec), p, 4 * p.tensor);
      ++turn;
    }
  }
}

TEST_CASE("whatever is trained, under every schedule, programs agree and the ledger ends where it began") {
  std::size_t turn = 0;
  for (const NamedTrainable& each : trainables()) {
    for (const RegistryRow& schedule : schedule_rows()) {
      if (schedule.name == "table") continue;
      for (const char* sharding : {"none", "distributed-optimizer", "fsdp"}) {
        ParallelismSpec p = parallel(1 + static_cast<std::int64_t>(turn % 2), 2, turn % 4 < 2);
        p.schedule.kind = schedule.name;
        p.sharding.kind = sharding;
        CAPTURE(fmt::format("{}, {}, {}, turn {}", each.name, schedule.name, sharding, turn));
        check_sound(llama(8, 64, 4, 2, 96, 512), turned(turn, each.spec), p, 4 * p.tensor);
        ++turn;
      }
    }
  }
}

TEST_CASE("experts may be frozen, and attention beside them may have adapters") {
  ModelSpec m = llama(4, 64, 4, 2, 96, 512);
  m.experts = 4;
  m.top_k = 2;
  m.expert_ffn_hidden = 32;
  m.shared_experts = 1;
  m.dense_layers = 1;
  std::size_t turn = 0;
  const TrainableSpec specs[] = {only({Part::attention}), only({Part::mlp}), only({Part::norms, Part::head}),
                                 lora(4, targets({Target::q, Target::o}))};
  for (const TrainableSpec& spec : specs) {
    for (const RegistryRow& sharding : sharding_rows()) {
      ParallelismSpec p = parallel(1);
      p.expert = 2;
      p.sharding.kind = sharding.name;
      CAPTURE(fmt::format("{}, turn {}", sharding.name, turn));
      check_sound(m, turned(turn, spec), p, 4);
      ++turn;
    }
  }
}
