// From model and plan to the programs of all roles: the one entry of this folder.
#pragma once

#include "sim/base/problem.hpp"
#include "sim/graph/workload.hpp"
#include "workloads/model.hpp"
#include "workloads/plan.hpp"

namespace orrery {

// Everything that is wrong with the combination: degrees that do not divide, batches that do not fit, options a
// strategy does not have, combinations that no framework runs. Keys as in the scenario ("parallelism.tensor"); the note
// names the nearest valid value. `ranks` is the number of GPUs. Empty when build_workload will succeed, or
// (micro-batches that are to be found) would with one of possible_micro_batches().
[[nodiscard]] Problems check_plan(const ModelSpec& model, const TrainingSpec& training,
                                  const ParallelismSpec& parallelism, std::int64_t ranks);

// What matrix products are computed in: all of them, or with fp8 those of linear operators.
[[nodiscard]] Precision compute_precision(PrecisionRecipe recipe);

// The training step. Rank order is Megatron's: tensor fastest, then context, data, pipeline slowest.
// Returns check_plan's problems when there are any; the micro-batch must be a number. O(roles x tasks + ranks x group
// kinds).
[[nodiscard]] Result<Workload> build_workload(const ModelSpec& model, const TrainingSpec& training,
                                              const ParallelismSpec& parallelism, std::int64_t ranks);

}  // namespace orrery
