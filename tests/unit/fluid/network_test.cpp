// Activities in time: ends derived by hand, changes midway, and what must hold of every run.
#include "sim/fluid/network.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "sim/base/random.hpp"

namespace orrery {
namespace {

using namespace literals;

Instant at(Duration since_start) { return Instant(since_start); }

// One resource of 8 B/ns, and how to run a network to the end.
struct Single {
  explicit Single(FluidOptions options = {}) : network(options), route{Crossing{network.add_resource(8_GBps), 1}} {}

  ActivityId start(Duration now, std::int64_t work, Rate cap = kUncapped) {
    return network.start(at(now), work, cap, route, ++tags);
  }
  void settle(Duration now) {
    if (network.needs_solve()) network.solve(at(now));
  }

  FluidNetwork network;
  std::array<Crossing, 1> route;
  std::uint64_t tags = 0;
};

struct Ended {
  std::uint64_t tag;
  Duration when;
  friend bool operator==(const Ended&, const Ended&) = default;
};

std::vector<Ended> run_to_end(FluidNetwork& network, Duration now) {
  std::vector<Ended> ended;
  for (;;) {
    if (network.needs_solve()) network.solve(at(now));
    const Instant next = network.next_completion();
    if (next == kNever) return ended;
    now = next.time_since_epoch();
    for (const Completion& completion : network.pop_completed(next)) ended.push_back({completion.tag, now});
  }
}

TEST_CASE("a lone activity ends at its work divided by its rate, rounded up, without a solve") {
  Single single;
  single.start(5_ns, 1001);  // 1001 / 8 = 125.125 ns
  CHECK_FALSE(single.network.needs_solve());
  CHECK(run_to_end(single.network, 5_ns) == std::vector<Ended>{{1, 130'125_ps}});
  single.start(200_ns, 1000, rate_from(3e9));  // 1000 / 3 = 333.3333 ns
  CHECK(run_to_end(single.network, 200_ns) == std::vector<Ended>{{2, 533'334_ps}});
  CHECK(single.network.statistics().solves == 0);
}

TEST_CASE("being alone or being solved for makes no difference") {
  for (const bool fast : {true, false}) {
    CAPTURE(fast);
    Single single({.lone_fast_path = fast});
    const std::array<Crossing, 1> thrice = {Crossing{single.route[0].resource, 3}};
    const ActivityId activity = single.network.start(at(0_ns), 1000, kUncapped, thrice, 1);
    single.settle(0_ns);
    // floor(8e9 * 64 / 3) / 64 B/s
    CHECK(single.network.rate(activity) == Rate(512'000'000'000 / 3));
    CHECK(single.network.usage(single.route[0].resource) == Rate(512'000'000'000 / 3 * 3));
    CHECK(single.network.next_completion() == at(Duration(375'001)));  // 375 ns and a little
  }
}

TEST_CASE("who joins a lone activity slows it from then on") {
  Single single;
  const ActivityId first = single.start(0_ns, 1000);
  single.start(50_ns, 300);
  single.settle(50_ns);
  // First: 600 B left at 50 ns, both at 4 B/ns. Second ends at 125 ns; first then has 300 B, alone: 162.5 ns.
  CHECK(single.network.remaining(first, at(50_ns)) == 600);
  CHECK(single.network.rate(first) == rate_from(4e9));
  CHECK(single.network.remaining(first, at(51_ns)) == 596);
  CHECK(run_to_end(single.network, 50_ns) == std::vector<Ended>{{2, 125_ns}, {1, 162'500_ps}});
}

TEST_CASE("a resource with room for all that run there lets them run alone, until one more comes") {
  FluidNetwork network;
  const std::array<Crossing, 2> slow = {Crossing{network.add_resource(3_GBps), 1},
                                        Crossing{network.add_resource(10_GBps), 1}};
  const std::array<Crossing, 1> wide = {slow[1]};
  // 3 + 4 B/ns fit into 10; 1200 B at 3 take 400 ns.
  const ActivityId a = network.start(at(0_ns), 1200, kUncapped, slow, 1);
  const ActivityId b = network.start(at(0_ns), 1000, rate_from(4e9), wide, 2);
  CHECK_FALSE(network.needs_solve());
  CHECK(network.rate(a) == rate_from(3e9));
  CHECK(network.usage(wide[0].resource) == rate_from(7e9));
  CHECK(network.next_completion() == at(250_ns));
  // Another 4 do not fit: 3, and (10 - 3) / 2 = 3.5 for each of the others. At 100 ns b has 600 B left: until
  // 271.428571... ns. c then has 400 B left and gets its 4 again: until 371.428571... ns. a is slowed by nobody.
  const ActivityId c = network.start(at(100_ns), 1000, rate_from(4e9), wide, 3);
  REQUIRE(network.needs_solve());
  network.solve(at(100_ns));
  CHECK(network.rate(a) == rate_from(3e9));
  CHECK(network.rate(b) == rate_from(3.5e9));
  CHECK(network.rate(c) == rate_from(3.5e9));
  CHECK(run_to_end(network, 100_ns) == std::vector<Ended>{{2, Duration(271'429)}, {3, Duration(371'429)}, {1, 400_ns}});
}

// Rates are whole steps. Of 7 steps, two activities with caps of 4 and 3 get 3 each: floor(7 / 2) = 3 saturates the
// resource in the round of the cap of 3. So 4 + 3 <= 7 is not enough for the solver to be left out; (4 + 1) + (3 + 1)
// is.
TEST_CASE("a resource that would be full to the last step is left to the solver") {
  for (const std::int64_t capacity : {7, 8, 9}) {
    CAPTURE(capacity);
    FluidNetwork network;
    FluidNetwork solved({.lone_fast_path = false});
    for (FluidNetwork* each : {&network, &solved}) {
      const std::array<Crossing, 1> route = {Crossing{each->add_resource(Rate(capacity)), 1}};
      const ActivityId four = each->start(at(0_ns), 1000, Rate(4), route, 1);
      const ActivityId three = each->start(at(0_ns), 1000, Rate(3), route, 2);
      if (each->needs_solve()) each->solve(at(0_ns));
      CHECK(each->rate(four) == Rate(capacity == 7 ? 3 : 4));
      CHECK(each->rate(three) == Rate(3));
    }
    CHECK(network.statistics().solves == (capacity < 9 ? 1 : 0));
  }
}

TEST_CASE("a kept activity runs again under its id, and what it has done counts as served") {
  for (const bool fast : {true, false}) {
    CAPTURE(fast);
    Single single({.lone_fast_path = fast});
    FluidNetwork& network = single.network;
    const ActivityId kept = network.keep(rate_from(4e9), single.route, 7);
    CHECK_FALSE(network.running(kept));
    CHECK(network.activity_count() == 0);
    CHECK(network.next_completion() == kNever);
    network.run(at(0_ns), kept, 400);
    CHECK(run_to_end(network, 0_ns) == std::vector<Ended>{{7, 100_ns}});
    CHECK_FALSE(network.running(kept));
    CHECK(network.served(single.route[0].resource, at(100_ns)) == 400);
    // Again, with another that would take all 8 B/ns: both get 4. 800 B: 200 ns.
    network.run(at(100_ns), kept, 800);
    single.start(100_ns, 2000);  // 800 B until 300 ns, the other 1200 at 8 B/ns: until 450 ns
    single.settle(100_ns);
    CHECK(network.rate(kept) == rate_from(4e9));
    CHECK(network.served(single.route[0].resource, at(200_ns)) == 400 + 400 + 400);
    CHECK(run_to_end(network, 100_ns) == std::vector<Ended>{{7, 300_ns}, {1, 450_ns}});
    // Cancelled after half of its work, which remains counted; then forgotten.
    network.run(at(500_ns), kept, 400);
    if (network.needs_solve()) network.solve(at(500_ns));
    network.cancel(at(550_ns), kept);
    if (network.needs_solve()) network.solve(at(550_ns));
    CHECK_FALSE(network.running(kept));
    CHECK(network.served(single.route[0].resource, at(550_ns)) == 400 + 800 + 2000 + 200);
    network.discard(kept);
    CHECK(network.served(single.route[0].resource, at(550_ns)) == 400 + 800 + 2000 + 200);
    CHECK(network.next_completion() == kNever);
  }
}

TEST_CASE("capacities and caps change midway") {
  Single single;
  const ActivityId a = single.start(0_ns, 1000);
  const ActivityId b = single.start(0_ns, 1000);
  single.settle(0_ns);
  // At 100 ns both have done 400 B. Capacity 4: 2 B/ns each. At 200 ns both have 400 B left; a is capped to 1 B/ns and
  // b gets 3. b ends at 200 + 133.3333 ns; a, capped, at 200 + 400.
  single.network.set_capacity(at(100_ns), single.route[0].resource, rate_from(4e9));
  single.settle(100_ns);
  CHECK(single.network.rate(a) == rate_from(2e9));
  single.network.set_cap(at(200_ns), a, rate_from(1e9));
  single.settle(200_ns);
  CHECK(single.network.rate(b) == rate_from(3e9));
  CHECK(run_to_end(single.network, 200_ns) == std::vector<Ended>{{2, 333'334_ps}, {1, 600_ns}});
}

TEST_CASE("a lone activity follows changes of capacity and cap") {
  Single single;
  const ActivityId a = single.start(0_ns, 1000);
  single.network.set_capacity(at(50_ns), single.route[0].resource, Rate(0));  // 600 B left
  CHECK(single.network.next_completion() == kNever);
  single.network.set_capacity(at(80_ns), single.route[0].resource, rate_from(2e9));
  single.network.set_cap(at(180_ns), a, rate_from(1e9));  // 400 B left
  single.network.set_cap(at(280_ns), a, kUncapped);       // 300 B left
  CHECK(run_to_end(single.network, 280_ns) == std::vector<Ended>{{1, 430_ns}});
}

TEST_CASE("what is cancelled never completes, and what it did stays counted") {
  Single single;
  const ActivityId a = single.start(0_ns, 1000);
  single.start(0_ns, 1000);
  single.settle(0_ns);
  single.network.cancel(at(100_ns), a);  // 400 B done by each
  CHECK_FALSE(single.network.running(a));
  single.settle(100_ns);
  CHECK(run_to_end(single.network, 100_ns) == std::vector<Ended>{{2, 175_ns}});
  CHECK(single.network.served(single.route[0].resource, at(175_ns)) == 1400.0);
  const ActivityId lone = single.start(200_ns, 80);
  single.network.cancel(at(205_ns), lone);
  CHECK(single.network.served(single.route[0].resource, at(205_ns)) == 1440.0);
  CHECK(single.network.activity_count() == 0);
}

TEST_CASE("equal ends are handed out in the order of the starts") {
  Single single;
  for (int i = 0; i < 5; ++i) single.start(0_ns, 100);
  const std::array<Crossing, 1> none = {Crossing{single.route[0].resource, 1}};
  single.network.start(at(0_ns), 0, kUncapped, none, 77);
  const std::vector<Ended> ended = run_to_end(single.network, 0_ns);
  CHECK(ended ==
        std::vector<Ended>{{77, 0_ns}, {1, 62'500_ps}, {2, 62'500_ps}, {3, 62'500_ps}, {4, 62'500_ps}, {5, 62'500_ps}});
}

TEST_CASE("an activity with no crossing runs at its cap, or is over at once") {
  FluidNetwork network;
  network.start(at(0_ns), 100, rate_from(2e9), {}, 1);
  network.start(at(0_ns), 100, kUncapped, {}, 2);
  CHECK(run_to_end(network, 0_ns) == std::vector<Ended>{{2, 0_ns}, {1, 50_ns}});
}

TEST_CASE("ids of ended activities are recognised when their slot is used again") {
  Single single;
  const ActivityId a = single.start(0_ns, 8);
  run_to_end(single.network, 0_ns);
  const ActivityId b = single.start(10_ns, 8);
  CHECK_FALSE(single.network.running(a));
  CHECK(single.network.running(b));
  CHECK(a.slot == b.slot);
}

// A random run: activities started at random instants over a few resources. Each is `copies` equal activities, or one
// with all its counts `copies` times as large.
struct Random {
  struct Start {
    Duration when;
    std::int64_t work;
    Rate cap;
    std::vector<Crossing> crossings;
  };
  std::vector<Rate> capacities;
  std::vector<Start> starts;

  explicit Random(std::uint64_t seed) {
    RandomStream random(seed, "random_run");
    for (int r = 0; r < 6; ++r) capacities.push_back(Rate(static_cast<std::int64_t>(64'000'000'000 + random.below(5))));
    Duration now{};
    for (int i = 0; i < 40; ++i) {
      if (random.below(2) == 0) now += Duration(static_cast<std::int64_t>(random.below(200'000)));
      Start start{now, static_cast<std::int64_t>(1 + random.below(900)), kUncapped, {}};
      if (random.below(4) == 0) start.cap = Rate(static_cast<std::int64_t>(random.below(30'000'000'000)));
      for (std::size_t r = 0; r < 6; ++r) {
        if (random.below(3) == 0) {
          start.crossings.push_back({ResourceId(r), static_cast<std::int32_t>(1 + random.below(3))});
        }
      }
      starts.push_back(start);
    }
  }
};

class RandomRun {
 public:
  explicit RandomRun(const Random& random, std::int32_t copies = 1, bool as_counts = false, bool backwards = false)
      : starts_(random.starts), copies_(copies), as_counts_(as_counts) {
    for (const Rate capacity : random.capacities) network_.add_resource(capacity);
    integral_.resize(random.capacities.size());
    // The order of the starts within an instant.
    if (backwards) {
      std::reverse(starts_.begin(), starts_.end());
      std::stable_sort(starts_.begin(), starts_.end(), [](const auto& a, const auto& b) { return a.when < b.when; });
    }
    run();
  }

  [[nodiscard]] std::vector<Duration> ends() const {  // sorted
    std::vector<Duration> sorted = ends_;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  }

  // The integral of a resource's usage, taken here; by how much it may exceed what was served: for each end, the rate
  // of a picosecond at most.
  [[nodiscard]] Ticks integral(ResourceId resource) const { return integral_[resource.index()]; }
  [[nodiscard]] Ticks rounding() const { return rounding_; }
  [[nodiscard]] Ticks served(ResourceId resource) const { return network_.served_ticks(resource, now_); }

 private:
  void run() {
    std::size_t started = 0;
    for (;;) {
      for (const Completion& completion : network_.pop_completed(now_)) {
        ends_.push_back(now_.time_since_epoch());
        static_cast<void>(completion);
      }
      for (; started < starts_.size() && at(starts_[started].when) <= now_; ++started) start(starts_[started]);
      if (network_.needs_solve()) network_.solve(now_);
      Instant next = network_.next_completion();
      if (started < starts_.size()) next = std::min(next, at(starts_[started].when));
      if (next == kNever) return;
      for (std::size_t r = 0; r < integral_.size(); ++r) {
        integral_[r] += work_done(network_.usage(ResourceId(r)), next - now_);
      }
      now_ = next;
    }
  }

  void start(const Random::Start& start) {
    std::vector<Crossing> crossings = start.crossings;
    if (as_counts_) {
      for (Crossing& crossing : crossings) crossing.count *= copies_;
    }
    for (std::int32_t i = 0; i < (as_counts_ ? 1 : copies_); ++i) {
      network_.start(now_, start.work, start.cap, crossings, 0);
      rounding_ += kMaxUsage;
    }
  }

  static constexpr std::int64_t kMaxUsage = 64'000'000'005;  // of a resource, in steps: the work of a picosecond

  FluidNetwork network_;
  std::vector<Random::Start> starts_;
  std::int32_t copies_;
  bool as_counts_;
  std::vector<Duration> ends_;
  std::vector<Ticks> integral_;
  Ticks rounding_ = 0;
  Instant now_{};
};

TEST_CASE("what is served is the work of the activities and the integral of the usage") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    const Random random(seed);
    const RandomRun run(random);
    CHECK(run.ends().size() == random.starts.size() - static_cast<std::size_t>(std::count_if(
                                                          random.starts.begin(), random.starts.end(),
                                                          [](const auto& start) { return start.cap == Rate(0); })));
    for (std::size_t r = 0; r < random.capacities.size(); ++r) {
      Ticks work = 0;
      for (const auto& start : random.starts) {
        for (const Crossing& crossing : start.crossings) {
          if (crossing.resource == ResourceId(r)) work += ticks_from_units(start.work) * crossing.count;
        }
      }
      const bool exact = run.served(ResourceId(r)) == work;
      CHECK(exact);
      const bool integral = run.integral(ResourceId(r)) >= work && run.integral(ResourceId(r)) < work + run.rounding();
      CHECK(integral);
    }
  }
}

TEST_CASE("the order of starts within an instant does not matter") {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    CAPTURE(seed);
    const Random random(seed);
    CHECK(RandomRun(random).ends() == RandomRun(random, 1, false, true).ends());
  }
}

TEST_CASE("k equal activities end when one with k times the counts does") {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    CAPTURE(seed);
    const Random random(seed);
    const std::vector<Duration> folded = RandomRun(random, 4, true).ends();
    std::vector<Duration> expected;
    for (const Duration end : folded) expected.insert(expected.end(), 4, end);
    CHECK(RandomRun(random, 4, false).ends() == expected);
  }
}

TEST_CASE("counts may exceed 32 bits") {
  // 2^50 <= (2^34 + 2^34) x, so x = 2^15 steps each; 2^15 steps are 512 units a second.
  FluidNetwork network;
  const ResourceId resource = network.add_resource(Rate(std::int64_t{1} << 50));
  const std::array<Crossing, 1> crossings = {Crossing{resource, std::int64_t{1} << 34}};
  const ActivityId one = network.start(at(0_ns), 512, kUncapped, crossings, 1);
  CHECK(network.rate(one) == Rate(1 << 16));
  network.start(at(0_ns), 512, kUncapped, crossings, 2);
  network.solve(at(0_ns));
  CHECK(network.rate(one) == Rate(1 << 15));
  CHECK(network.usage(resource) == network.capacity(resource));
  CHECK(run_to_end(network, 0_ns) ==
        std::vector<Ended>{{1, Duration(1'000'000'000'000)}, {2, Duration(1'000'000'000'000)}});
}

TEST_CASE("a resource that is left out is accounted for without being solved for") {
  FluidNetwork network;
  const ResourceId narrow = network.add_resource(8_GBps);
  const ResourceId wide = network.add_resource(10_GBps);
  network.leave_out(wide);
  const std::array<Crossing, 2> both = {Crossing{wide, 1}, Crossing{narrow, 1}};
  network.start(at(0_ns), 800, kUncapped, both, 1);
  CHECK(network.usage(wide) == rate_from(8e9));
  network.start(at(0_ns), 400, kUncapped, both, 2);
  network.solve(at(0_ns));
  CHECK(network.usage(wide) == rate_from(8e9));
  CHECK(network.served(wide, at(50_ns)) == 400.0);
  CHECK(run_to_end(network, 0_ns) == std::vector<Ended>{{2, 100_ns}, {1, 150_ns}});
  CHECK(network.served(wide, at(150_ns)) == 1200.0);
}

// Ports behind a bundle that takes as much as all of them: the rates are those of the bundle's equation as well, to
// within the rounding that the essay of network.hpp speaks of.
TEST_CASE("a bundle that its ports cannot fill may be left out") {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    CAPTURE(seed);
    RandomStream random(seed);
    const std::uint64_t ports = 1 + random.below(5);
    std::vector<std::int64_t> capacity;
    for (std::uint64_t p = 0; p < ports; ++p)
      capacity.push_back(1 + static_cast<std::int64_t>(random.below(1'000'000)));
    std::array<FluidNetwork, 2> networks;
    std::vector<std::vector<ActivityId>> activities(2);
    const ResourceId bundle(ports);
    const std::uint64_t first = random.next();
    for (const bool left_out : {false, true}) {
      FluidNetwork& network = networks[left_out];
      std::int64_t sum = 0;
      for (const std::int64_t each : capacity) {
        network.add_resource(Rate(each));
        sum += each;
      }
      REQUIRE(network.add_resource(Rate(sum)) == bundle);
      if (left_out) network.leave_out(bundle);
      RandomStream draws(first);
      for (std::uint64_t i = 1 + draws.below(12); i > 0; --i) {
        // Over one port or two, and over the bundle as often as over both together.
        const auto a = static_cast<std::size_t>(draws.below(ports));
        const auto b = static_cast<std::size_t>(draws.below(ports));
        const auto count = static_cast<std::int32_t>(1 + draws.below(3));
        std::vector<Crossing> crossings{{ResourceId(a), count}};
        if (a != b) crossings.push_back({ResourceId(b), 1});
        crossings.push_back({bundle, a != b ? count + 1 : count});
        const Rate cap = draws.below(2) == 0 ? kUncapped : Rate(static_cast<std::int64_t>(draws.below(300'000)));
        activities[left_out].push_back(network.start(at(0_ns), 1 << 30, cap, crossings, i));
      }
      if (network.needs_solve()) network.solve(at(0_ns));
    }
    for (std::size_t i = 0; i < activities[0].size(); ++i) {
      const std::int64_t with = networks[0].rate(activities[0][i]).count();
      const std::int64_t without = networks[1].rate(activities[1][i]).count();
      CHECK(without - with <= 4);
      CHECK(with - without <= 4);
    }
    CHECK(networks[1].usage(bundle) <= networks[1].capacity(bundle));
  }
}

TEST_CASE("full solves are done when they are asked for, and only then") {
  for (const bool full : {true, false}) {
    CAPTURE(full);
    FluidOptions options = full ? FluidOptions::full() : FluidOptions{.lone_fast_path = false, .full_share = 0};
    FluidNetwork network(options);
    for (int r = 0; r < 20; ++r) network.add_resource(8_GBps);
    for (std::size_t r = 0; r < 20; ++r) {
      const std::array<Crossing, 1> route = {Crossing{ResourceId(r), 1}};
      network.start(at(0_ns), 100 * (1 + static_cast<std::int64_t>(r)), kUncapped, route, r);
    }
    CHECK(run_to_end(network, 0_ns).size() == 20);
    CHECK(network.statistics().solves == 21);  // the start, and one after each end
    CHECK(network.statistics().full_solves == (full ? 21 : 0));
  }
}

TEST_CASE("rates convert from and to units per second") {
  CHECK(rate_from(50e9) == Rate(3'200'000'000'000));
  CHECK(rate_from(1.0 / 64) == Rate(1));
  CHECK(rate_from(1.0 / 65) == Rate(0));
  CHECK(units_per_second(Rate(96)) == 1.5);
  // 10 units at 3 units/s: 10/3 s, rounded up to the picosecond.
  CHECK(time_for(ticks_from_units(10), rate_from(3.0)) == Duration(3'333'333'333'334));
  CHECK(time_for(ticks_from_units(1), Rate(0)) == Duration::max());
  CHECK(time_for(ticks_from_units(std::numeric_limits<std::int64_t>::max()), Rate(1)) == Duration::max());
}

}  // namespace
}  // namespace orrery
