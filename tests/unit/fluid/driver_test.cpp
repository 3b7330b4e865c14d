#include "sim/fluid/driver.hpp"

#include <doctest/doctest.h>

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace orrery {
namespace {

using namespace literals;

enum Kind : std::uint32_t { kComplete, kSettle, kBegin };

struct Ended {
  std::uint64_t tag;
  Duration at;
  friend bool operator==(const Ended&, const Ended&) = default;
};

TEST_CASE("the driver hands out completions at the instants that sharing gives") {
  // Link of 8 B/ns. A: 1000 B from 0. B: 1000 B from 50 ns. A alone does 400 B in 50 ns; then each has 4 B/ns; A's 600
  // B end at 50 + 150 = 200 ns; B has 400 B left, alone at 8 B/ns: 250 ns.
  Engine<> engine;
  FluidNetwork network;
  FluidDriver driver(engine, network, kComplete, kSettle);
  const std::array<Crossing, 1> route = {Crossing{network.add_resource(8_GBps), 1}};
  engine.after(0_ps, EventPhase::start, {kBegin, 1});
  engine.after(50_ns, EventPhase::start, {kBegin, 2});
  std::vector<Ended> ended;
  engine.run([&](const Event& event) {
    if (driver.owns(event)) {
      driver.handle(event, [&](std::uint64_t tag) { ended.push_back({tag, engine.now().time_since_epoch()}); });
    } else {
      driver.start(1000, kUncapped, route, event.target);
    }
  });
  CHECK(ended == std::vector<Ended>{{1, 200_ns}, {2, 250_ns}});
}

TEST_CASE("an activity without work ends in the instant in which it starts, and may start the next") {
  Engine<> engine;
  FluidNetwork network;
  FluidDriver driver(engine, network, kComplete, kSettle);
  const std::array<Crossing, 1> route = {Crossing{network.add_resource(1_GBps), 1}};
  engine.after(7_ns, EventPhase::start, {kBegin, 3});
  std::vector<Ended> ended;
  engine.run([&](const Event& event) {
    if (driver.owns(event)) {
      driver.handle(event, [&](std::uint64_t tag) {
        ended.push_back({tag, engine.now().time_since_epoch()});
        if (tag > 0) driver.start(tag == 1 ? 10 : 0, kUncapped, route, tag - 1);
      });
    } else {
      driver.start(0, kUncapped, route, event.target);
    }
  });
  CHECK(ended == std::vector<Ended>{{3, 7_ns}, {2, 7_ns}, {1, 7_ns}, {0, 17_ns}});
}

}  // namespace
}  // namespace orrery
