// One case for every kind of queue: what holds for the sorted vector, which is readable as the definition of the
// order, holds for all.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/base/units.hpp"
#include "sim/engine/event_queue.hpp"
#include "sim/engine/sorted_queue.hpp"

namespace orrery {
namespace {

Instant at(std::int64_t picoseconds) { return Instant(Duration(picoseconds)); }

template <class Queue>
std::vector<std::uint64_t> drain(Queue& queue) {
  std::vector<std::uint64_t> targets;
  while (!queue.empty()) targets.push_back(queue.pop().event.target);
  return targets;
}

using Binary = EventQueue<Instant, 2>;
using Quaternary = EventQueue<Instant, 4>;
using Octonary = EventQueue<Instant, 8>;

TEST_CASE_TEMPLATE("events come by time, then phase, then first come first served", Queue, SortedQueue<Instant>, Binary,
                   Quaternary, Octonary) {
  Queue queue;
  queue.push(at(5), EventPhase::start, {0, 1});
  queue.push(at(3), EventPhase::settle, {0, 2});
  queue.push(at(5), EventPhase::complete, {0, 3});
  queue.push(at(5), EventPhase::start, {0, 4});
  queue.push(at(3), EventPhase::start, {0, 5});
  queue.push(at(5), EventPhase::start, {0, 6});
  CHECK(queue.size() == 6);
  CHECK(queue.next_time() == at(3));
  // Time 3: start (5) before settle (2). Time 5: complete (3), then the starts in the order 1, 4, 6.
  CHECK(drain(queue) == std::vector<std::uint64_t>{5, 2, 3, 1, 4, 6});
}

TEST_CASE_TEMPLATE("a timer moves in place, and counts as scheduled when it was armed last", Queue,
                   SortedQueue<Instant>, Binary, Quaternary, Octonary) {
  Queue queue;
  const TimerId a = queue.add_timer(EventPhase::complete, {1, 10});
  const TimerId b = queue.add_timer(EventPhase::complete, {1, 20});
  CHECK_FALSE(queue.armed(a));
  queue.arm(a, at(4));
  queue.arm(b, at(9));
  queue.push(at(6), EventPhase::complete, {0, 30});
  queue.arm(a, at(9));  // later than b, which was armed for 9 before
  CHECK(queue.size() == 3);
  CHECK(queue.pop().event.target == 30);
  queue.arm(b, at(9));  // and now the other way round
  CHECK(queue.pop().event.target == 10);
  CHECK(queue.armed(b));
  queue.disarm(b);
  queue.disarm(b);
  CHECK_FALSE(queue.armed(b));
  CHECK(queue.empty());
}

TEST_CASE_TEMPLATE("lanes are merged with the other events by time and order of arrival", Queue, SortedQueue<Instant>,
                   Binary, Quaternary, Octonary) {
  Queue queue;
  const LaneId slow = queue.add_lane(EventPhase::start);
  const LaneId fast = queue.add_lane(EventPhase::start);
  queue.push(slow, at(10), {0, 1});
  queue.push(fast, at(4), {0, 2});
  queue.push(at(10), EventPhase::start, {0, 3});
  queue.push(fast, at(10), {0, 4});
  queue.push(slow, at(10), {0, 5});
  queue.push(slow, at(11), {0, 6});
  CHECK(queue.size() == 6);
  CHECK(drain(queue) == std::vector<std::uint64_t>{2, 1, 3, 4, 5, 6});
}

// The same random history for two queues: pushes with many ties, lanes, timers armed, moved and disarmed.
template <class Queue>
class History {
 public:
  explicit History(std::uint64_t seed) : random_(seed, "queue_history") {
    for (std::uint64_t t = 0; t < kTimers; ++t) queue_.add_timer(static_cast<EventPhase>(t % 3), {1, 1000 + t});
    for (int l = 0; l < kLanes; ++l) queue_.add_lane(static_cast<EventPhase>(l));
  }

  std::vector<ScheduledEvent<Instant>> run(int steps) {
    for (int i = 0; i < steps; ++i) step(static_cast<std::uint64_t>(i));
    while (!queue_.empty()) pop();
    return popped_;
  }

 private:
  static constexpr std::uint64_t kTimers = 12;
  static constexpr int kLanes = 3;

  void step(std::uint64_t i) {
    const Instant soon = now_ + Duration(static_cast<std::int64_t>(random_.below(20)));
    const std::uint64_t dice = random_.below(12);
    const TimerId timer(static_cast<std::size_t>(random_.below(kTimers)));
    if (dice < 3) {
      queue_.push(soon, static_cast<EventPhase>(random_.below(kPhaseCount)), {0, i});
    } else if (dice < 5) {
      const auto lane = static_cast<std::size_t>(random_.below(kLanes));
      queue_.push(LaneId(lane), now_ + Duration(static_cast<std::int64_t>(lane) * 4), {2, i});
    } else if (dice < 7) {
      queue_.arm(timer, soon);
    } else if (dice == 7) {
      queue_.disarm(timer);
    } else if (!queue_.empty()) {
      pop();
    }
  }

  void pop() {
    const Instant announced = queue_.next_time();
    popped_.push_back(queue_.pop());
    CHECK(popped_.back().time == announced);
    now_ = announced;
  }

  Queue queue_;
  RandomStream random_;
  Instant now_{};
  std::vector<ScheduledEvent<Instant>> popped_;
};

TEST_CASE_TEMPLATE("any history gives the order of the sorted vector", Queue, Binary, Quaternary, Octonary) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const auto expected = History<SortedQueue<Instant>>(seed).run(600);
    REQUIRE(expected.size() > 100);
    CHECK(History<Queue>(seed).run(600) == expected);
  }
}

TEST_CASE("a large heap comes out sorted") {
  Quaternary queue;
  RandomStream random(1, "large_heap");
  for (int i = 0; i < 20000; ++i) {
    queue.push(at(static_cast<std::int64_t>(random.below(5000))), EventPhase::start,
               {0, static_cast<std::uint64_t>(i)});
  }
  std::vector<ScheduledEvent<Instant>> popped;
  while (!queue.empty()) popped.push_back(queue.pop());
  CHECK(popped.size() == 20000);
  CHECK(std::is_sorted(popped.begin(), popped.end(), [](const auto& a, const auto& b) {
    return a.time < b.time || (a.time == b.time && a.event.target < b.event.target);
  }));
}

TEST_CASE("phases have names in their order") {
  const std::array<std::string_view, kPhaseCount> names = {"complete", "start", "settle"};
  for (int i = 0; i < kPhaseCount; ++i)
    CHECK(to_string(static_cast<EventPhase>(i)) == names[static_cast<std::size_t>(i)]);
}

}  // namespace
}  // namespace orrery
