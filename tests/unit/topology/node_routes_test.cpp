// Routes inside a node: derived by hand for the nodes people have, and compared with an exhaustive search on odd ones.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "tests/unit/topology/fixtures.hpp"

namespace orrery {
namespace {

using test::cluster_of;
using test::text_of;

Topology built(const ClusterSpec& spec, std::uint64_t seed = 1) {
  Result<Topology> topology = Topology::build(spec, seed);
  REQUIRE_MESSAGE(topology.ok(), to_string(topology.problems()));
  return std::move(topology).value();
}

TEST_CASE("GPUs of a DGX A100 reach one another over the NVSwitch plane") {
  const Topology topology = built(cluster_of(test::dgx_a100(), 1));
  CHECK(text_of(topology, 0, 5) == "node0.gpu0->nvswitch node0.nvswitch->gpu5");
  // Two links of 250 ns.
  CHECK(topology.route(GpuId(0), GpuId(5)).latency == Duration(500'000));
  CHECK(topology.intra_node_kind(NodeId(0)) == LinkKind::nvlink);
  CHECK(topology.route(GpuId(3), GpuId(3)).links.empty());
}

TEST_CASE("Each GPU of a DGX A100 leaves by the NIC of its own on the same PCIe switch") {
  const Topology topology = built(cluster_of(test::dgx_a100(), 2));
  for (int gpu = 0; gpu < 8; ++gpu) CHECK(topology.nearest_nic(GpuId(gpu)) == gpu);
  CHECK(
      text_of(topology, 2, 13) ==
      "node0.gpu2->pcie1 node0.pcie1->nic2 node0.nic2->switch switch->node1.nic5 node1.nic5->pcie2 node1.pcie2->gpu5");
  // Four PCIe links of 150 ns, two ports of 600 ns, one switch of 130 ns.
  CHECK(topology.route(GpuId(2), GpuId(13)).latency == Duration(1'930'000));
}

TEST_CASE("A NIC of another PCIe switch is reached over NVLink and the GPU that owns it, not over the CPU") {
  const Topology topology = built(cluster_of(test::dgx_a100(), 2));
  CHECK(text_of(topology, 0, 13, {5, 5, 0}) ==
        "node0.gpu0->nvswitch node0.nvswitch->gpu5 node0.gpu5->pcie2 node0.pcie2->nic5 node0.nic5->switch "
        "switch->node1.nic5 node1.nic5->pcie2 node1.pcie2->gpu5");
  // The neighbour on the same switch is one PCIe hop away, nearer than a relay.
  CHECK(
      text_of(topology, 0, 9, {1, 1, 0}) ==
      "node0.gpu0->pcie0 node0.pcie0->nic1 node0.nic1->switch switch->node1.nic1 node1.nic1->pcie0 node1.pcie0->gpu1");
}

TEST_CASE("A GPU's host is the socket above its PCIe switch") {
  const Topology topology = built(cluster_of(test::dgx_a100(), 2));
  CHECK(text_of(topology, topology.device_to_host(GpuId(8 + 5))) == "node1.gpu5->pcie2 node1.pcie2->socket1");
  CHECK(text_of(topology, topology.host_to_device(GpuId(8 + 5))) == "node1.socket1->pcie2 node1.pcie2->gpu5");
  CHECK(topology.host_to_device(GpuId(0)).latency == Duration(300'000));
}

TEST_CASE("In a hybrid cube mesh, GPUs that are not joined go through the neighbour with the widest links") {
  const Topology topology = built(cluster_of(test::dgx1(), 1));
  CHECK(text_of(topology, 0, 3) == "node0.gpu0->gpu3");
  CHECK(topology.link(topology.find_link("node0.gpu0->gpu3")).bandwidth == BytesPerSecond(50e9));
  CHECK(topology.link(topology.find_link("node0.gpu0->gpu1")).bandwidth == BytesPerSecond(25e9));
  // 0 and 6 share the neighbours 2 (one link, then one) and 4 (two links, then one).
  CHECK(text_of(topology, 0, 6) == "node0.gpu0->gpu4 node0.gpu4->gpu6");
  // 0 and 7 share 3 (two, then one) and 4 (two, then two).
  CHECK(text_of(topology, 0, 7) == "node0.gpu0->gpu4 node0.gpu4->gpu7");
  CHECK(topology.route(GpuId(0), GpuId(7)).latency == Duration(800'000));
  CHECK(topology.intra_node_kind(NodeId(0)) == LinkKind::nvlink);
}

TEST_CASE("In a hybrid cube mesh, two GPUs share the NIC of their PCIe switch") {
  const Topology topology = built(cluster_of(test::dgx1(), 2));
  for (int gpu = 0; gpu < 8; ++gpu) CHECK(topology.nearest_nic(GpuId(gpu)) == gpu / 2);
  // GPU 0 to NIC 1 (beside GPUs 2 and 3): over GPU 3, by two links.
  CHECK(text_of(topology, 0, 8, {1, 0, 0}).starts_with("node0.gpu0->gpu3 node0.gpu3->pcie1 node0.pcie1->nic1"));
  // GPU 0 has no NVLink to GPUs 6 and 7, which are beside NIC 3: PCIe, over both sockets.
  CHECK(text_of(topology, 0, 8, {3, 0, 0})
            .starts_with("node0.gpu0->pcie0 node0.pcie0->socket0 node0.socket0->socket1 node0.socket1->pcie3 "
                         "node0.pcie3->nic3"));
}

TEST_CASE("Mesh pairs more than one relay apart go over PCIe, and the node counts as PCIe") {
  // A chain 0-1-2-3: 0 and 3 would need two relays. One socket with one PCIe switch.
  NodeSpec node = test::dgx1();
  node.gpus = 4;
  node.sockets = 1;
  node.switches_per_socket = 1;
  node.nics = 1;
  node.mesh_links = {{0, 1, 1}, {1, 2, 1}, {2, 3, 1}};
  const Topology topology = built(cluster_of(node, 1));
  CHECK(text_of(topology, 0, 2) == "node0.gpu0->gpu1 node0.gpu1->gpu2");
  CHECK(text_of(topology, 0, 3) == "node0.gpu0->pcie0 node0.pcie0->gpu3");
  CHECK(topology.intra_node_kind(NodeId(0)) == LinkKind::pcie);
}

TEST_CASE("Bridged pairs of PCIe cards use their bridge, and PCIe between pairs") {
  NodeSpec node = test::pcie_box(4, 1);
  node.wiring = GpuWiring::mesh;
  node.mesh_links = {{0, 1, 12}, {2, 3, 12}};
  const Topology topology = built(cluster_of(node, 1));
  CHECK(text_of(topology, 0, 1) == "node0.gpu0->gpu1");
  CHECK(text_of(topology, 1, 2) == "node0.gpu1->socket0 node0.socket0->socket1 node0.socket1->gpu2");
  CHECK(topology.intra_node_kind(NodeId(0)) == LinkKind::pcie);
}

TEST_CASE("Without PCIe switches GPUs and NICs hang on the root ports of their socket") {
  const Topology topology = built(cluster_of(test::pcie_box(8, 1), 2));
  CHECK(text_of(topology, 0, 3) == "node0.gpu0->socket0 node0.socket0->gpu3");
  CHECK(text_of(topology, 0, 4) == "node0.gpu0->socket0 node0.socket0->socket1 node0.socket1->gpu4");
  CHECK(text_of(topology, topology.device_to_host(GpuId(7))) == "node0.gpu7->socket1");
  CHECK(text_of(topology, 5, 8) ==
        "node0.gpu5->socket1 node0.socket1->socket0 node0.socket0->nic0 node0.nic0->switch switch->node1.nic0 "
        "node1.nic0->socket0 node1.socket0->gpu0");
  CHECK(topology.intra_node_kind(NodeId(0)) == LinkKind::pcie);
}

TEST_CASE("More NICs than GPUs: each GPU's nearest is the first of its share") {
  NodeSpec node = test::dgx_a100();  // four PCIe switches, two GPUs and eight NICs on each
  node.nics = 32;
  const Topology topology = built(cluster_of(node, 2));
  for (int gpu = 0; gpu < 8; ++gpu) CHECK(topology.nearest_nic(GpuId(gpu)) == 4 * gpu);
}

TEST_CASE("Fewer NICs than PCIe switches: GPUs without one beside them share the nearest by PCIe, reached by relay") {
  NodeSpec node = test::dgx_a100();  // two NICs: on switches 0 and 2, one a socket
  node.nics = 2;
  const Topology topology = built(cluster_of(node, 2));
  for (int gpu = 0; gpu < 8; ++gpu) CHECK(topology.nearest_nic(GpuId(gpu)) == gpu / 4);
  CHECK(text_of(topology, 2, 8).starts_with("node0.gpu2->nvswitch node0.nvswitch->gpu0 node0.gpu0->pcie0"));
}

TEST_CASE("GPUs that share more NICs than one but fewer than themselves are dealt them in turn") {
  NodeSpec node = test::pcie_box(4, 2);
  node.sockets = 1;  // all GPUs equally far from both NICs
  const Topology topology = built(cluster_of(node, 2));
  CHECK(topology.nearest_nic(GpuId(0)) == 0);
  CHECK(topology.nearest_nic(GpuId(1)) == 1);
  CHECK(topology.nearest_nic(GpuId(2)) == 0);
  CHECK(topology.nearest_nic(GpuId(3)) == 1);
}

TEST_CASE("Trays whose sockets are not joined reach one another over NVLink alone") {
  NodeSpec node = test::dgx_a100();  // a rack of four trays with two GPUs and two NICs each
  node.sockets = 4;
  node.switches_per_socket = 0;
  node.socket_link = {};
  const Topology topology = built(cluster_of(node, 2));
  CHECK_FALSE(topology.find_link("node0.socket0->socket1").valid());
  CHECK(text_of(topology, 0, 7) == "node0.gpu0->nvswitch node0.nvswitch->gpu7");
  CHECK(text_of(topology, 0, 8, {6, 0, 0})
            .starts_with("node0.gpu0->nvswitch node0.nvswitch->gpu6 node0.gpu6->socket3 node0.socket3->nic6"));
}

TEST_CASE("A single GPU without a NIC has a host and nobody else") {
  NodeSpec node = test::single_gpu();
  node.nics = 0;
  const Topology topology = built(cluster_of(node, 1));
  CHECK(topology.gpus() == 1);
  CHECK(topology.nearest_nic(GpuId(0)) == -1);
  CHECK(text_of(topology, topology.device_to_host(GpuId(0))) == "node0.gpu0->socket0");
  CHECK(topology.intra_node_kind(NodeId(0)) == LinkKind::pcie);
  CHECK(topology.bisection_bandwidth() == BytesPerSecond(0));
}

// How bad a path is: links between sockets, PCIe links to and from sockets above switches, other PCIe links, relays by
// a GPU, NVLinks. Compared in this order.
using Badness = std::array<int, 5>;

struct Search {
  const ExplicitGraph& graph;
  std::string target;
  std::set<int> visited;
  Badness best{1000, 0, 0, 0, 0};

  [[nodiscard]] static bool is(const std::string& name, const char* device) {
    return name.find(std::string(".") + device) != std::string::npos;
  }
  [[nodiscard]] bool uplink(const ExplicitGraph::Edge& edge) const {
    const std::string& from = graph.vertices[static_cast<std::size_t>(edge.from)];
    const std::string& to = graph.vertices[static_cast<std::size_t>(edge.to)];
    return (is(from, "pcie") && is(to, "socket")) || (is(from, "socket") && is(to, "pcie"));
  }
  [[nodiscard]] Badness plus(Badness sum, const ExplicitGraph::Edge& edge) const {
    switch (edge.info.kind) {
      case LinkKind::socket:
        ++sum[0];
        break;
      case LinkKind::pcie:
        ++sum[uplink(edge) ? 1 : 2];
        break;
      default:
        ++sum[4];
    }
    return sum;
  }

  // All simple paths. A GPU on the way is entered by NVLink, one at most; if a GPU is the target it is left by NVLink,
  // if a NIC is, that NIC is beside it.
  void walk(int at, Badness so_far, bool by_nvlink, bool first) {
    if (graph.vertices[static_cast<std::size_t>(at)] == target) {
      best = std::min(best, so_far);
      return;
    }
    const bool relay = !first && is(graph.vertices[static_cast<std::size_t>(at)], "gpu");
    if (relay && (!by_nvlink || ++so_far[3] > 1)) return;
    visited.insert(at);
    for (const ExplicitGraph::Edge& edge : graph.edges) {
      if (edge.from != at || edge.info.kind == LinkKind::nic || visited.contains(edge.to)) continue;
      const bool nvlink = edge.info.kind == LinkKind::nvlink;
      if (relay && is(target, "gpu") && !nvlink) continue;
      const bool relayed = relay || so_far[3] > 0;
      if (relayed && is(target, "nic") && (edge.info.kind == LinkKind::socket || uplink(edge))) continue;
      walk(edge.to, plus(so_far, edge), nvlink, false);
    }
    visited.erase(at);
  }
};

void check_against_search(const NodeSpec& node) {
  const Topology topology = built(cluster_of(node, 2));
  const ExplicitGraph graph = materialize(topology);
  const auto vertex = [&](const std::string& name) {
    return static_cast<int>(std::find(graph.vertices.begin(), graph.vertices.end(), name) - graph.vertices.begin());
  };
  const auto check = [&](int from, const std::string& target, const Route& route, std::size_t links) {
    Search search{graph, target, {}, {1000, 0, 0, 0, 0}};
    search.walk(vertex("node0.gpu" + std::to_string(from)), {}, false, true);
    Badness found{};
    for (std::size_t i = 0; i < links; ++i) {
      const ExplicitGraph::Edge& edge = graph.edges[route.links[i].index()];
      if (i > 0 && Search::is(graph.vertices[static_cast<std::size_t>(edge.from)], "gpu")) ++found[3];
      found = search.plus(found, edge);
    }
    CAPTURE(text_of(topology, route));
    CHECK(found == search.best);
  };
  for (int from = 0; from < node.gpus; ++from) {
    for (int to = 0; to < node.gpus; ++to) {
      if (to == from) continue;
      const Route route = topology.route(GpuId(from), GpuId(to));
      check(from, "node0.gpu" + std::to_string(to), route, route.links.size());
    }
    for (int nic = 0; nic < node.nics; ++nic) {
      const Route route = topology.route(GpuId(from), GpuId(node.gpus), {nic, -1, 0});
      const auto port = std::find(route.links.begin(), route.links.end(),
                                  topology.find_link("node0.nic" + std::to_string(nic) + "->switch"));
      REQUIRE(port != route.links.end());
      check(from, "node0.nic" + std::to_string(nic), route, static_cast<std::size_t>(port - route.links.begin()));
    }
  }
}

TEST_CASE("No path inside a node is preferable to the one chosen (exhaustive search)") {
  for (const int nics : {1, 2, 3, 8, 11}) {
    for (const int switches : {0, 1, 2}) {
      for (NodeSpec node : {test::dgx_a100(), test::dgx1(), test::pcie_box(5, 2)}) {
        node.nics = nics;
        node.switches_per_socket = switches;
        CAPTURE(node.name);
        CAPTURE(nics);
        CAPTURE(switches);
        check_against_search(node);
      }
    }
  }
  NodeSpec chain = test::dgx1();
  chain.gpus = 5;
  chain.mesh_links = {{0, 1, 3}, {1, 2, 1}, {2, 3, 4}, {3, 4, 1}};
  check_against_search(chain);
}

}  // namespace
}  // namespace orrery
