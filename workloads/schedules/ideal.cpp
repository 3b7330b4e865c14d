#include "workloads/schedules/ideal.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>

namespace orrery {

namespace {

class Player {
 public:
  Player(const Schedule& schedule, const PassTimes& times)
      : schedule_(schedule), times_(times), next_(schedule.slots.size(), 0) {
    const auto cells = static_cast<std::size_t>(schedule.shape.stages * schedule.shape.chunks);
    const auto batches = static_cast<std::size_t>(schedule.shape.micro_batches);
    forward_end_.assign(cells, std::vector<std::int64_t>(batches, -1));
    input_end_ = forward_end_;
    for (const std::vector<Slot>& slots : schedule.slots) run_.times.emplace_back(slots.size());
  }

  IdealRun run() && {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t s = 0; s < next_.size(); ++s) {
        while (next_[s] < schedule_.slots[s].size() && play(s)) moved = true;
      }
    }
    for (std::size_t s = 0; s < next_.size(); ++s) {
      if (next_[s] < schedule_.slots[s].size()) run_.blocked.push_back(why_blocked(s));
    }
    return std::move(run_);
  }

 private:
  [[nodiscard]] std::size_t cell(const ChunkPlace& at) const {
    return static_cast<std::size_t>(at.stage * schedule_.shape.chunks + at.chunk);
  }

  // The chunk whose pass must have ended, if any: that of the virtual stage before, or behind. (That a stage's own
  // earlier passes come first is for check_schedule to say.)
  [[nodiscard]] std::optional<ChunkPlace> needed(std::size_t stage, const Slot& slot) const {
    if (slot.pass == Pass::backward_weight) return std::nullopt;
    VirtualStage v = schedule_.placement.at(static_cast<std::int64_t>(stage), slot.chunk);
    v.index += slot.pass == Pass::forward ? -1 : 1;
    if (v.index < 0 || v.index == schedule_.placement.virtual_stages()) return std::nullopt;
    return schedule_.placement.place_of(v);
  }

  // When what a slot needs of other stages is there; nothing while it is not.
  [[nodiscard]] std::optional<std::int64_t> arrival(std::size_t s, const Slot& slot) const {
    const std::optional<ChunkPlace> from = needed(s, slot);
    if (!from) return 0;
    const auto batch = static_cast<std::size_t>(slot.micro_batch);
    const std::int64_t there = (slot.pass == Pass::forward ? forward_end_ : input_end_)[cell(*from)][batch];
    return there < 0 ? std::nullopt : std::optional(there);
  }

  void end(std::size_t s, std::size_t i, const SlotTime& time) {
    const Slot& slot = schedule_.slots[s][i];
    const auto batch = static_cast<std::size_t>(slot.micro_batch);
    const std::size_t own = cell({static_cast<std::int64_t>(s), slot.chunk});
    run_.times[s][i] = time;
    if (slot.pass == Pass::forward) forward_end_[own][batch] = time.end;
    if (makes_input_gradients(slot.pass)) input_end_[own][batch] = time.end;
  }

  // Plays the next slot of a stage, and the one that is paired with it; false when it must wait.
  bool play(std::size_t s) {
    const std::size_t i = next_[s];
    const std::vector<Slot>& slots = schedule_.slots[s];
    const bool pair = times_.pair > 0 && slots[i].paired && i + 1 < slots.size();
    std::int64_t begin = i == 0 ? 0 : run_.times[s][i - 1].end;
    for (std::size_t k = i; k <= i + (pair ? 1 : 0); ++k) {
      const std::optional<std::int64_t> there = arrival(s, slots[k]);
      if (!there) return false;
      begin = std::max(begin, *there);
    }
    const std::int64_t ends = begin + (pair ? times_.pair : times_.of(slots[i].pass));
    end(s, next_[s]++, {begin, ends});
    if (pair) end(s, next_[s]++, {begin, ends});
    return true;
  }

  [[nodiscard]] ScheduleMistake why_blocked(std::size_t s) const {
    const Slot& slot = schedule_.slots[s][next_[s]];
    const ChunkPlace from = *needed(s, slot);
    const auto& others = schedule_.slots[static_cast<std::size_t>(from.stage)];
    const auto found = std::find_if(others.begin(), others.end(), [&](const Slot& other) {
      const bool alike = slot.pass == Pass::forward ? other.pass == Pass::forward : makes_input_gradients(other.pass);
      return alike && other.micro_batch == slot.micro_batch && other.chunk == from.chunk;
    });
    return {
        fmt::format("stage {} waits for ever at its slot {} ({}{} of chunk {}) for slot {} of stage {}", s, next_[s],
                    letter_of(slot.pass), slot.micro_batch, slot.chunk, found - others.begin(), from.stage),
        static_cast<std::int64_t>(s), static_cast<std::int64_t>(next_[s])};
  }

  const Schedule& schedule_;
  const PassTimes& times_;
  std::vector<std::size_t> next_;                       // [stages]
  std::vector<std::vector<std::int64_t>> forward_end_;  // [stages x chunks][micro-batches]; -1: not yet
  std::vector<std::vector<std::int64_t>> input_end_;    // the same for gradients of inputs
  IdealRun run_;
};

}  // namespace

std::int64_t IdealRun::step() const {
  std::int64_t last = 0;
  for (const auto& stage : times) {
    if (!stage.empty()) last = std::max(last, stage.back().end);
  }
  return last;
}

std::int64_t IdealRun::busy(std::size_t stage) const {
  std::int64_t sum = 0;
  std::int64_t until = 0;  // two that run together count once
  for (const SlotTime& slot : times[stage]) {
    sum += slot.end - std::max(until, slot.begin);
    until = slot.end;
  }
  return sum;
}

std::int64_t IdealRun::idle_within(std::size_t stage) const {
  if (times[stage].empty()) return 0;
  return times[stage].back().end - times[stage].front().begin - busy(stage);
}

IdealRun play_ideally(const Schedule& schedule, const PassTimes& times) { return Player(schedule, times).run(); }

}  // namespace orrery
