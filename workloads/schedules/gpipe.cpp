// GPipe (Huang et al. 2019): all forward passes, then all backward passes, last micro-batch first, since its
// activations are the newest. Every activation is held at the turning point.
#include "workloads/schedules/schedule.hpp"

namespace orrery {

std::vector<Slot> gpipe_slots(const ScheduleShape& shape, std::int64_t /*stage*/) {
  std::vector<Slot> slots;
  const auto m = static_cast<std::int32_t>(shape.micro_batches);
  for (std::int32_t i = 0; i < m; ++i) slots.push_back({Pass::forward, i, 0});
  for (std::int32_t i = m; i-- > 0;) slots.push_back({Pass::backward, i, 0});
  return slots;
}

}  // namespace orrery
