// The whole cluster as a plain list of vertices and edges: for tests, drawings and other tools. Its size is that of the
// cluster, so it suits small ones; the simulator itself never builds it.
#pragma once

#include <string>
#include <vector>

#include "topology/topology.hpp"

namespace orrery {

struct ExplicitGraph {
  struct Edge {
    int from = 0;  // indices into `vertices`
    int to = 0;
    LinkInfo info;
  };
  std::vector<std::string> vertices;  // "node3.gpu2", "leaf4"; unique
  std::vector<Edge> edges;            // by LinkId
};

[[nodiscard]] ExplicitGraph materialize(const Topology& topology);

}  // namespace orrery
