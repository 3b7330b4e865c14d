#include "sim/exec/executor/memory_ledger.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace orrery {

namespace {

using namespace literals;

constexpr Bytes kRounding = 512_B;         // kMinBlockSize
constexpr Bytes kOwnSegmentFrom = 10_MiB;  // kMinLargeAlloc
constexpr Bytes kSegmentRounding = 2_MiB;  // kRoundLarge
constexpr Bytes kLeastRemainder = 1_MiB;   // kSmallSize: a remainder up to this stays with its block

Bytes round_up(Bytes bytes, Bytes unit) { return Bytes(divide_up(bytes.count(), unit.count()) * unit.count()); }

}  // namespace

Bytes allocated_size(Bytes bytes) {
  ORRERY_CHECK(bytes >= Bytes(0), "a size is not negative", bytes.count());
  const Bytes block = round_up(bytes, kRounding);
  if (block < kOwnSegmentFrom) return block;
  const Bytes segment = round_up(block, kSegmentRounding);
  return segment - block > kLeastRemainder ? block : segment;
}

MemoryLedger::MemoryLedger(const Program& program) {
  for (const MemoryOperation& operation : program.resident_memory()) {
    apply(operation);
    note_peak(TaskId());
  }
  resident_ = allocated_;
  const auto tasks = program.tasks();
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    if (tasks[t].memory_begin == tasks[t].memory_end) continue;
    const Bytes before = allocated_;
    Bytes highest{};
    for (const MemoryOperation& operation : program.memory(tasks[t])) {
      apply(operation);
      note_peak(TaskId(t));
      highest = std::max(highest, allocated_);
    }
    steps_.push_back(
        {static_cast<std::uint32_t>(t), highest, allocated_, highest > before, allocated_ < std::max(highest, before)});
  }
}

// A free takes at most what its tag has: several blocks that were counted together may be freed one by one, each
// rounded up for itself.
void MemoryLedger::apply(const MemoryOperation& operation) {
  Bytes& tag = by_tag_[static_cast<std::size_t>(operation.tag)];
  Bytes change = operation.bytes >= Bytes(0) ? allocated_size(operation.bytes)
                                             : Bytes(0) - allocated_size(Bytes(0) - operation.bytes);
  change = std::max(change, Bytes(0) - tag);
  tag += change;
  allocated_ += change;
}

TaskId MemoryLedger::first_beyond(Bytes limit) const {
  if (resident_ > limit) return TaskId();
  const auto found = std::find_if(steps_.begin(), steps_.end(), [&](const Step& step) { return step.highest > limit; });
  return found == steps_.end() ? TaskId() : TaskId(std::size_t{found->task});
}

void MemoryLedger::note_peak(TaskId task) {
  if (allocated_ <= peak_) return;
  peak_ = allocated_;
  peak_by_tag_ = by_tag_;
  peak_task_ = task;
}

}  // namespace orrery
