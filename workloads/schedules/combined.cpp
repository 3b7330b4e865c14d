// 1F1B whose steady state runs each forward pass beside the backward pass behind it, so that the rows of one
// micro-batch travel to experts and back while the other computes: Megatron-LM with --overlap-moe-expert-parallel-comm
// (megatron/core/pipeline_parallel/combined_1f1b.py; schedules.py, get_pp_rank_microbatches).
//
//   without a pipeline  F0, then F1 beside B0, F2 beside B1, ..., and the last backward pass
//                       (combined_1f1b_schedule_for_no_pipelining)
//   interleaved         Megatron's order with one forward pass more in the warm-up, so that the two passes of a pair
//                       are of different micro-batches on the last stage too
//                       (combined_1f1b_schedule_for_interleaved_pipelining)
//
// One forward pass more is in flight, and in memory, than without. A plain pipeline of one chunk per stage Megatron
// refuses. How the two passes of a pair take turns: emit/step.cpp, pair.
#include <algorithm>

#include "workloads/schedules/schedule.hpp"

namespace orrery {

std::vector<Slot> combined_slots(const ScheduleShape& shape, std::int64_t stage) {
  std::vector<Slot> slots;
  const std::int64_t total = shape.micro_batches * shape.chunks;
  const std::int64_t ahead = interleaved_warm_up(shape, stage) + 1;
  const std::int64_t warm_up = std::min(ahead, total);
  for (std::int64_t k = 0; k < warm_up; ++k) slots.push_back(interleaved_turn(shape, Pass::forward, k));
  for (std::int64_t k = warm_up; k < total; ++k) {
    slots.push_back(interleaved_turn(shape, Pass::forward, k));
    slots.back().paired = true;
    slots.push_back(interleaved_turn(shape, Pass::backward, k - warm_up));
  }
  for (std::int64_t k = total - warm_up; k < total; ++k) {
    slots.push_back(interleaved_turn(shape, Pass::backward, k));
  }
  return slots;
}

}  // namespace orrery
