// What is wrong with a schedule: first each stage by itself, then the stages with one another.
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <utility>

#include "workloads/schedules/ideal.hpp"
#include "workloads/schedules/schedule.hpp"

namespace orrery {

namespace {

// How often each pass has run: of one micro-batch on one chunk.
struct Runs {
  int forward = 0;
  int whole = 0;
  int input = 0;
  int weight = 0;
};

class StageCheck {
 public:
  StageCheck(const Schedule& schedule, std::size_t stage, std::vector<ScheduleMistake>& mistakes)
      : schedule_(schedule), stage_(stage), mistakes_(mistakes) {
    runs_.resize(static_cast<std::size_t>(schedule.shape.chunks * schedule.shape.micro_batches));
  }

  void run() && {
    for (slot_ = 0; slot_ < schedule_.slots[stage_].size(); ++slot_) count(schedule_.slots[stage_][slot_]);
    for (std::int64_t c = 0; c < schedule_.shape.chunks; ++c) {
      const std::int64_t copy = schedule_.placement.at(static_cast<std::int64_t>(stage_), c).copy;
      const MicroBatches batches = micro_batches_of(schedule_, copy);
      for (std::int64_t m = batches.first; m < batches.end; ++m) complete(c, m);
    }
  }

 private:
  [[nodiscard]] Runs& runs(std::int64_t chunk, std::int64_t micro_batch) {
    return runs_[static_cast<std::size_t>(chunk * schedule_.shape.micro_batches + micro_batch)];
  }

  [[nodiscard]] bool exists(const Slot& slot) const {
    if (slot.chunk < 0 || slot.chunk >= schedule_.shape.chunks) return false;
    const std::int64_t copy = schedule_.placement.at(static_cast<std::int64_t>(stage_), slot.chunk).copy;
    const MicroBatches batches = micro_batches_of(schedule_, copy);
    return slot.micro_batch >= batches.first && slot.micro_batch < batches.end;
  }

  void count(const Slot& slot) {
    if (!exists(slot)) {
      add(fmt::format("stage {}: micro-batch {} of chunk {} does not exist", stage_, slot.micro_batch, slot.chunk));
      return;
    }
    Runs& r = runs(slot.chunk, slot.micro_batch);
    const auto early = [&](const char* what, const char* before) {
      add(fmt::format("stage {}: {} of micro-batch {} of chunk {} comes before its {}", stage_, what, slot.micro_batch,
                      slot.chunk, before));
    };
    switch (slot.pass) {
      case Pass::forward:
        ++r.forward;
        break;
      case Pass::backward:
        if (r.forward == 0) early("backward", "forward");
        ++r.whole;
        break;
      case Pass::backward_input:
        if (r.forward == 0) early("backward", "forward");
        ++r.input;
        break;
      case Pass::backward_weight:
        if (r.input == 0) early("the weight half", "input half");
        ++r.weight;
        break;
    }
  }

  void complete(std::int64_t chunk, std::int64_t micro_batch) {
    const Runs& r = runs(chunk, micro_batch);
    const bool backward = r.whole == 1 ? r.input + r.weight == 0 : r.whole == 0 && r.input == 1 && r.weight == 1;
    if (r.forward == 1 && backward) return;
    mistakes_.push_back(
        {fmt::format("stage {}: micro-batch {} of chunk {} runs {} times forward, {} backward, {} and {} by halves",
                     stage_, micro_batch, chunk, r.forward, r.whole, r.input, r.weight),
         static_cast<std::int64_t>(stage_)});
  }

  void add(std::string text) {
    mistakes_.push_back({std::move(text), static_cast<std::int64_t>(stage_), static_cast<std::int64_t>(slot_)});
  }

  const Schedule& schedule_;
  std::size_t stage_;
  std::size_t slot_ = 0;  // under way
  std::vector<ScheduleMistake>& mistakes_;
  std::vector<Runs> runs_;  // [chunks][micro-batches]
};

// The micro-batches of a chunk in the order of their forward passes, or of the passes that make gradients of inputs.
std::vector<std::int32_t> order(const Schedule& schedule, const ChunkPlace& at, bool forward) {
  std::vector<std::int32_t> found;
  for (const Slot& slot : schedule.slots[static_cast<std::size_t>(at.stage)]) {
    if (slot.chunk != at.chunk) continue;
    if (forward ? slot.pass == Pass::forward : makes_input_gradients(slot.pass)) found.push_back(slot.micro_batch);
  }
  return found;
}

// Transfers between two virtual stages match in order.
void check_order(const Schedule& schedule, std::vector<ScheduleMistake>& mistakes) {
  const PipelinePlacement& placement = schedule.placement;
  for (std::int64_t copy = 0; copy < placement.copies(); ++copy) {
    for (std::int64_t v = 0; v + 1 < placement.virtual_stages(); ++v) {
      const ChunkPlace low = placement.place_of({v, copy});
      const ChunkPlace high = placement.place_of({v + 1, copy});
      if (low.stage == high.stage) continue;
      for (const bool forward : {true, false}) {
        const std::vector<std::int32_t> a = order(schedule, low, forward);
        const std::vector<std::int32_t> b = order(schedule, high, forward);
        const auto [at, other] = std::mismatch(a.begin(), a.end(), b.begin(), b.end());
        if (at == a.end()) continue;
        mistakes.push_back({fmt::format("stages {} and {} run the micro-batches {} in different orders: {} and {}",
                                        low.stage, high.stage, forward ? "forward" : "backward", *at, *other),
                            high.stage});
      }
    }
  }
}

}  // namespace

MicroBatches micro_batches_of(const Schedule& schedule, std::int64_t copy) {
  const std::int64_t each = schedule.shape.micro_batches / schedule.placement.copies();
  return {copy * each, (copy + 1) * each};
}

bool has_halves(const Schedule& schedule) {
  return std::any_of(schedule.slots.begin(), schedule.slots.end(), [](const std::vector<Slot>& slots) {
    return std::any_of(slots.begin(), slots.end(), [](const Slot& slot) { return slot.pass == Pass::backward_weight; });
  });
}

std::vector<ScheduleMistake> check_schedule(const Schedule& schedule) {
  if (static_cast<std::int64_t>(schedule.slots.size()) != schedule.shape.stages) {
    return {{fmt::format("{} stages have slots, not {}", schedule.slots.size(), schedule.shape.stages)}};
  }
  std::vector<ScheduleMistake> mistakes;
  for (std::size_t s = 0; s < schedule.slots.size(); ++s) StageCheck(schedule, s, mistakes).run();
  if (mistakes.empty()) mistakes = play_ideally(schedule).blocked;
  if (mistakes.empty()) check_order(schedule, mistakes);
  return mistakes;
}

std::int64_t activations_in_flight(std::span<const Slot> slots) {
  std::int64_t held = 0;
  std::int64_t most = 0;
  for (const Slot& slot : slots) {
    if (slot.pass == Pass::forward) ++held;
    most = std::max(most, held);
    if (makes_weight_gradients(slot.pass)) --held;
  }
  return most;
}

}  // namespace orrery
