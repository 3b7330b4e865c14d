// Fetches, prefetches and releases of ZeRO-3, worked out by hand.
#include <doctest/doctest.h>

#include "workloads/sharding/coordinator.hpp"

using namespace orrery;

namespace {

using Parameters = std::vector<std::size_t>;
using Status = ParameterCoordinator::Status;

Stage stage_of(const std::vector<std::int64_t>& elements) {
  Stage stage;
  for (const std::int64_t n : elements) stage.parameters.push_back({.name = "p", .elements = n});
  return stage;
}

// Four modules of one parameter of 10 elements, forward and backward.
const ParameterTrace kTrace{{0}, {1}, {2}, {3}, {3}, {2}, {1}, {0}};

ParameterCoordinator coordinator(const CoordinatorLimits& limits, const std::vector<bool>& persistent = {0, 0, 0, 0}) {
  return {stage_of({10, 10, 10, 10}), kTrace, persistent, limits};
}

// One module: what it fetches, prefetches and releases.
struct Turn {
  Parameters fetched;
  Parameters ahead;
  Parameters released;

  friend bool operator==(const Turn&, const Turn&) = default;
};

Turn turn(ParameterCoordinator& c) {
  Turn t;
  const Parameters module = c.next_module();
  t.fetched = c.fetch();
  for (const std::size_t p : module) c.arrived(p);
  t.ahead = c.prefetch();
  t.released = c.release();
  return t;
}

}  // namespace

TEST_CASE("without prefetch and reuse every module fetches and releases its own") {
  ParameterCoordinator c = coordinator({0, 1000, 0});
  for (const std::size_t p : {0U, 1U, 2U, 3U, 3U, 2U, 1U, 0U}) {
    CHECK(turn(c) == Turn{{p}, {}, {p}});
  }
  CHECK(c.at_end());
}

TEST_CASE("the prefetch bucket is filled until it is passed, and a use that it passed over keeps a parameter") {
  ParameterCoordinator c = coordinator({15, 1000, 0});
  CHECK(turn(c) == Turn{{0}, {1, 2}, {0}});  // 10 < 15, then 20
  // 3; then 3 again, 2 and 1, which are there or on their way; then 0, which is not any more.
  CHECK(turn(c) == Turn{{}, {3, 0}, {}});
}

TEST_CASE("prefetching stops at the bound of live parameters") {
  ParameterCoordinator c = coordinator({1000, 25, 0});
  CHECK(turn(c) == Turn{{0}, {1, 2}, {0}});  // 10 there, so 15 more at most: the second passes it
  CHECK(turn(c).ahead == Parameters{3});     // 20 there and under way: 5 more at most, passed by the first
}

TEST_CASE("a parameter that is used again within the reuse distance stays") {
  // From module 3 on: 3 is used next; 2 after 10 elements of others have passed.
  ParameterCoordinator c = coordinator({0, 1000, 15});
  CHECK(turn(c).released == Parameters{0});
  CHECK(turn(c).released == Parameters{1});
  CHECK(turn(c).released == Parameters{2});  // next are 3 and 3: 20 elements, and the look ahead ends
  CHECK(turn(c).released == Parameters{});
  CHECK(turn(c) == Turn{{}, {}, {3}});
  CHECK(turn(c).fetched == Parameters{2});
}

TEST_CASE("persistent parameters are neither fetched nor released") {
  ParameterCoordinator c = coordinator({1000, 1000, 0}, {0, 1, 0, 1});
  CHECK(turn(c) == Turn{{0}, {2}, {}});  // the queue was searched to its end, so that 0 has a use it passed over
  CHECK(c.status(1) == Status::there);
  CHECK(turn(c).released == Parameters{});
}
