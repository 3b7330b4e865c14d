// Mistakes in a cluster's description: all are found, each with the key it is about.
#include <doctest/doctest.h>

#include <limits>
#include <set>

#include "tests/unit/topology/fixtures.hpp"

namespace orrery {
namespace {

using test::cluster_of;

std::set<std::string> keys_of(const ClusterSpec& spec) {
  std::set<std::string> keys;
  for (const Problem& problem : Topology::build(spec).problems()) {
    CHECK_FALSE(problem.message.empty());
    keys.insert(problem.key);
  }
  return keys;
}

using Keys = std::set<std::string>;

TEST_CASE("A good cluster has no problems") {
  CHECK(keys_of(cluster_of(test::dgx_a100(), 4, FabricKind::rail_optimized)).empty());
  CHECK(keys_of(cluster_of(test::dgx1(), 1)).empty());
}

TEST_CASE("All problems of a cluster are found at once") {
  ClusterSpec spec = cluster_of(test::dgx_a100(), 0, FabricKind::fat_tree);
  NodeSpec& node = spec.groups[0].node;
  node.gpus = 0;
  node.sockets = 0;
  node.switches_per_socket = -1;
  node.nics = -1;
  node.pcie.bandwidth = BytesPerSecond(-1);
  node.nvlink.efficiency = 1.5;
  node.cost_usd_per_hour = -3;
  spec.fabric.nodes_per_leaf = 0;
  spec.fabric.leaves_per_pod = 100'000;
  spec.fabric.oversubscription = 0.5;
  spec.fabric.core_oversubscription = std::numeric_limits<double>::quiet_NaN();
  spec.fabric.switch_latency = Duration(-1);
  CHECK(keys_of(spec) == Keys{"cluster.nodes", "cluster.node.gpus", "cluster.node.sockets",
                              "cluster.node.switches_per_socket", "cluster.node.nics", "cluster.node.pcie.bandwidth",
                              "cluster.node.nvlink.efficiency", "cluster.node.cost_usd_per_hour",
                              "cluster.fabric.nodes_per_leaf", "cluster.fabric.leaves_per_pod",
                              "cluster.fabric.oversubscription", "cluster.fabric.core_oversubscription",
                              "cluster.fabric.switch_latency"});
}

TEST_CASE("Parameters that a fabric does not have are not checked") {
  ClusterSpec spec = cluster_of(test::dgx_a100(), 4);
  spec.fabric.nodes_per_leaf = 0;
  spec.fabric.oversubscription = 0;
  spec.fabric.link = {};
  CHECK(keys_of(spec).empty());
  spec.fabric.kind = FabricKind::leaf_spine;
  CHECK(keys_of(spec) ==
        Keys{"cluster.fabric.nodes_per_leaf", "cluster.fabric.oversubscription", "cluster.fabric.link"});
}

TEST_CASE("An empty cluster is a problem") { CHECK(keys_of({}) == Keys{"cluster.nodes"}); }

TEST_CASE("Several nodes need NICs, one does not") {
  NodeSpec node = test::dgx_a100();
  node.nics = 0;
  CHECK(keys_of(cluster_of(node, 1)).empty());
  CHECK(keys_of(cluster_of(node, 2)) == Keys{"cluster.node.nics"});
  node.nics = 1;
  node.nic = {};
  CHECK(keys_of(cluster_of(node, 2)) == Keys{"cluster.node.nic"});
}

TEST_CASE("With several groups the key says which") {
  ClusterSpec spec = cluster_of(test::dgx_a100(), 2);
  spec.groups.push_back({test::single_gpu(), 0});
  spec.groups[1].node.gpus = -1;
  CHECK(keys_of(spec) == Keys{"cluster.groups[1].nodes", "cluster.groups[1].node.gpus"});
}

TEST_CASE("Absurd bandwidths, latencies and sizes are refused") {
  ClusterSpec spec = cluster_of(test::dgx_a100(), 2);
  spec.groups[0].node.nic.bandwidth = BytesPerSecond(1e18);
  spec.groups[0].node.pcie.bandwidth = BytesPerSecond(std::numeric_limits<double>::infinity());
  spec.groups[0].node.nvlink.latency = Duration(5'000'000'000'000);
  CHECK(keys_of(spec) ==
        Keys{"cluster.node.nic.bandwidth", "cluster.node.pcie.bandwidth", "cluster.node.nvlink.latency"});
  // 2^24 GPUs are the most: 2^21 nodes of eight.
  CHECK(keys_of(cluster_of(test::dgx_a100(), (1 << 21) + 1)) == Keys{"cluster.nodes"});
}

TEST_CASE("Clusters whose links outnumber the ids are refused, not truncated") {
  NodeSpec node = test::single_gpu();
  node.nics = 1024;  // 4 links each: 2^24 x 4,096 > 2^31
  CHECK(keys_of(cluster_of(node, 1 << 24)) == Keys{"cluster.nodes"});
  // One node of 1,024 NICs makes 1,024 rails, and each of 2^20 units of one node has a leaf for each.
  ClusterSpec spec = cluster_of(node, 1, FabricKind::rail_optimized);
  spec.groups.push_back({test::single_gpu(), 1 << 20});
  spec.fabric.nodes_per_leaf = 1;
  spec.fabric.routing = Routing::ecmp;
  CHECK(keys_of(spec) == Keys{"cluster.fabric"});
}

TEST_CASE("A mesh must join existing GPUs, once each pair, and all of them or equal islands") {
  ClusterSpec spec = cluster_of(test::dgx1(), 1);
  std::vector<MeshEdge>& edges = spec.groups[0].node.mesh_links;
  edges = {{0, 1, 1}, {2, 3, 1}, {4, 5, 1}};
  CHECK(keys_of(spec) == Keys{"cluster.node.mesh_links"});
  edges = {{0, 1, 1}, {1, 2, 1}, {3, 4, 1}, {4, 5, 1}, {6, 7, 1}};
  CHECK(keys_of(spec) == Keys{"cluster.node.mesh_links"});
  edges = {};
  CHECK(keys_of(spec) == Keys{"cluster.node.mesh_links"});
  edges = {{0, 1, 1}, {2, 3, 1}, {4, 5, 1}, {6, 7, 1}};
  CHECK(keys_of(spec).empty());
  edges = {{0, 8, 1}, {-1, 3, 1}, {4, 4, 1}, {1, 2, 1}, {2, 1, 1}, {5, 6, 0}};
  CHECK(keys_of(spec) == Keys{"cluster.node.mesh_links[0]", "cluster.node.mesh_links[1]", "cluster.node.mesh_links[2]",
                              "cluster.node.mesh_links[4]", "cluster.node.mesh_links[5].links"});
  spec.groups[0].node.wiring = GpuWiring::none;
  edges = {{0, 1, 1}};
  CHECK(keys_of(spec) == Keys{"cluster.node.mesh_links"});
}

TEST_CASE("Sockets that are not joined are a problem only where something cannot be reached") {
  NodeSpec node = test::pcie_box(8, 1);
  node.socket_link = {};
  CHECK(keys_of(cluster_of(node, 1)) == Keys{"cluster.node.sockets"});
  node = test::dgx_a100();
  node.socket_link = {};
  CHECK(keys_of(cluster_of(node, 2)).empty());
}

TEST_CASE("A link too slow for its switch to fit is a problem of the link") {
  ClusterSpec spec = cluster_of(test::dgx_a100(), 64, FabricKind::leaf_spine);
  spec.fabric.link = test::link_of("modem", 1e-6, 50);
  CHECK(keys_of(spec) == Keys{"cluster.fabric.link"});
}

TEST_CASE("Oversubscription that leaves no uplink is found at both tiers") {
  ClusterSpec spec = cluster_of(test::single_gpu(), 16, FabricKind::fat_tree);
  spec.fabric.nodes_per_leaf = 2;
  spec.fabric.leaves_per_pod = 2;
  spec.fabric.oversubscription = 3;
  spec.fabric.core_oversubscription = 3;
  CHECK(keys_of(spec) == Keys{"cluster.fabric.oversubscription", "cluster.fabric.core_oversubscription"});
  // Nothing is oversubscribed where there is no upper tier.
  spec.groups[0].count = 2;
  CHECK(keys_of(spec).empty());
}

}  // namespace
}  // namespace orrery
