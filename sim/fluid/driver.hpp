// What joins a FluidNetwork to an Engine: solves once per instant, and wakes up when an activity ends.
#pragma once

#include <cstdint>
#include <span>

#include "sim/engine/engine.hpp"
#include "sim/fluid/network.hpp"

namespace orrery {

// Takes two kinds of event of the engine for itself. The run's handler passes events of these kinds to handle():
//
//   FluidDriver driver(engine, network, kFluidComplete, kFluidSettle);
//   driver.start(bytes, kUncapped, route, message);
//   engine.run([&](const Event& event) {
//     if (driver.owns(event)) return driver.handle(event, [&](std::uint64_t tag) { ... the activity has ended ... });
//     ...
//   });
template <class AnyEngine, class Network = FluidNetwork>
class FluidDriver {
 public:
  // The engine and the network must outlive the driver, and changes go through the driver alone.
  FluidDriver(AnyEngine& engine, Network& network, std::uint32_t completion_kind, std::uint32_t settle_kind)
      : engine_(engine),
        network_(network),
        completion_kind_(completion_kind),
        settle_kind_(settle_kind),
        timer_(engine.add_timer(EventPhase::complete, {completion_kind, 0})) {}

  // All of these act at engine.now(); rates follow in the settle phase of this instant.
  ActivityId start(std::int64_t work, Rate cap, std::span<const Crossing> crossings, std::uint64_t tag) {
    const ActivityId activity = network_.start(engine_.now(), work, cap, crossings, tag);
    follow_up();
    return activity;
  }
  ActivityId keep(Rate cap, std::span<const Crossing> crossings, std::uint64_t tag) {
    return network_.keep(cap, crossings, tag);
  }
  void run(ActivityId resting, std::int64_t work) {
    network_.run(engine_.now(), resting, work);
    follow_up();
  }
  void discard(ActivityId resting) { network_.discard(resting); }
  void set_cap(ActivityId activity, Rate cap) {
    network_.set_cap(engine_.now(), activity, cap);
    follow_up();
  }
  void set_capacity(ResourceId resource, Rate capacity) {
    network_.set_capacity(engine_.now(), resource, capacity);
    follow_up();
  }
  void cancel(ActivityId activity) {
    network_.cancel(engine_.now(), activity);
    follow_up();
  }

  [[nodiscard]] bool owns(const Event& event) const {
    return event.kind == completion_kind_ || event.kind == settle_kind_;
  }

  // Handles an event that owns() recognises. on_complete(tag) is called for each activity that has ended, in the order
  // in which they were started; it may start others.
  template <class OnComplete>
  void handle(const Event& event, OnComplete&& on_complete) {
    if (event.kind == settle_kind_) {
      settle_pending_ = false;
      if (network_.needs_solve()) network_.solve(engine_.now());
    } else {
      armed_for_ = kNever;
      for (const Completion& completion : network_.pop_completed(engine_.now())) on_complete(completion.tag);
    }
    follow_up();
  }

  [[nodiscard]] const Network& network() const { return network_; }

 private:
  // While a solve is due, completions later than now are not known; those of now (activities without work) are.
  void follow_up() {
    if (network_.needs_solve() && !settle_pending_) {
      settle_pending_ = true;
      engine_.at(engine_.now(), EventPhase::settle, {settle_kind_, 0});
    }
    const Instant next = network_.next_completion();
    if (network_.needs_solve() && next != engine_.now()) return;
    if (next == armed_for_) return;
    armed_for_ = next;
    if (next == kNever) {
      engine_.disarm(timer_);
    } else {
      engine_.arm(timer_, next);
    }
  }

  AnyEngine& engine_;
  Network& network_;
  std::uint32_t completion_kind_;
  std::uint32_t settle_kind_;
  TimerId timer_;
  Instant armed_for_ = kNever;
  bool settle_pending_ = false;
};

}  // namespace orrery
