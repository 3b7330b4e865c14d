// Ring all-reduce with every message simulated: reduce-scatter and all-gather, 2(n - 1) steps, in each of which every
// GPU sends one n-th of the buffer to its neighbour. A GPU sends its next message when it has received the one before
// and, with one_send_at_a_time, has finished sending its own; its flow is then kept from message to message, where the
// network can do that.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/engine/engine.hpp"
#include "sim/fluid/driver.hpp"
#include "tests/bench/two_level_fabric.hpp"

namespace orrery::bench {

struct RingCase {
  std::int64_t leaves = 4;
  std::int64_t hosts = 16;  // on a leaf; one GPU a host
  Bytes buffer = Bytes(std::int64_t{1} << 30);
  Duration link_latency = Duration(500'000);
  bool one_send_at_a_time = true;
};

struct RingResult {
  Duration makespan{};
  std::int64_t messages = 0;
  std::uint64_t events = 0;  // the fingerprint of the engine

  friend bool operator==(const RingResult&, const RingResult&) = default;
};

template <class Network>
class Ring {
 public:
  Ring(const RingCase& ring, Network& network)
      : one_send_at_a_time_(ring.one_send_at_a_time), steps_(0), fabric_(ring.leaves, ring.hosts), network_(network) {
    fabric_.build(network_);
    const std::int64_t gpus = fabric_.host_count();
    chunk_ = ring.buffer.count() / gpus;
    steps_ = 2 * (gpus - 1);
    for (std::int64_t gpu = 0; gpu < gpus; ++gpu) {
      const TwoLevelFabric::Route route = fabric_.route(gpu, (gpu + 1) % gpus);
      const Duration latency = ring.link_latency * static_cast<std::int64_t>(route.count);
      gpus_.push_back({route, engine_.lane(latency, EventPhase::start)});
      if constexpr (kCanKeep) {
        if (one_send_at_a_time_)
          gpus_.back().flow = driver_.keep(kUncapped, route.span(), static_cast<std::uint64_t>(gpu));
      }
    }
  }

  RingResult run() {
    for (std::uint64_t gpu = 0; gpu < gpus_.size(); ++gpu) try_send(gpu);
    RingResult result;
    engine_.run([&](const Event& event) {
      if (event.kind == kEnter) {
        send(event.target);
        return;
      }
      driver_.handle(event, [&](std::uint64_t gpu) {
        ++result.messages;
        const std::uint64_t neighbour = gpu + 1 == gpus_.size() ? 0 : gpu + 1;
        ++gpus_[gpu].delivered;
        ++gpus_[neighbour].received;
        try_send(neighbour);
        if (one_send_at_a_time_) try_send(gpu);
      });
    });
    result.makespan = engine_.now().time_since_epoch();
    result.events = engine_.fingerprint();
    return result;
  }

 private:
  static constexpr bool kCanKeep = requires(Network & network) { network.discard(ActivityId()); };

  enum Kind : std::uint32_t { kComplete, kSettle, kEnter };

  struct Gpu {
    TwoLevelFabric::Route route;
    LaneId lane;
    ActivityId flow{};
    std::int64_t sent = 0;
    std::int64_t delivered = 0;  // of those sent
    std::int64_t received = 0;
  };

  void try_send(std::uint64_t gpu) {
    Gpu& state = gpus_[gpu];
    if (state.sent == steps_ || state.received < state.sent) return;
    if (one_send_at_a_time_ && state.delivered < state.sent) return;
    ++state.sent;
    engine_.after(state.lane, {kEnter, gpu});
  }

  void send(std::uint64_t gpu) {
    if constexpr (kCanKeep) {
      if (one_send_at_a_time_) return driver_.run(gpus_[gpu].flow, chunk_);
    }
    driver_.start(chunk_, kUncapped, gpus_[gpu].route.span(), gpu);
  }

  bool one_send_at_a_time_;
  std::int64_t steps_;
  TwoLevelFabric fabric_;
  Engine<> engine_;
  Network& network_;
  FluidDriver<Engine<>, Network> driver_{engine_, network_, kComplete, kSettle};
  std::vector<Gpu> gpus_;
  std::int64_t chunk_ = 0;
};

}  // namespace orrery::bench
