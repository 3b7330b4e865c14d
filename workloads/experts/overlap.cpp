#include "workloads/experts/overlap.hpp"

#include <fmt/core.h>

#include <string>
#include <utility>

#include "workloads/experts/dispatch.hpp"
#include "workloads/options.hpp"
#include "workloads/schedules/schedule.hpp"

namespace orrery {

Problems check_expert_overlap(const ModelSpec& model, const TrainingSpec& training,
                              const ParallelismSpec& parallelism) {
  Problems problems;
  if (!overlaps_experts(parallelism.schedule)) return problems;
  const auto refuse = [&](bool holds, std::string key, std::string message, std::string note) {
    if (holds) problems.push_back({std::move(key), std::move(message), std::move(note)});
  };
  const std::string asked = fmt::format("parallelism.schedule.{}", kOverlapExperts);
  refuse(model.experts == 0 || parallelism.expert == 1, asked, "no rows travel without expert parallelism",
         "set parallelism.expert, or leave this out");
  refuse(parallelism.pipeline > 1 && chunks_of(parallelism.schedule, parallelism.pipeline) == 1, asked,
         "Megatron-LM overlaps experts in a pipeline with virtual stages only",
         "use interleaved-1f1b with virtual_stages: 2");
  const std::string& dispatch = parallelism.dispatch.kind;
  refuse(dispatch == "all-gather", "parallelism.dispatch",
         fmt::format("Megatron-LM does not overlap dispatch by {}", dispatch), "nearest valid: all-to-all");
  const DispatchRow* row = find_dispatch(dispatch);
  refuse(row != nullptr && boolean_option(parallelism.dispatch, row->row, "overlap_shared_experts"),
         "parallelism.dispatch.overlap_shared_experts",
         "Megatron-LM overlaps either shared experts or another micro-batch's pass", "leave one of them out");
  refuse(training.recompute == Recompute::full, "training.recompute",
         "Megatron-LM overlaps experts without full recomputation", "nearest valid: selective");
  const bool low = training.precision == PrecisionRecipe::fp32 || training.precision == PrecisionRecipe::tf32;
  refuse(low, "training.precision", "Megatron-LM overlaps experts of 16-bit models only", "nearest valid: bf16");
  const std::string& sharding = parallelism.sharding.kind;
  refuse(sharding != "none" && sharding != "distributed-optimizer", "parallelism.sharding",
         fmt::format("{} is not simulated with overlapped experts", sharding),
         "nearest valid: distributed-optimizer or none");
  return problems;
}

}  // namespace orrery
