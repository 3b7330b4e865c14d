// A cluster with its slow parts: what links and memories really do in one run.
#pragma once

#include <span>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/exec/slowdown.hpp"
#include "topology/topology.hpp"

namespace orrery {

class Hardware {
 public:
  // The topology must outlive it. Slowdowns of one part multiply.
  explicit Hardware(const Topology& topology, std::span<const GpuSlowdown> slow_gpus = {},
                    std::span<const LinkSlowdown> slow_links = {});

  [[nodiscard]] const Topology& topology() const { return *topology_; }

  // Payload bandwidth of a link, slowdowns included. O(log slow links), as the others.
  [[nodiscard]] BytesPerSecond link_bandwidth(LinkId link) const;

  // Whether the link may ever decide a rate: not where the NIC ports behind it cannot fill it (fluid/network.hpp).
  [[nodiscard]] bool may_decide(LinkId link) const;

  // What a GPU's memory gives to all that runs on it, slowdowns included.
  [[nodiscard]] BytesPerSecond memory_bandwidth(GpuId gpu) const;

  // The slowdown of a GPU's compute and memory rates, in (0, 1]; 1 for most.
  [[nodiscard]] double gpu_factor(GpuId gpu) const;

 private:
  const Topology* topology_;
  std::vector<GpuSlowdown> slow_gpus_;    // sorted, each GPU once
  std::vector<LinkSlowdown> slow_links_;  // likewise
};

}  // namespace orrery
