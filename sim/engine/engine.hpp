// The engine: a clock and the loop that takes events in order and hands them to one handler.
//
// It knows nothing of GPUs or networks. A run is single-threaded and deterministic; many engines can live in one
// process. A training step runs in picoseconds (Engine<Instant>), a campaign of months in microseconds.
//
//   Engine<> engine;
//   engine.after(5_us, EventPhase::start, {kLaunch, rank});
//   engine.run([&](const Event& event) { ... engine.after(...) ... });
#pragma once

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/base/units.hpp"
#include "sim/engine/event.hpp"
#include "sim/engine/event_queue.hpp"

namespace orrery {

template <class TimeInstant = Instant, class Queue = EventQueue<TimeInstant>>
class Engine {
 public:
  using Time = TimeInstant;
  using Span = typename TimeInstant::duration;

  // The simulated time: that of the event being handled. Starts at the epoch.
  [[nodiscard]] TimeInstant now() const { return now_; }

  // Schedules an event at `time`, which must not be in the past. An earlier phase of the current instant is not the
  // past: such an event comes next.
  void at(TimeInstant time, EventPhase phase, Event event) {
    check_not_past(time);
    queue_.push(time, phase, event);
  }

  // Schedules an event `delay` from now. A sum that does not fit in 64 bits is an internal error: callers turn "never"
  // into not scheduling at all.
  void after(Span delay, EventPhase phase, Event event) { at(later(delay), phase, event); }

  // A lane for all events that are scheduled exactly `delay` from now, for one phase: the fast way for delays that
  // recur (latencies, launch costs). Asking again for the same delay and phase gives the same lane.
  // O(number of lanes): ask once and keep the result.
  LaneId lane(Span delay, EventPhase phase) {
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      if (lanes_[i].first == delay && lanes_[i].second == phase) return LaneId(i);
    }
    ORRERY_CHECK(delay >= Span::zero(), "scheduled in the past", delay.count());
    lanes_.emplace_back(delay, phase);
    return queue_.add_lane(phase);
  }
  void after(LaneId lane_id, Event event) { queue_.push(lane_id, later(lanes_[lane_id.index()].first), event); }

  // A timer that can be armed, moved and disarmed at will; it disarms itself when it goes off.
  TimerId add_timer(EventPhase phase, Event event) { return queue_.add_timer(phase, event); }
  void arm(TimerId timer, TimeInstant time) {
    check_not_past(time);
    queue_.arm(timer, time);
  }
  void disarm(TimerId timer) { queue_.disarm(timer); }
  [[nodiscard]] bool armed(TimerId timer) const { return queue_.armed(timer); }

  // Handles events in order until none is left or stop() is called. handler(const Event&) may schedule, arm and stop.
  template <class Handler>
  void run(Handler&& handler) {
    stopped_ = false;
    while (!stopped_ && !queue_.empty()) step(handler);
  }

  // The same up to and including `last`; the clock then shows `last` unless the run was stopped before.
  template <class Handler>
  void run_until(TimeInstant last, Handler&& handler) {
    check_not_past(last);
    stopped_ = false;
    while (!stopped_ && !queue_.empty() && queue_.next_time() <= last) step(handler);
    if (!stopped_) now_ = last;
  }

  // Ends run() after the event being handled.
  void stop() { stopped_ = true; }

  [[nodiscard]] bool idle() const { return queue_.empty(); }
  [[nodiscard]] std::size_t pending() const { return queue_.size(); }
  [[nodiscard]] std::uint64_t event_count() const { return event_count_; }

  // A hash of (time, phase, payload) of every event handled so far, in order. Equal for equal runs.
  [[nodiscard]] std::uint64_t fingerprint() const { return fingerprint_; }

 private:
  template <class Handler>
  void step(Handler& handler) {
    const ScheduledEvent<TimeInstant> next = queue_.pop();
    now_ = next.time;
    ++event_count_;
    mix(static_cast<std::uint64_t>(next.time.time_since_epoch().count()));
    mix(next.event.target);
    mix((static_cast<std::uint64_t>(next.phase) << 32) | next.event.kind);
    handler(next.event);
  }

  // FxHash (the hash of Firefox and rustc): a rotation and a product, about a nanosecond for a word.
  void mix(std::uint64_t word) { fingerprint_ = (std::rotl(fingerprint_, 5) ^ word) * 0x517cc1b727220a95ULL; }

  void check_not_past(TimeInstant time) const {
    ORRERY_CHECK(time >= now_, "scheduled in the past", time.time_since_epoch().count(),
                 now_.time_since_epoch().count());
  }

  [[nodiscard]] TimeInstant later(Span delay) const {
    std::int64_t sum = 0;
    const bool overflow = __builtin_add_overflow(now_.time_since_epoch().count(), delay.count(), &sum);
    ORRERY_CHECK(!overflow, "simulated time does not fit in 64 bits", delay.count());
    return TimeInstant(Span(sum));
  }

  Queue queue_;
  std::vector<std::pair<Span, EventPhase>> lanes_;
  TimeInstant now_{};
  std::uint64_t event_count_ = 0;
  std::uint64_t fingerprint_ = 0;
  bool stopped_ = false;
};

}  // namespace orrery
