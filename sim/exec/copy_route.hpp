// The links that a copy crosses. Everything between a GPU and its host also crosses the memory of the GPU's socket,
// where that is known: once, however far its bytes come. Work of the CPUs crosses nothing else.
#pragma once

#include "sim/graph/program.hpp"
#include "topology/topology.hpp"

namespace orrery {

// The latency is that of the PCIe path, or of the memory or drive. No links: the node has nothing to go over.
[[nodiscard]] Route copy_route(const Topology& topology, GpuId gpu, CopyDirection direction);

}  // namespace orrery
