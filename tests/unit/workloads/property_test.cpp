// What must hold for every row of every table and every plan: rows that are added later are tested unasked.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include "tests/unit/workloads/plans.hpp"
#include "tests/unit/workloads/shardings.hpp"
#include "tests/unit/workloads/untimed.hpp"
#include "workloads/build.hpp"
#include "workloads/registry.hpp"
#include "workloads/schedules/schedule.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

struct Case {
  std::string name;
  ModelSpec model;
  TrainingSpec training;
  ParallelismSpec parallelism;
  std::int64_t ranks = 1;
};

// Every combination of degrees with every schedule and sharding, every optimizer with the first schedule, and the other
// settings in turn.
std::vector<Case> all_cases() {
  std::vector<Case> cases;
  std::size_t turn = 0;
  for (const RegistryRow& schedule : schedule_rows()) {
    for (const RegistryRow& sharding : sharding_rows()) {
      for (const RegistryRow& optimizer : optimizer_rows()) {
        if (schedule.name != schedule_rows()[0].name && optimizer.name != optimizer_rows()[0].name) continue;
        for (const std::int64_t tensor : {1, 2}) {
          for (const std::int64_t pipeline : {1, 2, 4}) {
            for (const std::int64_t data : {1, 2}) {
              const ScheduleRow& row = *find_schedule(schedule.name);
              if (row.slots == nullptr || !fits(row, pipeline, 8)) continue;
              if (row.chunks == 0 && pipeline == 1) continue;
              Case c;
              c.model = turn % 2 == 0 ? gpt(8, 64, 4, 512, 128) : llama(8, 64, 4, 2, 96, 512);
              c.training = training(32, 8 * data, 1);
              c.training.optimizer.kind = optimizer.name;
              c.training.recompute = static_cast<Recompute>(turn % 3);
              c.training.precision = static_cast<PrecisionRecipe>(turn % 4);
              const bool whole_weights = sharding.name != "fsdp" && sharding.name != "zero3";
              if (whole_weights && turn % 6 == 5) {
                c.training.precision = PrecisionRecipe::fp8;
                c.training.fp8.kind = fp8_rows()[turn / 6 % fp8_rows().size()].name;
              }
              const bool sixteen = c.training.precision == PrecisionRecipe::fp16 ||  //
                                   c.training.precision == PrecisionRecipe::bf16;
              if (sixteen && turn % 5 == 3) c.training.sparsity.kind = sparsity_rows().back().name;
              c.training.attention = turn % 5 < 2 ? AttentionKind::plain : AttentionKind::flash;
              c.training.dropout = turn % 3 == 0 ? 0.1 : 0;
              c.training.framework.fused_kernels = turn % 7 < 4;
              c.training.framework.autocast = turn % 11 < 4;
              c.training.framework.transfers_block_host = turn % 2 == 1;
              c.parallelism = parallel(tensor, pipeline, turn % 4 < 2);
              c.parallelism.schedule.kind = schedule.name;
              c.parallelism.sharding.kind = sharding.name;
              if (turn % 5 == 0 && tensor > 1) c.parallelism.schedule.options["scatter_gather"] = true;
              c.ranks = tensor * pipeline * data;
              c.name = fmt::format("{} {} {} t{} p{} d{} turn {}", schedule.name, sharding.name, optimizer.name, tensor,
                                   pipeline, data, turn);
              cases.push_back(c);
              ++turn;
            }
          }
        }
      }
    }
  }
  return cases;
}

// What a step allocates and does not free.
std::int64_t left_allocated(const Program& program) {
  std::int64_t sum = 0;
  for (const Task& task : program.tasks()) {
    for (const MemoryOperation& operation : program.memory(task)) sum += operation.bytes.count();
  }
  return sum;
}

}  // namespace

TEST_CASE("every schedule, sharding and optimizer builds a workload that agrees with itself and ends") {
  for (const Case& c : all_cases()) {
    CAPTURE(c.name);
    const Result<Workload> built = build_workload(c.model, c.training, c.parallelism, c.ranks);
    if (!built.ok() && only_sharding(built.problems())) continue;
    REQUIRE_MESSAGE(built.ok(), to_string(built.problems()));
    const std::vector<std::string> found = inconsistencies(*built);
    CHECK_MESSAGE(found.empty(), found.front());
    CHECK(UntimedRun(*built).deadlock() == "");
    for (const Program& program : built->programs) CHECK(left_allocated(program) == 0);
  }
}
