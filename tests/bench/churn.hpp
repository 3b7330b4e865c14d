// Churn: every host of a fabric has eight slots, and each slot sends its flows one after another, to seeded random
// hosts with seeded random sizes. Some thousand flows are under way at any time; each end changes a few dozen rates.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/base/fingerprint.hpp"
#include "sim/base/random.hpp"
#include "sim/base/units.hpp"
#include "sim/engine/engine.hpp"
#include "sim/fluid/driver.hpp"
#include "tests/bench/two_level_fabric.hpp"

namespace orrery::bench {

struct ChurnCase {
  std::int64_t leaves = 8;
  std::int64_t hosts = 16;  // on a leaf
  std::int64_t flows = 10'000;
  Duration link_latency = Duration(500'000);
};

struct ChurnResult {
  Duration makespan{};
  std::int64_t completed = 0;
  std::uint64_t completions = 0;  // a hash of who ended when, in order
  std::uint64_t events = 0;       // the fingerprint of the engine

  friend bool operator==(const ChurnResult&, const ChurnResult&) = default;
};

// after_solve(network, now) is called in the sample phase of every instant with a solve, if `watch`.
template <class Network>
class Churn {
 public:
  Churn(const ChurnCase& churn, Network& network)
      : case_(churn), fabric_(churn.leaves, churn.hosts), network_(network) {
    fabric_.build(network_);
  }

  template <class AtInstant>
  ChurnResult run(AtInstant&& at_instant) {
    const std::int64_t slots = fabric_.host_count() * kSlotsPerHost;
    flow_of_.assign(static_cast<std::size_t>(slots), {});
    for (std::int64_t slot = 0; slot < slots; ++slot) {
      State& state = flow_of_[static_cast<std::size_t>(slot)];
      state.left = case_.flows / slots + (slot < case_.flows % slots ? 1 : 0);
      next(static_cast<std::uint64_t>(slot));
    }
    Fingerprint completions;
    ChurnResult result;
    engine_.run([&](const Event& event) {
      if (event.kind == kEnter) {
        const State& state = flow_of_[event.target];
        driver_.start(state.bytes, kUncapped, state.route.span(), event.target);
        return;
      }
      driver_.handle(event, [&](std::uint64_t slot) {
        completions.add(slot).add(engine_.now().time_since_epoch().count());
        ++result.completed;
        next(slot);
      });
      if (event.kind == kSettle) at_instant(engine_.now());
    });
    result.makespan = engine_.now().time_since_epoch();
    result.completions = completions.value();
    result.events = engine_.fingerprint();
    return result;
  }
  ChurnResult run() {
    return run([](Instant) {});
  }

 private:
  enum Kind : std::uint32_t { kComplete, kSettle, kEnter };
  static constexpr std::int64_t kSlotsPerHost = 8;

  struct State {
    TwoLevelFabric::Route route{};
    std::int64_t bytes = 0;
    std::uint64_t sent = 0;
    std::int64_t left = 0;
  };

  // Sends the slot's next flow: its latency passes, then it enters the sharing.
  void next(std::uint64_t slot) {
    State& state = flow_of_[slot];
    if (state.left == 0) return;
    --state.left;
    const std::uint64_t hash = splitmix64((slot << 32) + state.sent++);
    const auto host = static_cast<std::int64_t>(slot) / kSlotsPerHost;
    state.bytes = 1'000'000 + static_cast<std::int64_t>((hash >> 8) % 63'000'001);
    const auto others = static_cast<std::uint64_t>(fabric_.host_count() - 1);
    auto to = static_cast<std::int64_t>(splitmix64(hash) % others);
    if (to >= host) ++to;
    state.route = fabric_.route(host, to);
    const Duration latency = case_.link_latency * static_cast<std::int64_t>(state.route.count);
    engine_.after(engine_.lane(latency, EventPhase::start), {kEnter, slot});
  }

  ChurnCase case_;
  TwoLevelFabric fabric_;
  Engine<> engine_;
  Network& network_;
  FluidDriver<Engine<>, Network> driver_{engine_, network_, kComplete, kSettle};
  std::vector<State> flow_of_;  // [slots]
};

}  // namespace orrery::bench
