// Whole runs with known results: the churn of flows on a fat tree and the ring all-reduce, with every message.
//
// The makespans of the churn were computed by an independent prototype of max-min sharing, which agreed to the
// nanosecond with SimGrid 3.32 where both solve the same problem (all latencies 0: SimGrid weighs flows by latency
// otherwise).
#include <doctest/doctest.h>

#include <cmath>

#include "sim/fluid/network.hpp"
#include "sim/fluid/reference_network.hpp"
#include "tests/bench/churn.hpp"
#include "tests/bench/ring.hpp"

namespace orrery {
namespace {

using bench::Churn;
using bench::ChurnCase;
using bench::ChurnResult;
using bench::Ring;
using bench::RingCase;

double milliseconds(Duration duration) { return static_cast<double>(duration.count()) * 1e-9; }

ChurnResult churn(const ChurnCase& which, FluidOptions options = {}) {
  FluidNetwork network(options);
  ChurnResult result = Churn<FluidNetwork>(which, network).run();
  result.events = 0;  // how often the network is settled depends on how it solves
  return result;
}

Duration ring(const RingCase& which) {
  FluidNetwork network;
  return Ring<FluidNetwork>(which, network).run().makespan;
}

TEST_CASE("churn of 10,000 flows ends when the independent prototype says") {
  constexpr double kTolerance = 1e-4;  // a hundredth of a percent
  CHECK(std::abs(milliseconds(churn({8, 16}).makespan) / 73.006702 - 1) < kTolerance);
  CHECK(std::abs(milliseconds(churn({32, 16}).makespan) / 26.052428 - 1) < kTolerance);
  ChurnCase no_latency{8, 16};
  no_latency.link_latency = Duration(0);
  CHECK(std::abs(milliseconds(churn(no_latency).makespan) / 72.930503 - 1) < kTolerance);
}

TEST_CASE("churn has the same completions with local repair and full solves") {
  const ChurnResult expected = churn({8, 16});
  CHECK(expected.completed == 10'000);
  CHECK(churn({8, 16}, FluidOptions::full()) == expected);
  CHECK(churn({8, 16}, {.lone_fast_path = false, .full_share = 0}) == expected);
}

TEST_CASE("the same churn twice has the same fingerprint of events") {
  FluidNetwork one;
  FluidNetwork two;
  const ChurnCase small{3, 4, 600};
  CHECK(Churn<FluidNetwork>(small, one).run() == Churn<FluidNetwork>(small, two).run());
}

TEST_CASE("churn has the same completions as with the slow twin") {
  const ChurnCase small{3, 4, 600};
  ReferenceNetwork slow;
  ChurnResult expected = Churn<ReferenceNetwork>(small, slow).run();
  expected.events = 0;
  CHECK(churn(small) == expected);
}

TEST_CASE("a ring all-reduce takes 2(n - 1) times the slowest edge when a GPU sends one message at a time") {
  // Every 16th edge leads to another leaf: 4 links, 2 us; its sender is never starved, so it sends 2(n - 1) messages of
  // 2^30/n B at 50e9 B/s back to back. n = 64: 126 * (335.54432 + 2) us; n = 512: 1022 * (41.94304 + 2) us.
  CHECK(ring({4, 16}) == Duration(126 * std::int64_t{337'544'320}));
  CHECK(ring({32, 16}) == Duration(1022 * std::int64_t{43'943'040}));
}

TEST_CASE("a ring all-reduce takes the longest chain of messages when sends may overlap") {
  // A chain of 1022 messages goes round the ring of 512 edges twice, less two edges: 64 times over one of the 32 edges
  // with 2 us, else over edges with 1 us. 1022 * (41.94304 + 1) us + 64 us.
  RingCase overlapping{32, 16};
  overlapping.one_send_at_a_time = false;
  CHECK(ring(overlapping) == Duration(1022 * std::int64_t{42'943'040} + 64'000'000));
}

}  // namespace
}  // namespace orrery
