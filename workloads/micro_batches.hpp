// Which micro-batches a plan can have.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/problem.hpp"
#include "workloads/model.hpp"
#include "workloads/plan.hpp"

namespace orrery {

// The divisors of a replica's part of the global batch that check_plan accepts, smallest first; whatever
// `training.micro_batch` is. Where there are none: what is wrong with micro-batches of one.
[[nodiscard]] Result<std::vector<std::int64_t>> possible_micro_batches(const ModelSpec& model,
                                                                       const TrainingSpec& training,
                                                                       const ParallelismSpec& parallelism,
                                                                       std::int64_t ranks);

}  // namespace orrery
