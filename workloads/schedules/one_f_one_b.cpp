// 1F1B (PipeDream-flush; Megatron-LM's forward_backward_pipelining_without_interleaving): stage s of p runs
// p - s - 1 forward passes ahead, then alternates, then drains. At most p - s activations are held.
#include <algorithm>

#include "workloads/schedules/schedule.hpp"

namespace orrery {

std::vector<Slot> one_f_one_b_slots(const ScheduleShape& shape, std::int64_t stage) {
  std::vector<Slot> slots;
  const auto m = static_cast<std::int32_t>(shape.micro_batches);
  const auto warm_up = static_cast<std::int32_t>(std::min(shape.stages - stage - 1, shape.micro_batches));
  for (std::int32_t i = 0; i < warm_up; ++i) slots.push_back({Pass::forward, i, 0});
  for (std::int32_t i = warm_up; i < m; ++i) {
    slots.push_back({Pass::forward, i, 0});
    slots.push_back({Pass::backward, i - warm_up, 0});
  }
  for (std::int32_t i = m - warm_up; i < m; ++i) slots.push_back({Pass::backward, i, 0});
  return slots;
}

}  // namespace orrery
