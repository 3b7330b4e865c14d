#include "topology/explicit_graph.hpp"

#include <fmt/format.h>

#include "topology/topology_impl.hpp"

namespace orrery {

ExplicitGraph materialize(const Topology& topology) {
  const Topology::Impl& impl = *topology.impl_;
  ExplicitGraph graph;
  for (int i = 0; i < impl.fabric->switches(); ++i) graph.vertices.push_back(impl.fabric->switch_name(i));
  std::vector<int> vertex_first;  // by node
  for (int node = 0; node < topology.nodes(); ++node) {
    vertex_first.push_back(static_cast<int>(graph.vertices.size()));
    for (const Device device : impl.group_of_node(node).node.devices) {
      if (device.kind == DeviceKind::fabric) continue;
      graph.vertices.push_back(fmt::format("node{}.{}", node, orrery::name_of(device)));
    }
  }
  for (int i = 0; i < topology.links(); ++i) {
    const LinkId link(i);
    ExplicitGraph::Edge edge{0, 0, topology.link(link)};
    if (const auto place = impl.node_link(link)) {
      const NodeTemplate& node = place->group->node;
      const NodeLink& ends = node.links[static_cast<std::size_t>(place->local)];
      const auto vertex = [&](int end, int other) {
        if (node.devices[static_cast<std::size_t>(end)].kind != DeviceKind::fabric) {
          return vertex_first[static_cast<std::size_t>(place->node)] + end;
        }
        return impl.fabric->switch_of(place->node, node.devices[static_cast<std::size_t>(other)].index);
      };
      edge.from = vertex(ends.from, ends.to);
      edge.to = vertex(ends.to, ends.from);
    } else {
      const FabricLink found = impl.fabric_link(link);
      edge.from = found.from;
      edge.to = found.to;
    }
    graph.edges.push_back(edge);
  }
  return graph;
}

}  // namespace orrery
