// Rows that travel to experts beside the pass of another micro-batch in the other direction: what Megatron-LM asks of
// plans with --overlap-moe-expert-parallel-comm (megatron/core/transformer/transformer_config.py, __post_init__). The
// schedule: schedules/combined.cpp.
//
// Left out: weight gradients that wait until rows travel (--delay-wgrad-compute), and the multi-token prediction layer
// that Megatron allows beside it.
#pragma once

#include "sim/base/problem.hpp"
#include "workloads/model.hpp"
#include "workloads/plan.hpp"

namespace orrery {

// What Megatron refuses. Nothing where the plan does not ask for it. Its choices must be sound.
[[nodiscard]] Problems check_expert_overlap(const ModelSpec& model, const TrainingSpec& training,
                                            const ParallelismSpec& parallelism);

}  // namespace orrery
