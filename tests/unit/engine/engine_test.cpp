#include "sim/engine/engine.hpp"

#include <doctest/doctest.h>

#include <chrono>
#include <vector>

#include "sim/engine/sorted_queue.hpp"

namespace orrery {
namespace {

using namespace literals;

Instant at(Duration since_start) { return Instant(since_start); }

// A clock of months: microseconds fit 292,000 years in 64 bits.
using Microseconds = std::chrono::duration<std::int64_t, std::micro>;
struct CampaignClock {
  using duration = Microseconds;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<CampaignClock, Microseconds>;
  static constexpr bool is_steady = true;
};

static_assert(CampaignClock::is_steady);

TEST_CASE("the clock shows the time of the event being handled") {
  Engine<> engine;
  engine.after(3_ns, EventPhase::start, {7, 1});
  engine.after(1_ns, EventPhase::start, {7, 2});
  std::vector<std::pair<Duration, std::uint64_t>> seen;
  engine.run([&](const Event& event) {
    seen.emplace_back(engine.now().time_since_epoch(), event.target);
    if (event.target == 2) engine.after(5_ns, EventPhase::complete, {7, 3});
  });
  CHECK(seen == std::vector<std::pair<Duration, std::uint64_t>>{{1_ns, 2}, {3_ns, 1}, {6_ns, 3}});
  CHECK(engine.event_count() == 3);
  CHECK(engine.idle());
}

TEST_CASE("an earlier phase of the current instant comes next, before later phases and later times") {
  Engine<> engine;
  engine.at(at(1_ns), EventPhase::start, {0, 1});
  engine.at(at(1_ns), EventPhase::settle, {0, 2});
  engine.at(at(1_ns), EventPhase::start, {0, 3});
  std::vector<std::uint64_t> seen;
  engine.run([&](const Event& event) {
    seen.push_back(event.target);
    if (event.target == 1) engine.at(engine.now(), EventPhase::complete, {0, 4});
  });
  CHECK(seen == std::vector<std::uint64_t>{1, 4, 3, 2});
}

TEST_CASE("a lane is shared by all who ask for one delay and phase") {
  Engine<> engine;
  const LaneId lane = engine.lane(2_ns, EventPhase::start);
  CHECK(engine.lane(2_ns, EventPhase::start) == lane);
  CHECK(engine.lane(2_ns, EventPhase::complete) != lane);
  CHECK(engine.lane(3_ns, EventPhase::start) != lane);
  std::vector<Duration> seen;
  engine.after(lane, {0, 0});
  engine.run([&](const Event& event) {
    seen.push_back(engine.now().time_since_epoch());
    if (event.target < 3) engine.after(lane, {0, event.target + 1});
  });
  CHECK(seen == std::vector<Duration>{2_ns, 4_ns, 6_ns, 8_ns});
}

TEST_CASE("run_until handles events up to its end and leaves the rest") {
  Engine<> engine;
  for (int i = 1; i <= 5; ++i) engine.at(at(i * 1_ns), EventPhase::start, {0, 0});
  int handled = 0;
  engine.run_until(at(3_ns), [&](const Event&) { ++handled; });
  CHECK(handled == 3);
  CHECK(engine.now() == at(3_ns));
  CHECK(engine.pending() == 2);
  engine.run([&](const Event&) {
    ++handled;
    engine.stop();
  });
  CHECK(handled == 4);
  CHECK(engine.now() == at(4_ns));
}

TEST_CASE("a timer goes off once for each time it is armed") {
  Engine<> engine;
  const TimerId timer = engine.add_timer(EventPhase::complete, {9, 0});
  engine.arm(timer, at(10_ns));
  engine.arm(timer, at(4_ns));
  int fired = 0;
  engine.run([&](const Event& event) {
    CHECK(event.kind == 9);
    CHECK_FALSE(engine.armed(timer));
    if (++fired < 3) engine.arm(timer, engine.now() + 1_ns);
  });
  CHECK(fired == 3);
  CHECK(engine.now() == at(6_ns));
}

TEST_CASE("the engine runs in microseconds as well") {
  Engine<CampaignClock::time_point> engine;
  constexpr Microseconds kYear = std::chrono::hours(24 * 365);
  engine.after(kYear * 100, EventPhase::settle, {1, 0});
  engine.after(kYear, EventPhase::start, {0, 0});
  int handled = 0;
  engine.run([&](const Event& event) {
    ++handled;
    if (event.kind == 1) engine.stop();
  });
  CHECK(handled == 2);
  CHECK(engine.now().time_since_epoch() == kYear * 100);
}

template <class Queue>
std::uint64_t fingerprint_of(std::uint64_t first_target) {
  Engine<Instant, Queue> engine;
  const TimerId timer = engine.add_timer(EventPhase::settle, {2, 0});
  engine.after(1_ns, EventPhase::start, {1, first_target});
  engine.after(1_ns, EventPhase::start, {1, 5});
  engine.run([&](const Event& event) {
    if (event.kind == 1) engine.arm(timer, engine.now() + 2_ns);
  });
  return engine.fingerprint();
}

TEST_CASE("the fingerprint depends on what happened and not on the queue") {
  const std::uint64_t expected = fingerprint_of<SortedQueue<Instant>>(4);
  CHECK(fingerprint_of<EventQueue<Instant>>(4) == expected);
  CHECK(fingerprint_of<EventQueue<Instant>>(6) != expected);
}

TEST_CASE("two engines in one process do not know of each other") {
  Engine<> one;
  Engine<> two;
  one.after(1_ns, EventPhase::start, {0, 0});
  int handled = 0;
  two.run([&](const Event&) { ++handled; });
  CHECK(handled == 0);
  one.run([&](const Event&) { ++handled; });
  CHECK(handled == 1);
  CHECK(two.now() == Instant());
}

}  // namespace
}  // namespace orrery
