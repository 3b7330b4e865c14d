// The links that a copy crosses. Offloaded state that goes between a GPU and its host also crosses the memory of the
// GPU's socket. Work of the CPUs crosses nothing else, and drives have it at their other end. Input and results, some
// bytes a token, leave memory out: without offloading it is nothing that ranks have in common, and they fold as if it
// was not there.
#pragma once

#include "sim/graph/program.hpp"
#include "topology/topology.hpp"

namespace orrery {

// The latency is that of the PCIe path, or of the memory or drive. No links: the node has nothing to go over.
[[nodiscard]] Route copy_route(const Topology& topology, GpuId gpu, CopyDirection direction, bool offload);

}  // namespace orrery
