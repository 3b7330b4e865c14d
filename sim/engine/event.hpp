// What an event is: a moment, a phase within the moment, and a small payload that its handler understands.
#pragma once

#include <cstdint>
#include <string_view>

namespace orrery {

// The order of things within one instant. Events of one instant run phase by phase, and in one phase in the order in
// which they were scheduled. An event may schedule into an earlier phase of its own instant (a task that takes no time
// completes in the instant in which it starts): the phases are then gone through again, before time moves on.
enum class EventPhase : std::uint8_t {
  complete,  // activities and timers end: what they held is free before anybody asks for it
  start,     // tasks begin, on what is free now
  settle,    // shared resources are divided, once for all that began and ended in this instant
};

inline constexpr int kPhaseCount = 3;

[[nodiscard]] std::string_view to_string(EventPhase phase);

// The payload of an event. The engine passes it on and does not read it; `kind` tells the handler what to do and
// `target` to what (an index, or two packed 32-bit numbers).
struct Event {
  std::uint32_t kind = 0;
  std::uint64_t target = 0;

  friend bool operator==(const Event&, const Event&) = default;
};

// An event with its place in the order.
template <class TimeInstant>
struct ScheduledEvent {
  TimeInstant time{};
  EventPhase phase = EventPhase::complete;
  Event event{};

  friend bool operator==(const ScheduledEvent&, const ScheduledEvent&) = default;
};

}  // namespace orrery
