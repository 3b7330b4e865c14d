// Where each rank's time goes, kept as the run goes on: at every moment a rank has exactly one cause, and the time
// since it last changed is booked under it. All in integers, so the parts add up to the step time to the picosecond.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/units.hpp"

namespace orrery {

// Causes 0 .. 4, and from kExposed on one for each name of communication.
//
// Communication is exposed while it runs: latencies pass or bytes move. Before the last side has arrived nothing runs,
// and the rank waits for others. Why they are late is not followed from rank to rank, since what they do changes while
// one waits; the place where one waits tells it well enough:
//  - kBubble: for another stage of the pipeline, be it in a transfer between neighbours or in a collective whose
//  members
//    are of different stages (their programs differ): schedules fill and drain there. And having nothing left to do, in
//    a pipeline.
//  - kWaiting: for ranks that run the same program, which are late only where loads, hardware or noise differ. And
//    having nothing left to do, without a pipeline.
enum Cause : std::uint16_t {
  kCompute,    // a kernel runs
  kBubble,     // waits for another stage
  kWaiting,    // waits for its like
  kDataStall,  // input is being copied
  kOther,      // the host: launches, synchronisation, its own work, copies to it
  kExposed,    // + index of the name: communication runs
};

// Whether the rank waits for other ranks that have not come so far.
[[nodiscard]] constexpr bool is_waiting(std::uint16_t cause) { return cause == kBubble || cause == kWaiting; }

class TimeAccount {
 public:
  TimeAccount(std::size_t ranks, std::size_t communication_names)
      : causes_(kExposed + communication_names), current_(ranks), booked_(ranks * causes_) {}

  // From now on the rank's time has this cause.
  void set(std::size_t rank, std::uint16_t cause, Instant now) {
    Current& current = current_[rank];
    if (current.cause == cause) return;
    book(rank, current.cause, now - current.since);
    current = {now, cause};
  }

  // Books what has passed since the last change.
  void settle(std::size_t rank, Instant now) {
    book(rank, current_[rank].cause, now - current_[rank].since);
    current_[rank].since = now;
  }

  // Books time under another cause than it was booked under. Only what is booked already may be moved.
  void move(std::size_t rank, std::uint16_t from, std::uint16_t to, Duration amount) {
    book(rank, from, -amount);
    book(rank, to, amount);
  }

  [[nodiscard]] Duration of(std::size_t rank, std::size_t cause) const { return booked_[rank * causes_ + cause]; }
  [[nodiscard]] std::size_t causes() const { return causes_; }

 private:
  struct Current {
    Instant since{};
    std::uint16_t cause = kOther;
  };

  void book(std::size_t rank, std::uint16_t cause, Duration amount) { booked_[rank * causes_ + cause] += amount; }

  std::size_t causes_;
  std::vector<Current> current_;  // [ranks]
  std::vector<Duration> booked_;  // [ranks][causes]
};

}  // namespace orrery
