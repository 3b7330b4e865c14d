// What is wrong with what a plan trains, or not simulated together with it. Part of check_plan().
#pragma once

#include <cstdint>

#include "sim/base/problem.hpp"
#include "workloads/model.hpp"
#include "workloads/plan.hpp"

namespace orrery {

// The model is sound (check()).
[[nodiscard]] Problems check_trainable(const ModelSpec& model, const TrainingSpec& training,
                                       const ParallelismSpec& parallelism);

}  // namespace orrery
