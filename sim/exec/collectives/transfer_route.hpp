// How a point-to-point transfer goes, and what it uses.
#pragma once

#include <vector>

#include "sim/exec/collectives/routed_plan.hpp"

namespace orrery {

struct TransferRoute {
  EdgePath path;
  std::vector<RawUse> uses;
};

[[nodiscard]] inline TransferRoute transfer_route(const Topology& topology, GpuId from, GpuId to, bool pxn) {
  TransferRoute route;
  RouteOptions options;
  if (pxn) options.from_nic = nic_towards(topology, from, to);
  route.path = path_between(topology, from, to, options);
  UseCounter counter;
  for (const LinkId link : route.path.links) counter.add_link(link);
  counter.add_memory(from, kPointToPoint.source);
  counter.add_memory(to, kPointToPoint.target);
  route.uses = counter.take();
  return route;
}

}  // namespace orrery
