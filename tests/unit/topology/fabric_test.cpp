// Fabrics: capacities, names and latencies derived by hand, and what each routing does.
#include <doctest/doctest.h>

#include <map>
#include <set>

#include "tests/unit/topology/fixtures.hpp"

namespace orrery {
namespace {

using test::cluster_of;
using test::gigabytes;
using test::text_of;

Topology built(const ClusterSpec& spec, std::uint64_t seed = 1) {
  Result<Topology> topology = Topology::build(spec, seed);
  REQUIRE_MESSAGE(topology.ok(), to_string(topology.problems()));
  return std::move(topology).value();
}

TEST_CASE("A leaf's uplinks carry the leaf's NICs divided by the oversubscription") {
  ClusterSpec spec = cluster_of(test::dgx_a100(), 8, FabricKind::leaf_spine);
  spec.fabric.nodes_per_leaf = 4;
  // 4 nodes x 8 NICs x 25 GB/s = 800 GB/s below each leaf; cables of 25 GB/s.
  SUBCASE("non-blocking: 32 cables") { CHECK(gigabytes(built(spec), "leaf0->spine") == doctest::Approx(800)); }
  SUBCASE("4:1: 8 cables") {
    spec.fabric.oversubscription = 4;
    const Topology topology = built(spec);
    CHECK(gigabytes(topology, "leaf0->spine") == doctest::Approx(200));
    CHECK(gigabytes(topology, "spine->leaf1") == doctest::Approx(200));
    CHECK(topology.bisection_bandwidth().count() == doctest::Approx(200e9));
  }
  SUBCASE("7:1: 32 / 7 = 4.57, so 5 cables, never less than asked for") {
    spec.fabric.oversubscription = 7;
    CHECK(gigabytes(built(spec), "leaf0->spine") == doctest::Approx(125));
  }
  SUBCASE("cables of another speed: 800 / 50 = 16 of them") {
    spec.fabric.link = test::link_of("fast", 50, 50);
    CHECK(gigabytes(built(spec), "leaf0->spine") == doctest::Approx(800));
  }
  SUBCASE("32:1 leaves one cable, 33:1 none") {
    spec.fabric.oversubscription = 32;
    CHECK(gigabytes(built(spec), "leaf0->spine") == doctest::Approx(25));
    spec.fabric.oversubscription = 33;
    const Result<Topology> failed = Topology::build(spec);
    REQUIRE(failed.problems().size() == 1);
    CHECK(failed.problems()[0].key == "cluster.fabric.oversubscription");
    CHECK(failed.problems()[0].note == "at most 32 with these links");
  }
}

TEST_CASE("A NIC's leaf is that of its node, or on rails of its number") {
  ClusterSpec spec = cluster_of(test::dgx_a100(), 6, FabricKind::leaf_spine);
  spec.fabric.nodes_per_leaf = 4;
  const Topology leaves = built(spec);
  CHECK(leaves.leaf_of(NodeId(3), 7) == leaves.leaf_of(NodeId(0), 0));
  CHECK(leaves.leaf_of(NodeId(4), 0) != leaves.leaf_of(NodeId(3), 0));
  spec.fabric.kind = FabricKind::rail_optimized;
  const Topology rails = built(spec);
  CHECK(rails.leaf_of(NodeId(3), 7) == rails.leaf_of(NodeId(0), 7));
  CHECK(rails.leaf_of(NodeId(0), 7) != rails.leaf_of(NodeId(0), 6));
  CHECK(rails.leaf_of(NodeId(4), 7) != rails.leaf_of(NodeId(3), 7));
}

TEST_CASE("Payload bandwidth is nominal times efficiency, on single links and on bundles") {
  ClusterSpec spec = cluster_of(test::dgx_a100(), 4, FabricKind::leaf_spine);
  spec.fabric.nodes_per_leaf = 2;
  spec.groups[0].node.nic.efficiency = 0.5;
  spec.fabric.link.efficiency = 0.8;
  const Topology topology = built(spec);
  CHECK(gigabytes(topology, "node0.nic0->leaf0") == doctest::Approx(12.5));
  // The number of cables follows from nominal rates: 2 x 8 x 25 / 25 = 16.
  CHECK(gigabytes(topology, "leaf0->spine") == doctest::Approx(16 * 20));
}

TEST_CASE("In a fat tree, aggregation switches of a pod are oversubscribed on top of the leaves") {
  ClusterSpec spec = cluster_of(test::dgx_a100(), 16, FabricKind::fat_tree);
  spec.fabric.nodes_per_leaf = 2;
  spec.fabric.leaves_per_pod = 4;
  spec.fabric.oversubscription = 2;
  spec.fabric.core_oversubscription = 4;
  // Leaf: 2 x 8 x 25 = 400 GB/s down, 8 cables up, to 8 aggregation switches. Each of these has 4 cables down (one a
  // leaf) and 1 up. So a pod has 8 cables to the core.
  const Topology topology = built(spec);
  CHECK(gigabytes(topology, "leaf0->pod0.agg") == doctest::Approx(200));
  CHECK(gigabytes(topology, "pod0.agg->core") == doctest::Approx(200));
  CHECK(gigabytes(topology, "core->pod1.agg") == doctest::Approx(200));
  CHECK(topology.bisection_bandwidth().count() == doctest::Approx(200e9));
  // Same pod: leaf, aggregation, leaf. Other pod: five switches.
  CHECK(text_of(topology, 0, 16) ==
        "node0.gpu0->pcie0 node0.pcie0->nic0 node0.nic0->leaf0 leaf0->pod0.agg pod0.agg->leaf1 leaf1->node2.nic0 "
        "node2.nic0->pcie0 node2.pcie0->gpu0");
  CHECK(text_of(topology, 0, 64) ==
        "node0.gpu0->pcie0 node0.pcie0->nic0 node0.nic0->leaf0 leaf0->pod0.agg pod0.agg->core core->pod1.agg "
        "pod1.agg->leaf4 leaf4->node8.nic0 node8.nic0->pcie0 node8.pcie0->gpu0");
  // 4 x 150 + 2 x 600 + 2 x 50 + 3 x 130, and two more cables and switches.
  CHECK(topology.route(GpuId(0), GpuId(16)).latency == Duration(2'290'000));
  CHECK(topology.route(GpuId(0), GpuId(64)).latency == Duration(2'650'000));
  SUBCASE("single switches, with ecmp") {
    spec.fabric.routing = Routing::ecmp;
    const Topology single = built(spec);
    // 8 leaves x 8 cables, 2 pods x 8 aggregation switches x 1 cable, both directions.
    CHECK(single.links() - topology.links() == 2 * (64 + 16) - 2 * (8 + 2));
    CHECK(gigabytes(single, "leaf3->pod0.agg7") == doctest::Approx(25));
    CHECK(gigabytes(single, "pod1.agg5->core5") == doctest::Approx(25));
    CHECK(single.bisection_bandwidth().count() == doctest::Approx(200e9));
  }
}

TEST_CASE(
    "Rail-optimised: equal GPUs of a unit are one leaf apart, other rails and units are reached over the spines") {
  ClusterSpec spec = cluster_of(test::dgx_a100(), 64, FabricKind::rail_optimized);
  const Topology topology = built(spec);
  CHECK(text_of(topology, 3, 8 * 31 + 3) ==
        "node0.gpu3->pcie1 node0.pcie1->nic3 node0.nic3->unit0.rail3 unit0.rail3->node31.nic3 node31.nic3->pcie1 "
        "node31.pcie1->gpu3");
  CHECK(text_of(topology, 3, 8 * 31 + 4) ==
        "node0.gpu3->pcie1 node0.pcie1->nic3 node0.nic3->unit0.rail3 unit0.rail3->spine spine->unit0.rail4 "
        "unit0.rail4->node31.nic4 node31.nic4->pcie2 node31.pcie2->gpu4");
  CHECK(text_of(topology, 3, 8 * 32 + 3) ==
        "node0.gpu3->pcie1 node0.pcie1->nic3 node0.nic3->unit0.rail3 unit0.rail3->spine spine->unit1.rail3 "
        "unit1.rail3->node32.nic3 node32.nic3->pcie1 node32.pcie1->gpu3");
  // Changing rails inside the node avoids the spines.
  CHECK(text_of(topology, 3, 8 * 31 + 4, {4, -1, 0}) ==
        "node0.gpu3->nvswitch node0.nvswitch->gpu4 node0.gpu4->pcie2 node0.pcie2->nic4 node0.nic4->unit0.rail4 "
        "unit0.rail4->node31.nic4 node31.nic4->pcie2 node31.pcie2->gpu4");
  // 32 nodes x 25 GB/s a leaf; half of the cluster is one unit of 8 leaves: 6.4 TB/s.
  CHECK(gigabytes(topology, "unit1.rail7->spine") == doctest::Approx(800));
  CHECK(topology.bisection_bandwidth().count() == doctest::Approx(6.4e12));
}

TEST_CASE("Bisection of one leaf counts nodes: the smaller half's NICs") {
  CHECK(built(cluster_of(test::dgx_a100(), 7)).bisection_bandwidth().count() == doctest::Approx(3 * 200e9));
  CHECK(built(cluster_of(test::dgx_a100(), 8)).bisection_bandwidth().count() == doctest::Approx(4 * 200e9));
}

TEST_CASE("ECMP depends on the seed and the flow's label, and on nothing else") {
  ClusterSpec spec = cluster_of(test::dgx_a100(), 8, FabricKind::leaf_spine);
  spec.fabric.nodes_per_leaf = 2;
  spec.fabric.routing = Routing::ecmp;
  const Topology a = built(spec, 7);
  const Topology again = built(spec, 7);
  const Topology other = built(spec, 8);
  int moved_by_seed = 0;
  int moved_by_label = 0;
  std::set<std::string> paths;
  for (int to = 16; to < 64; ++to) {
    for (std::uint64_t label = 0; label < 4; ++label) {
      const std::string path = text_of(a, 0, to, {-1, -1, label});
      CHECK(path == text_of(again, 0, to, {-1, -1, label}));
      moved_by_seed += path != text_of(other, 0, to, {-1, -1, label}) ? 1 : 0;
      moved_by_label += path != text_of(a, 0, to, {-1, -1, label + 1}) ? 1 : 0;
      paths.insert(path.substr(path.find("leaf0->spine"), 14));
    }
  }
  // 16 paths: 192 draws move in 15 of 16 cases and find them all.
  CHECK(moved_by_seed > 150);
  CHECK(moved_by_label > 150);
  CHECK(paths.size() == 16);
}

TEST_CASE("ECMP spreads flows over the paths about evenly") {
  ClusterSpec spec = cluster_of(test::single_gpu(), 32, FabricKind::leaf_spine);
  spec.fabric.nodes_per_leaf = 4;
  spec.fabric.routing = Routing::ecmp;
  const Topology topology = built(spec);
  std::map<std::string, int> load;
  for (int from = 0; from < 4; ++from) {
    for (int to = 4; to < 32; ++to) {
      for (std::uint64_t label = 0; label < 100; ++label) {
        for (const LinkId link : topology.route(GpuId(from), GpuId(to), {-1, -1, label}).links) {
          const std::string name = topology.link_name(link);
          if (name.starts_with("leaf0->spine")) ++load[name];
        }
      }
    }
  }
  // 11,200 flows on 4 cables: 2,800 each, standard deviation 46.
  REQUIRE(load.size() == 4);
  for (const auto& cable : load) {
    CAPTURE(cable.first);
    CHECK(cable.second > 2800 - 230);
    CHECK(cable.second < 2800 + 230);
  }
}

TEST_CASE("D-mod-K gives the NICs of a leaf one uplink each, whatever their source") {
  ClusterSpec spec = cluster_of(test::dgx_a100(), 64, FabricKind::rail_optimized);
  spec.fabric.routing = Routing::fixed;
  const Topology topology = built(spec);
  // All-to-one-rail of unit 1 from unit 0: destination n of the leaf is alone on spine n.
  for (int node = 32; node < 64; ++node) {
    const std::string path = text_of(topology, 8 * (node - 32) + 2, 8 * node + 2);
    CAPTURE(path);
    CHECK(path.find("->spine" + std::to_string(node - 32) + " ") != std::string::npos);
    CHECK(path.find(" spine" + std::to_string(node - 32) + "->unit1.rail2") != std::string::npos);
  }
}

TEST_CASE("The switch latency is the fabric's own, else its links', else that of the NICs' links") {
  ClusterSpec spec = cluster_of(test::dgx_a100(), 2);
  spec.groups[0].node.nic.switch_latency = Duration(1'000);
  spec.fabric.link.switch_latency = Duration(2'000);
  const auto latency = [&spec] { return built(spec).route(GpuId(0), GpuId(8)).latency; };
  const Duration without = Duration(4 * 150'000 + 2 * 600'000);
  CHECK(latency() == without + Duration(130'000));
  spec.fabric.switch_latency.reset();
  CHECK(latency() == without + Duration(2'000));
  spec.fabric.link = {};
  CHECK(latency() == without + Duration(1'000));
  spec.groups[0].node.nic.adapter_latency = Duration(10'000);
  CHECK(latency() == without + Duration(1'000 + 2 * 10'000));
}

TEST_CASE("Groups of different nodes are numbered through, and leaves are built for the largest") {
  ClusterSpec spec = cluster_of(test::dgx_a100(), 3, FabricKind::leaf_spine);
  spec.groups.push_back({test::dgx1(), 2});
  spec.groups.push_back({test::single_gpu(), 2});
  spec.fabric.nodes_per_leaf = 2;
  const Topology topology = built(spec);
  CHECK(topology.nodes() == 7);
  CHECK(topology.gpus() == 3 * 8 + 2 * 8 + 2);
  CHECK(topology.node_of(GpuId(23)).value() == 2);
  CHECK(topology.node_of(GpuId(24)).value() == 3);
  CHECK(topology.node_of(GpuId(41)).value() == 6);
  CHECK(topology.node_spec(NodeId(4)).name == "dgx1");
  CHECK(topology.gpu(NodeId(5), 0).value() == 40);
  CHECK(topology.local_index(GpuId(39)) == 7);
  CHECK(text_of(topology, 16, 41) ==
        "node2.gpu0->pcie0 node2.pcie0->nic0 node2.nic0->leaf1 leaf1->spine spine->leaf3 leaf3->node6.nic0 "
        "node6.nic0->socket0 node6.socket0->gpu0");
  // 2 nodes x 8 NICs x 25 GB/s.
  CHECK(gigabytes(topology, "leaf3->spine") == doctest::Approx(400));
}

TEST_CASE("A device's name finds all of its links, a NIC's the two directions of its port") {
  const Topology topology = built(cluster_of(test::dgx_a100(), 4, FabricKind::rail_optimized));
  const auto names = [&](std::string_view device) {
    std::set<std::string> found;
    for (const LinkId link : topology.find_links(device)) found.insert(topology.link_name(link));
    return found;
  };
  CHECK(names("node3.nic0") == std::set<std::string>{"node3.nic0->unit0.rail0", "unit0.rail0->node3.nic0"});
  CHECK(names("node1.gpu2") == std::set<std::string>{"node1.gpu2->nvswitch", "node1.nvswitch->gpu2",
                                                     "node1.gpu2->pcie1", "node1.pcie1->gpu2"});
  CHECK(names("node1.gpu2->nvswitch") == std::set<std::string>{"node1.gpu2->nvswitch"});
  CHECK(names("unit0.rail1").size() == 2 * (4 + 1));
  for (const char* nothing : {"", "node4.nic0", "node1.gpu8", "node1", "leaf0", "->", "node0.gpu0->", "node-1.gpu0",
                              "node0.gpu0->gpu1", "spine->spine"}) {
    CAPTURE(nothing);
    CHECK(names(nothing).empty());
    CHECK_FALSE(topology.find_link(nothing).valid());
  }
}

TEST_CASE("131,072 GPUs take tables of one node's size") {
  ClusterSpec spec = cluster_of(test::dgx_a100(), 16'384, FabricKind::fat_tree);
  const Topology one = built(cluster_of(test::dgx_a100(), 1));
  for (const Routing routing : {Routing::adaptive, Routing::ecmp, Routing::fixed}) {
    spec.fabric.routing = routing;
    const Topology topology = built(spec);
    CHECK(topology.gpus() == 131'072);
    CHECK(topology.table_bytes() == one.table_bytes());
    CHECK(topology.table_bytes() < 16'384);
    // GPU, PCIe switch, NIC, leaf, aggregation, core and back: nine devices between the two GPUs.
    CHECK(topology.route(GpuId(0), GpuId(131'071)).links.size() == 10);
    // Non-blocking: half of 131,072 NICs of 25 GB/s.
    CHECK(topology.bisection_bandwidth().count() == doctest::Approx(65'536 * 25e9));
  }
}

}  // namespace
}  // namespace orrery
