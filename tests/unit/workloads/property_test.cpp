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

namespace {

// FLOPs of matrix products and attention of all ranks. Each program is that of equally many ranks.
double product_flops(const Workload& workload, std::int64_t ranks) {
  double sum = 0;
  for (const Program& program : workload.programs) {
    for (const Task& task : program.tasks()) {
      if (task.kind != TaskKind::kernels) continue;
      for (const KernelId id : program.sequences()[task.payload]) {
        const Kernel& kernel = workload.kernels[id.index()];
        const bool product = kernel.kind == KernelKind::gemm || kernel.kind == KernelKind::attention_forward ||
                             kernel.kind == KernelKind::attention_backward;
        if (product) sum += kernel.flops.count();
      }
    }
  }
  return sum * static_cast<double>(ranks) / static_cast<double>(workload.programs.size());
}

}  // namespace

TEST_CASE("every schedule and sharding does the same products for a batch, however it is split") {
  constexpr std::int64_t kBatch = 16;
  const ModelSpec model = llama(8, 64, 4, 2, 96, 512);
  const auto flops = [&](const ParallelismSpec& plan, std::int64_t ranks) {
    const Result<Workload> built = build_workload(model, training(32, kBatch, 1), plan, ranks);
    if (!built.ok() && only_sharding(built.problems())) return 0.0;
    REQUIRE_MESSAGE(built.ok(), to_string(built.problems()));
    return product_flops(*built, ranks);
  };
  const double whole = flops(parallel(1), 1);
  int compared = 0;
  for (const RegistryRow& schedule : schedule_rows()) {
    for (const RegistryRow& sharding : sharding_rows()) {
      for (const std::int64_t pipeline : {1, 2, 4}) {
        const ScheduleRow& row = *find_schedule(schedule.name);
        if (row.slots == nullptr || !fits(row, pipeline, 8) || (row.chunks == 0 && pipeline == 1)) continue;
        for (const std::int64_t tensor : {1, 2}) {
          CAPTURE(schedule.name);
          CAPTURE(sharding.name);
          CAPTURE(pipeline);
          CAPTURE(tensor);
          ParallelismSpec plan = parallel(tensor, pipeline);
          plan.schedule.kind = schedule.name;
          plan.sharding.kind = sharding.name;
          const double split = flops(plan, 2 * tensor * pipeline);
          if (split == 0) continue;
          CHECK(split == doctest::Approx(whole).epsilon(1e-9));
          ++compared;
        }
      }
    }
  }
  CHECK(compared > 100);
}
