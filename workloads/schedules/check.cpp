#include <fmt/core.h>

#include <algorithm>

#include "workloads/schedules/schedule.hpp"

namespace orrery {

namespace {

// Where each pass has got to: [chunk][micro-batch] of one stage.
struct Progress {
  std::vector<bool> forward;
  std::vector<bool> backward;
};

std::size_t cell(const ScheduleShape& shape, std::int64_t chunk, std::int64_t micro_batch) {
  return static_cast<std::size_t>(chunk * shape.micro_batches + micro_batch);
}

void check_stage(const ScheduleShape& shape, std::span<const Slot> slots, std::size_t stage,
                 std::vector<std::string>& mistakes) {
  const auto cells = static_cast<std::size_t>(shape.chunks * shape.micro_batches);
  std::vector<int> forward(cells, 0);
  std::vector<int> backward(cells, 0);
  for (const Slot& slot : slots) {
    const bool in_range =
        slot.micro_batch >= 0 && slot.micro_batch < shape.micro_batches && slot.chunk >= 0 && slot.chunk < shape.chunks;
    if (!in_range) {
      mistakes.push_back(
          fmt::format("stage {}: micro-batch {} of chunk {} does not exist", stage, slot.micro_batch, slot.chunk));
      continue;
    }
    const std::size_t at = cell(shape, slot.chunk, slot.micro_batch);
    if (slot.direction == Direction::forward) {
      ++forward[at];
    } else {
      if (forward[at] == 0) {
        mistakes.push_back(fmt::format("stage {}: backward of micro-batch {} of chunk {} comes before its forward",
                                       stage, slot.micro_batch, slot.chunk));
      }
      ++backward[at];
    }
  }
  for (std::int64_t c = 0; c < shape.chunks; ++c) {
    for (std::int64_t m = 0; m < shape.micro_batches; ++m) {
      const std::size_t at = cell(shape, c, m);
      if (forward[at] != 1 || backward[at] != 1) {
        mistakes.push_back(fmt::format("stage {}: micro-batch {} of chunk {} runs {} times forward and {} backward",
                                       stage, m, c, forward[at], backward[at]));
      }
    }
  }
}

// Whether the stage before (forward) or after (backward) has delivered what a slot needs.
bool ready(const ScheduleShape& shape, std::span<const Progress> progress, std::int64_t stage, const Slot& slot) {
  const std::int64_t virtual_stage = slot.chunk * shape.stages + stage;
  const bool forward = slot.direction == Direction::forward;
  const std::int64_t from = forward ? virtual_stage - 1 : virtual_stage + 1;
  if (from < 0) return true;
  if (from >= shape.stages * shape.chunks) return true;
  const Progress& other = progress[static_cast<std::size_t>(from % shape.stages)];
  const std::size_t at = cell(shape, from / shape.stages, slot.micro_batch);
  return forward ? other.forward[at] : other.backward[at];
}

// Runs the stages as far as they get; each slot takes as long as it likes.
void check_progress(const ScheduleShape& shape, std::span<const std::vector<Slot>> slots,
                    std::vector<std::string>& mistakes) {
  const auto cells = static_cast<std::size_t>(shape.chunks * shape.micro_batches);
  std::vector<Progress> progress(slots.size(), {std::vector<bool>(cells), std::vector<bool>(cells)});
  std::vector<std::size_t> next(slots.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t s = 0; s < slots.size(); ++s) {
      while (next[s] < slots[s].size() && ready(shape, progress, static_cast<std::int64_t>(s), slots[s][next[s]])) {
        const Slot& slot = slots[s][next[s]++];
        auto& done = slot.direction == Direction::forward ? progress[s].forward : progress[s].backward;
        done[cell(shape, slot.chunk, slot.micro_batch)] = true;
        moved = true;
      }
    }
  }
  for (std::size_t s = 0; s < slots.size(); ++s) {
    if (next[s] == slots[s].size()) continue;
    const Slot& slot = slots[s][next[s]];
    mistakes.push_back(fmt::format("stage {} waits for ever before the {} pass of micro-batch {} of chunk {}", s,
                                   slot.direction == Direction::forward ? "forward" : "backward", slot.micro_batch,
                                   slot.chunk));
  }
}

}  // namespace

std::vector<std::string> check_schedule(const ScheduleShape& shape, std::span<const std::vector<Slot>> slots) {
  std::vector<std::string> mistakes;
  if (static_cast<std::int64_t>(slots.size()) != shape.stages) {
    return {fmt::format("{} stages have slots, not {}", slots.size(), shape.stages)};
  }
  for (std::size_t s = 0; s < slots.size(); ++s) check_stage(shape, slots[s], s, mistakes);
  if (mistakes.empty()) check_progress(shape, slots, mistakes);
  return mistakes;
}

std::int64_t activations_in_flight(std::span<const Slot> slots) {
  std::int64_t held = 0;
  std::int64_t most = 0;
  for (const Slot& slot : slots) {
    held += slot.direction == Direction::forward ? 1 : -1;
    most = std::max(most, held);
  }
  return most;
}

}  // namespace orrery
