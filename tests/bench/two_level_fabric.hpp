// The fabric that the churn and the ring run on: a two-level non-blocking fat tree with deterministic routes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/fluid/rate.hpp"
#include "sim/fluid/sharing.hpp"

namespace orrery::bench {

// `leaves` leaves with `hosts` hosts each, as many spines as hosts on a leaf; every link 50e9 B/s in each direction.
// The spine of a route is the destination's number modulo the number of spines, so that a spine's link down to a leaf
// carries traffic to one host only.
class TwoLevelFabric {
 public:
  struct Route {
    std::array<Crossing, 4> crossings;
    std::size_t count = 0;

    [[nodiscard]] std::span<const Crossing> span() const { return std::span(crossings).first(count); }
  };

  TwoLevelFabric(std::int64_t leaves, std::int64_t hosts) : leaves_(leaves), spines_(hosts) {}

  [[nodiscard]] std::int64_t host_count() const { return leaves_ * spines_; }
  [[nodiscard]] static BytesPerSecond link_rate() { return BytesPerSecond(50e9); }

  // Adds all links to a network: hosts up, hosts down, leaves up, spines down.
  template <class Network>
  void build(Network& network) const {
    for (std::int64_t i = 0; i < 4 * host_count(); ++i) network.add_resource(link_rate());
  }

  [[nodiscard]] Route route(std::int64_t from, std::int64_t to) const {
    const std::int64_t leaf = from / spines_;
    if (leaf == to / spines_) return {{Crossing{host_up(from)}, Crossing{host_down(to)}}, 2};
    const ResourceId leaf_up = id(2 * host_count() + leaf * spines_ + to % spines_);
    return {{Crossing{host_up(from)}, Crossing{leaf_up}, Crossing{spine_down(to)}, Crossing{host_down(to)}}, 4};
  }

 private:
  static ResourceId id(std::int64_t index) { return ResourceId(static_cast<std::size_t>(index)); }
  [[nodiscard]] ResourceId host_up(std::int64_t host) const { return id(host); }
  [[nodiscard]] ResourceId host_down(std::int64_t host) const { return id(host_count() + host); }
  [[nodiscard]] ResourceId spine_down(std::int64_t to) const { return id(3 * host_count() + to); }

  std::int64_t leaves_;
  std::int64_t spines_;  // also hosts on a leaf
};

}  // namespace orrery::bench
