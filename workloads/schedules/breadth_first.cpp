// Looped breadth-first (Lamy-Poirier 2023, "Breadth-First Pipeline Parallelism"; PyTorch's ScheduleLoopedBFS): all
// micro-batches through the first chunk, then all through the next, and back in the reverse order. With m >= p the
// bubble is that of interleaving, (p - 1) / v passes through a stage, but every activation is held at the turning
// point, as in GPipe; what it buys is that sharded parameters are gathered once per chunk, not once per round.
#include "workloads/schedules/schedule.hpp"

namespace orrery {

std::vector<Slot> breadth_first_slots(const ScheduleShape& shape, std::int64_t /*stage*/) {
  std::vector<Slot> slots;
  const auto m = static_cast<std::int32_t>(shape.micro_batches);
  const auto v = static_cast<std::int32_t>(shape.chunks);
  for (std::int32_t c = 0; c < v; ++c) {
    for (std::int32_t i = 0; i < m; ++i) slots.push_back({Pass::forward, i, c});
  }
  for (std::int32_t c = v; c-- > 0;) {
    for (std::int32_t i = m; i-- > 0;) slots.push_back({Pass::backward, i, c});
  }
  return slots;
}

}  // namespace orrery
