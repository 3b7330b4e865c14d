// The event queue: a priority queue with a total order, timers that can be re-armed in place, and lanes for events
// that are already sorted.
//
// Problem. A run pops hundreds of millions of events, each of which schedules about one more. Equal times are common
// (symmetric clusters), so ties must have an order that does not depend on how the queue is built.
//
// Method. The order is (time, phase, sequence number): among equals first come, first served. Entries lie by value in
// an implicit 4-ary heap: 32 bytes each, so that the four children of a node fill two cache lines, and a comparison is
// one of 128 bits without branches. Three things keep the heap short and cheap:
//  - Popping leaves a hole at the root. The next push, which usually comes from the handler of the event just popped,
//    falls into the hole and sinks from there, so that a pop and a push together cost one descent.
//  - A timer is an entry that knows its place in the heap: it can be moved or removed without being searched for.
//  - A lane is a queue of events that come in order anyway, as all events do that are scheduled after one
//    constant delay.
//    Only its head is in the heap; the rest waits in a ring buffer. Pushing to a lane costs nothing but the write.
//
// Invariants. Every entry is not less than its parent (the hole apart). The heads of all non-empty lanes are in the
// heap. position_[t] is where timer t's entry lies, or kIdle.
//
// Cost. push O(log n), pop O(log n), arm and disarm O(log n), where n counts plain events, armed timers and non-empty
// lanes. Allocates only when it grows beyond its largest size so far.
//
// Left out: calendar and ladder queues, which are faster only where the spread of times suits them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <new>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/base/ids.hpp"
#include "sim/base/int128.hpp"
#include "sim/engine/event.hpp"

namespace orrery {

using TimerId = Id<struct TimerTag>;
using LaneId = Id<struct LaneTag>;

namespace detail {

// The place of an event in the total order: 16 bytes, compared as one number. The first eight bits of `rank` are the
// phase, the others the sequence number (7 * 10^16 events).
struct EventKey {
  std::int64_t time = 0;
  std::uint64_t rank = 0;

  friend bool operator<(const EventKey& a, const EventKey& b) { return a.as_number() < b.as_number(); }
  friend bool operator==(const EventKey&, const EventKey&) = default;

  [[nodiscard]] Int128 as_number() const {
    return static_cast<Int128>((static_cast<UInt128>(static_cast<std::uint64_t>(time)) << 64) | rank);
  }
  [[nodiscard]] EventPhase phase() const { return static_cast<EventPhase>(rank >> kSequenceBits); }

  static constexpr int kSequenceBits = 56;
  static constexpr std::uint64_t kMaxSequence = (std::uint64_t{1} << kSequenceBits) - 1;
  static std::uint64_t make_rank(EventPhase phase, std::uint64_t sequence) {
    return (static_cast<std::uint64_t>(phase) << kSequenceBits) | sequence;
  }
};

struct QueueEntry {
  EventKey key;
  std::uint64_t target = 0;
  std::uint32_t kind = 0;
  std::uint32_t owner = 0;  // kPlain, a timer, or kLaneBit + a lane
};
static_assert(sizeof(QueueEntry) == 32);

// Storage that begins on a boundary of 128 bytes, so that the four children of a heap node are two whole cache lines.
template <class T>
struct AlignedAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{128};

  AlignedAllocator() = default;
  template <class U>
  explicit AlignedAllocator(const AlignedAllocator<U>&) {}

  T* allocate(std::size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kAlignment)); }
  void deallocate(T* pointer, std::size_t) { ::operator delete(pointer, kAlignment); }
  friend bool operator==(const AlignedAllocator&, const AlignedAllocator&) { return true; }
};

// Entries in arrival order: a ring buffer that doubles when full.
class EntryRing {
 public:
  [[nodiscard]] bool empty() const { return head_ == tail_; }
  [[nodiscard]] const QueueEntry& front() const { return slots_[head_ & mask()]; }
  void pop_front() { ++head_; }
  void push_back(const QueueEntry& entry) {
    if (tail_ - head_ == slots_.size()) grow();
    slots_[tail_++ & mask()] = entry;
  }

 private:
  [[nodiscard]] std::size_t mask() const { return slots_.size() - 1; }
  void grow() {
    std::vector<QueueEntry> larger(std::max<std::size_t>(16, slots_.size() * 2));
    const std::size_t count = tail_ - head_;
    for (std::size_t i = 0; i < count; ++i) larger[i] = slots_[(head_ + i) & mask()];
    slots_ = std::move(larger);
    head_ = 0;
    tail_ = count;
  }

  std::vector<QueueEntry> slots_;
  std::size_t head_ = 0;  // both count up for ever; the slot is the number modulo the size
  std::size_t tail_ = 0;
};

}  // namespace detail

// TimeInstant is a std::chrono::time_point over 64-bit integers. Arity is the number of children of a heap node.
template <class TimeInstant, std::size_t Arity = 4>
class EventQueue {
 public:
  using Time = TimeInstant;
  using Scheduled = ScheduledEvent<TimeInstant>;

  // Schedules a plain event. It cannot be taken back.
  void push(TimeInstant time, EventPhase phase, Event event) {
    insert({next_key(time, phase), event.target, event.kind, kPlain});
    ++size_;
  }

  // A timer that is not armed. Its phase and payload stay the same for its whole life.
  TimerId add_timer(EventPhase phase, Event event) {
    timers_.push_back({phase, event});
    position_.push_back(kIdle);
    ORRERY_CHECK(timers_.size() < kLaneBit, "too many timers");
    return TimerId(timers_.size() - 1);
  }

  // Makes the timer go off at `time`, whether it was armed before or not. Counts as newly scheduled among equals.
  void arm(TimerId timer, TimeInstant time) {
    const std::size_t t = timer.index();
    const detail::QueueEntry entry{next_key(time, timers_[t].phase), timers_[t].event.target, timers_[t].event.kind,
                                   static_cast<std::uint32_t>(t)};
    if (position_[t] == kIdle) {
      ++size_;
      insert(entry);
      return;
    }
    fill_hole();
    replace(position_[t], entry);
  }

  void disarm(TimerId timer) {
    const std::size_t t = timer.index();
    if (position_[t] == kIdle) return;
    fill_hole();
    const std::size_t hole = position_[t];
    position_[t] = kIdle;
    --size_;
    const detail::QueueEntry last = heap_.back();
    heap_.pop_back();
    if (hole < heap_.size()) replace(hole, last);
  }

  [[nodiscard]] bool armed(TimerId timer) const { return position_[timer.index()] != kIdle; }

  // A lane for events that are pushed in order of time and all have one phase.
  LaneId add_lane(EventPhase phase) {
    lanes_.push_back({{}, phase, std::numeric_limits<std::int64_t>::min()});
    return LaneId(lanes_.size() - 1);
  }

  // Schedules an event that is not earlier than the last one pushed to this lane.
  void push(LaneId lane_id, TimeInstant time, Event event) {
    Lane& lane = lanes_[lane_id.index()];
    const detail::QueueEntry entry{next_key(time, lane.phase), event.target, event.kind,
                                   kLaneBit | static_cast<std::uint32_t>(lane_id.value())};
    ORRERY_CHECK(entry.key.time >= lane.latest, "a lane takes events in order of time", entry.key.time, lane.latest);
    lane.latest = entry.key.time;
    if (lane.entries.empty()) insert(entry);
    lane.entries.push_back(entry);
    ++size_;
  }

  [[nodiscard]] bool empty() const { return size_ == 0; }
  [[nodiscard]] std::size_t size() const { return size_; }

  // The time of the next event. Not const, because it closes the hole that the last pop left.
  [[nodiscard]] TimeInstant next_time() {
    ORRERY_CHECK(size_ > 0, "an empty queue has no next event");
    fill_hole();
    return to_instant(heap_[kRoot].key.time);
  }

  // Removes and returns the next event.
  Scheduled pop() {
    ORRERY_CHECK(size_ > 0, "an empty queue has no next event");
    fill_hole();
    const detail::QueueEntry entry = heap_[kRoot];
    --size_;
    if ((entry.owner & kLaneBit) != 0) {
      pop_lane(lanes_[entry.owner & ~kLaneBit]);
    } else {
      if (entry.owner != kPlain) position_[entry.owner] = kIdle;
      hole_at_root_ = true;
    }
    return {to_instant(entry.key.time), entry.key.phase(), {entry.kind, entry.target}};
  }

 private:
  struct TimerState {
    EventPhase phase;
    Event event;
  };
  struct Lane {
    detail::EntryRing entries;
    EventPhase phase;
    std::int64_t latest;
  };

  static constexpr std::uint32_t kPlain = 0x7fffffff;
  static constexpr std::uint32_t kLaneBit = 0x80000000;
  static constexpr std::uint32_t kIdle = 0xffffffff;

  // The heap begins behind Arity - 1 unused entries, so that the children of every node begin at a multiple of Arity.
  static constexpr std::size_t kRoot = Arity - 1;
  static std::size_t first_child_of(std::size_t index) { return (index - kRoot + 1) * Arity; }
  static std::size_t parent_of(std::size_t index) { return index / Arity + kRoot - 1; }

  static TimeInstant to_instant(std::int64_t time) { return TimeInstant(typename TimeInstant::duration(time)); }

  detail::EventKey next_key(TimeInstant time, EventPhase phase) {
    ORRERY_CHECK(sequence_ < detail::EventKey::kMaxSequence, "sequence numbers have run out");
    return {time.time_since_epoch().count(), detail::EventKey::make_rank(phase, sequence_++)};
  }

  void pop_lane(Lane& lane) {
    lane.entries.pop_front();
    if (lane.entries.empty()) {
      hole_at_root_ = true;
    } else {
      sift_down(kRoot, lane.entries.front());
    }
  }

  void insert(const detail::QueueEntry& entry) {
    if (hole_at_root_) {
      hole_at_root_ = false;
      sift_down(kRoot, entry);
      return;
    }
    heap_.push_back(entry);
    sift_up(heap_.size() - 1, entry);
  }

  void fill_hole() {
    if (!hole_at_root_) return;
    hole_at_root_ = false;
    const detail::QueueEntry last = heap_.back();
    heap_.pop_back();
    if (heap_.size() > kRoot) sift_down(kRoot, last);
  }

  // Puts `entry` in the place of the one at `index`.
  void replace(std::size_t index, const detail::QueueEntry& entry) {
    if (index > kRoot && entry.key < heap_[parent_of(index)].key) {
      sift_up(index, entry);
    } else {
      sift_down(index, entry);
    }
  }

  void place(std::size_t index, const detail::QueueEntry& entry) {
    heap_[index] = entry;
    if (entry.owner < kPlain) position_[entry.owner] = static_cast<std::uint32_t>(index);
  }

  void sift_up(std::size_t index, const detail::QueueEntry& entry) {
    while (index > kRoot) {
      const std::size_t parent = parent_of(index);
      if (!(entry.key < heap_[parent].key)) break;
      place(index, heap_[parent]);
      index = parent;
    }
    place(index, entry);
  }

  void sift_down(std::size_t index, const detail::QueueEntry& entry) {
    const std::size_t count = heap_.size();
    for (;;) {
      const std::size_t first = first_child_of(index);
      if (first >= count) break;
      const std::size_t last = std::min(first + Arity, count);
      std::size_t least = first;
      for (std::size_t child = first + 1; child < last; ++child) {
        least = heap_[child].key < heap_[least].key ? child : least;
      }
      if (!(heap_[least].key < entry.key)) break;
      place(index, heap_[least]);
      index = least;
    }
    place(index, entry);
  }

  std::vector<detail::QueueEntry, detail::AlignedAllocator<detail::QueueEntry>> heap_ =
      std::vector<detail::QueueEntry, detail::AlignedAllocator<detail::QueueEntry>>(kRoot);
  std::vector<std::uint32_t> position_;  // [timers] place in heap_, or kIdle
  std::vector<TimerState> timers_;
  std::vector<Lane> lanes_;
  std::uint64_t sequence_ = 0;
  std::size_t size_ = 0;  // pending events: heap_.size() would count the hole and leave out what waits in lanes
  bool hole_at_root_ = false;
};

}  // namespace orrery
