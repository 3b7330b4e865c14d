// Zero-bubble schedules of one chunk per stage (Qi et al. 2024, "Zero Bubble Pipeline Parallelism"; the hand-made ones
// of sections 2.2 and 2.3, Figures 2 and 3). As 1F1B, with the backward pass in halves: the stage before waits for the
// input half alone, and the weight half fills what would be idle.
//
// Both are one rule. Stage s runs so many forward passes ahead, then alternates, and its weight halves lag so many
// micro-batches behind its input halves:
//
//            ahead             lag     in flight at most
//   ZB-H1    p - s - 1         s       p
//   ZB-H2    2 (p - s - 1)     2 s     2 p - 1
//
// Ahead + 1 + lag micro-batches are held, the same on all stages.
//
// Bubbles, for F = B = W = 1 (B: the input half). In both, the first input half ends on the last stage at p + 1 and
// reaches stage 0 at 2 p - 1. ZB-H1 has done p forward passes there by then and has idled for p - 1 = (p - 1)
// (F + B - W); from then on it always has something to do, and 1F1B idles for three times as long. ZB-H2 has done
// 2 p - 1 forward passes and does not idle: no stage does between its first pass and its last. But stage s begins s
// after stage 0 and ends as much later, so that the bubble is gone only where stages need not wait for one another at
// the end of the step; for that the paper replaces the synchronisation of the gradients' norm by a check afterwards
// (section 4). Here the norm is reduced as in all other schedules, and a step of ZB-H2 takes p - 1 longer than its
// passes. It buys room for times that are not equal.
//
// For unequal times the paper searches orders with a heuristic and an integer programme
// (megatron/core/pipeline_parallel/zerobubble/scheduler/zb.py); this is the rule for equal ones, as PyTorch's
// ScheduleInterleavedZeroBubble has it for ZB-H1.
#include <algorithm>

#include "workloads/schedules/schedule.hpp"

namespace orrery {

namespace {

std::vector<Slot> lagging_slots(std::int64_t micro_batches, std::int64_t ahead, std::int64_t lag) {
  std::vector<Slot> slots;
  const auto m = static_cast<std::int32_t>(micro_batches);
  const auto warm_up = static_cast<std::int32_t>(std::min(ahead, micro_batches));
  const auto behind = static_cast<std::int32_t>(std::min(lag, micro_batches));
  for (std::int32_t i = 0; i < warm_up; ++i) slots.push_back({Pass::forward, i, 0});
  for (std::int32_t i = 0; i < m; ++i) {
    if (i + warm_up < m) slots.push_back({Pass::forward, i + warm_up, 0});
    slots.push_back({Pass::backward_input, i, 0});
    if (i >= behind) slots.push_back({Pass::backward_weight, i - behind, 0});
  }
  for (std::int32_t i = m - behind; i < m; ++i) slots.push_back({Pass::backward_weight, i, 0});
  return slots;
}

}  // namespace

std::vector<Slot> zb_h1_slots(const ScheduleShape& shape, std::int64_t stage) {
  return lagging_slots(shape.micro_batches, shape.stages - stage - 1, stage);
}

std::vector<Slot> zb_h2_slots(const ScheduleShape& shape, std::int64_t stage) {
  return lagging_slots(shape.micro_batches, 2 * (shape.stages - stage - 1), 2 * stage);
}

}  // namespace orrery
