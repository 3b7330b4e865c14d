// The event queue in its simplest form: a sorted vector. The oracle that the heap is compared with, and readable as
// the definition of the order.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/engine/event_queue.hpp"

namespace orrery {

// The same interface as EventQueue. Every operation is O(n).
template <class TimeInstant>
class SortedQueue {
 public:
  using Time = TimeInstant;
  using Scheduled = ScheduledEvent<TimeInstant>;

  void push(TimeInstant time, EventPhase phase, Event event) { insert(time, phase, event, TimerId()); }

  TimerId add_timer(EventPhase phase, Event event) {
    timers_.push_back({{}, phase, event});
    return TimerId(timers_.size() - 1);
  }
  void arm(TimerId timer, TimeInstant time) {
    disarm(timer);
    insert(time, timers_[timer.index()].phase, timers_[timer.index()].event, timer);
  }
  void disarm(TimerId timer) {
    std::erase_if(entries_, [timer](const Entry& entry) { return entry.timer == timer; });
  }
  [[nodiscard]] bool armed(TimerId timer) const {
    return std::any_of(entries_.begin(), entries_.end(), [timer](const Entry& entry) { return entry.timer == timer; });
  }

  LaneId add_lane(EventPhase phase) {
    lane_phase_.push_back(phase);
    return LaneId(lane_phase_.size() - 1);
  }
  void push(LaneId lane, TimeInstant time, Event event) { insert(time, lane_phase_[lane.index()], event, TimerId()); }

  [[nodiscard]] bool empty() const { return entries_.empty(); }
  [[nodiscard]] std::size_t size() const { return entries_.size(); }
  [[nodiscard]] TimeInstant next_time() const { return entries_.back().scheduled.time; }

  Scheduled pop() {
    ORRERY_CHECK(!entries_.empty(), "an empty queue has no next event");
    const Scheduled next = entries_.back().scheduled;
    entries_.pop_back();
    return next;
  }

 private:
  struct Entry {
    Scheduled scheduled;
    TimerId timer;
  };

  // The next event is at the back. Equals are placed before (behind in time) those that are there already.
  void insert(TimeInstant time, EventPhase phase, Event event, TimerId timer) {
    const auto later = [&](const Entry& entry) {
      return entry.scheduled.time > time || (entry.scheduled.time == time && entry.scheduled.phase > phase);
    };
    entries_.insert(std::find_if_not(entries_.begin(), entries_.end(), later), {{time, phase, event}, timer});
  }

  std::vector<Entry> entries_;
  std::vector<Scheduled> timers_;  // phase and payload; the time is unused
  std::vector<EventPhase> lane_phase_;
};

}  // namespace orrery
