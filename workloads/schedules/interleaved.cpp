// Interleaved 1F1B (Narayanan et al. 2021; Megatron-LM's forward_backward_pipelining_with_interleaving): each stage
// holds v chunks of the model, and micro-batches go round in groups of p: p micro-batches through chunk 0, the same p
// through chunk 1, and so on; backward from the last chunk to the first. Stage s starts 2 (p - s - 1) + (v - 1) p
// passes ahead. The bubble shrinks v times.
#include <algorithm>

#include "workloads/schedules/schedule.hpp"

namespace orrery {

Slot interleaved_turn(const ScheduleShape& shape, Pass pass, std::int64_t k) {
  const std::int64_t round = shape.stages * shape.chunks;
  const std::int64_t place = k % round;
  const std::int64_t chunk = place / shape.stages;
  const std::int64_t micro_batch = k / round * shape.stages + place % shape.stages;
  return {pass, static_cast<std::int32_t>(micro_batch),
          static_cast<std::int32_t>(pass == Pass::forward ? chunk : shape.chunks - 1 - chunk)};
}

std::int64_t interleaved_warm_up(const ScheduleShape& shape, std::int64_t stage) {
  return 2 * (shape.stages - stage - 1) + (shape.chunks - 1) * shape.stages;
}

std::vector<Slot> interleaved_slots(const ScheduleShape& shape, std::int64_t stage) {
  std::vector<Slot> slots;
  const std::int64_t total = shape.micro_batches * shape.chunks;
  const std::int64_t warm_up = std::min(interleaved_warm_up(shape, stage), total);
  for (std::int64_t k = 0; k < warm_up; ++k) slots.push_back(interleaved_turn(shape, Pass::forward, k));
  for (std::int64_t k = warm_up; k < total; ++k) {
    slots.push_back(interleaved_turn(shape, Pass::forward, k));
    slots.push_back(interleaved_turn(shape, Pass::backward, k - warm_up));
  }
  for (std::int64_t k = total - warm_up; k < total; ++k) slots.push_back(interleaved_turn(shape, Pass::backward, k));
  return slots;
}

}  // namespace orrery
