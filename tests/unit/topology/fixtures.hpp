// Clusters that the tests of this layer share. Bandwidths are whole GB/s and efficiencies 1 unless a test says
// otherwise, so that capacities can be added up by hand.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "topology/explicit_graph.hpp"
#include "topology/topology.hpp"

namespace orrery::test {

inline LinkSpec link_of(std::string name, double gigabytes, std::int64_t nanoseconds) {
  LinkSpec link;
  link.name = std::move(name);
  link.bandwidth = BytesPerSecond(gigabytes * 1e9);
  link.latency = Duration(nanoseconds * 1000);
  return link;
}

// Eight GPUs on an NVSwitch plane; two sockets with two PCIe switches each, two GPUs and two NICs on each of these.
inline NodeSpec dgx_a100() {
  NodeSpec node;
  node.name = "dgx-a100";
  node.gpus = 8;
  node.wiring = GpuWiring::nvswitch;
  node.nvlink = link_of("nvlink", 300, 250);
  node.sockets = 2;
  node.switches_per_socket = 2;
  node.pcie = link_of("pcie", 32, 150);
  node.socket_link = link_of("xgmi", 16, 100);
  node.nics = 8;
  node.nic = link_of("hdr", 25, 600);
  return node;
}

// The hybrid cube mesh of a DGX-1, with the NICs of two of its PCIe switches each.
inline NodeSpec dgx1() {
  NodeSpec node = dgx_a100();
  node.name = "dgx1";
  node.wiring = GpuWiring::mesh;
  node.nvlink = link_of("nvlink", 25, 400);
  node.mesh_links = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
                     {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
  node.nics = 4;
  return node;
}

// GPUs on root ports of two sockets, no NVLink.
inline NodeSpec pcie_box(int gpus, int nics) {
  NodeSpec node = dgx_a100();
  node.name = "pcie-box";
  node.gpus = gpus;
  node.wiring = GpuWiring::none;
  node.switches_per_socket = 0;
  node.nics = nics;
  return node;
}

inline NodeSpec single_gpu() {
  NodeSpec node = pcie_box(1, 1);
  node.name = "single";
  node.sockets = 1;
  return node;
}

inline ClusterSpec cluster_of(NodeSpec node, int count, FabricKind kind = FabricKind::single_switch) {
  ClusterSpec cluster;
  cluster.groups.push_back({std::move(node), count});
  cluster.fabric.kind = kind;
  cluster.fabric.link = link_of("cable", 25, 50);
  cluster.fabric.switch_latency = Duration(130'000);
  return cluster;
}

// "node0.gpu0->nvswitch node0.nvswitch->gpu5"
inline std::string text_of(const Topology& topology, const Route& route) {
  std::string text;
  for (const LinkId link : route.links) {
    if (!text.empty()) text += " ";
    text += topology.link_name(link);
  }
  return text;
}

inline std::string text_of(const Topology& topology, int from, int to, const RouteOptions& options = {}) {
  return text_of(topology, topology.route(GpuId(from), GpuId(to), options));
}

// Bandwidth of the link with this name in GB/s; -1 where there is none.
inline double gigabytes(const Topology& topology, std::string_view name) {
  const LinkId link = topology.find_link(name);
  return link.valid() ? topology.link(link).bandwidth.count() / 1e9 : -1;
}

}  // namespace orrery::test
