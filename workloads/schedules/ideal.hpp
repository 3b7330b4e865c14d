// A schedule played with given times of passes and transfers that take none: what it is worth on paper.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "workloads/schedules/schedule.hpp"

namespace orrery {

// In any unit; the same on all virtual stages. Of one chunk.
struct PassTimes {
  std::int64_t forward = 1;
  std::int64_t backward = 2;
  std::int64_t backward_input = 1;
  std::int64_t backward_weight = 1;
  // Of two paired passes, which then begin and end together; 0: one runs after the other, and each hands on its result
  // when it has ended itself.
  std::int64_t pair = 0;

  [[nodiscard]] std::int64_t of(Pass pass) const {
    return std::array{forward, backward, backward_input, backward_weight}[static_cast<std::size_t>(pass)];
  }
};

struct SlotTime {
  std::int64_t begin = -1;  // -1: never
  std::int64_t end = -1;
};

struct IdealRun {
  std::vector<std::vector<SlotTime>> times;  // [stages][slots]
  std::vector<ScheduleMistake> blocked;      // one per stage that waits for ever, and for what

  [[nodiscard]] std::int64_t step() const;  // from the first begin to the last end
  // How long a stage idles between its first pass and its last. (Zero-bubble schedules count so: their steps overlap.)
  [[nodiscard]] std::int64_t idle_within(std::size_t stage) const;
  [[nodiscard]] std::int64_t busy(std::size_t stage) const;
};

// Each slot begins when the one before it on its stage has ended and what it needs of other stages is there.
// O(slots x stages).
[[nodiscard]] IdealRun play_ideally(const Schedule& schedule, const PassTimes& times = {});

}  // namespace orrery
