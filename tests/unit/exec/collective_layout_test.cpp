// What NCCL would make of a communicator: rings, NICs, channels, algorithm and protocol.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <vector>

#include "sim/exec/collectives/node_rings.hpp"
#include "sim/exec/collectives/tuning.hpp"
#include "tests/unit/exec/collective_machines.hpp"

namespace orrery {
namespace {

using namespace testing;

CommunicatorLayout layout_on(const ClusterSpec& cluster, const std::vector<int>& gpus) {
  const Topology topology = build(cluster);
  std::vector<GpuId> members;
  for (const int gpu : gpus) members.emplace_back(gpu);
  return lay_out(topology, members.empty() ? all_gpus(topology) : members);
}

TEST_CASE("channels on known machines are as many as NCCL reports") {
  // 12 searched at 20 GB/s, doubled: "24 coll channels" on a DGX A100; the same number at 30 GB/s on a DGX H100;
  // 16 on two of either; 12 on a DGX-1 (six rings at 20 GB/s, doubled).
  CHECK(layout_on(cluster_of(dgx_a100(), 1), {}).channels == 24);
  CHECK(layout_on(cluster_of(dgx_h100(), 1), {}).channels == 24);
  CHECK(layout_on(cluster_of(dgx_a100(), 2), {}).channels == 16);
  CHECK(layout_on(cluster_of(dgx_h100(), 2), {}).channels == 16);
  CHECK(layout_on(cluster_of(dgx1_v100(), 1), {}).channels == 12);
  CHECK(layout_on(cluster_of(dgx_a100(), 1), {}).planned == BytesPerSecond(240e9));
  CHECK(layout_on(cluster_of(dgx_h100(), 1), {}).planned == BytesPerSecond(360e9));
}

TEST_CASE("across nodes every NIC has a ring, which enters each node at the member next to the NIC") {
  const ClusterSpec cluster = cluster_of(dgx_a100(), 2);
  const Topology topology = build(cluster);
  const CommunicatorLayout layout = layout_on(cluster, {});
  REQUIRE(layout.rings() == 8);
  for (std::size_t ring = 0; ring < 8; ++ring) {
    CHECK(topology.nearest_nic(GpuId(layout.orders[ring][0])) == layout.nics[ring][0]);
    CHECK(topology.nearest_nic(GpuId(layout.orders[ring][8])) == layout.nics[ring][1]);
    CHECK(std::set(layout.orders[ring].begin(), layout.orders[ring].end()).size() == 16);
  }
  // A data-parallel group under tensor parallelism: one GPU a node, its own NIC.
  const CommunicatorLayout group = layout_on(cluster, {5, 13});
  REQUIRE(group.rings() == 1);
  CHECK(group.nics[0][0] == topology.nearest_nic(GpuId(5)));
  // Every other GPU.
  CHECK(layout_on(cluster, {0, 2, 4, 6, 8, 10, 12, 14}).rings() == 4);
}

TEST_CASE("the way through a node is that of any other node whose members have the same places") {
  // Full nodes, every other GPU, one GPU a node, places that differ from node to node, members out of order.
  const std::vector<std::vector<int>> groups{{},
                                             {0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30},
                                             {5, 13, 21, 29},
                                             {0, 1, 8, 9, 18, 19, 25, 24},
                                             {31, 7, 3, 27, 15, 11, 23, 19}};
  for (const NodeSpec& node : {dgx_a100(), dgx_h100(), dgx1_v100(), pcie_box()}) {
    ClusterSpec cluster = cluster_of(node, 2);
    cluster.groups.push_back(cluster.groups.front());
    for (const bool mixed : {false, true}) {
      // A second kind of node with NICs that serve GPUs in another order.
      if (mixed) cluster.groups.back().node = dgx_h100();
      const Topology topology = build(cluster);
      for (const std::vector<int>& group : groups) {
        std::vector<GpuId> members;
        for (const int gpu : group) members.emplace_back(gpu);
        if (members.empty()) members = all_gpus(topology);
        std::vector<std::int32_t> node_of;
        const std::vector<NodeMembers> nodes = by_node(topology, members, node_of);
        const std::vector<std::vector<NodePassage>> found = passages_of_all(topology, members, nodes);
        REQUIRE(found.size() == nodes.size());
        for (std::size_t i = 0; i < nodes.size(); ++i) {
          const std::int32_t other = nodes[i == 0 ? 1 : 0].members.front();
          const std::vector<NodePassage> searched =
              passages_of(topology, members, nodes[i], members[static_cast<std::size_t>(other)]);
          REQUIRE(found[i].size() == searched.size());
          for (std::size_t p = 0; p < searched.size(); ++p) {
            CHECK(found[i][p].nic == searched[p].nic);
            CHECK(found[i][p].order == searched[p].order);
          }
        }
      }
    }
  }
}

TEST_CASE("a DGX-1's rings run over direct links, each link once a direction") {
  const ClusterSpec cluster = cluster_of(dgx1_v100(), 1);
  const Topology topology = build(cluster);
  const CommunicatorLayout layout = layout_on(cluster, {});
  REQUIRE(layout.rings() == 6);
  CHECK(layout.intra == Hop::nvlink);
  std::map<std::pair<int, int>, int> used;
  for (const std::vector<std::int32_t>& order : layout.orders) {
    for (std::size_t i = 0; i < order.size(); ++i) ++used[{order[i], order[(i + 1) % order.size()]}];
  }
  for (const auto& [pair, times] : used) {
    const auto [a, b] = pair;
    int links = 0;
    for (const MeshEdge& edge : dgx1_v100().mesh_links) {
      if ((edge.a == a && edge.b == b) || (edge.a == b && edge.b == a)) links += edge.links;
    }
    CHECK(times <= links);
  }
}

TEST_CASE("cycles of complete graphs are disjoint and as many as there can be") {
  for (std::size_t n = 3; n <= 8; ++n) {
    std::vector<std::vector<int>> links(n, std::vector<int>(n, 1));
    for (std::size_t i = 0; i < n; ++i) links[i][i] = 0;
    const auto cycles = disjoint_cycles(links);
    CHECK(cycles.size() == (n - 1) / 2);  // Walecki: a complete graph splits into (n-1)/2 Hamiltonian cycles
    for (const auto& cycle : cycles) {
      for (std::size_t i = 0; i < n; ++i) {
        const auto a = static_cast<std::size_t>(cycle[i]);
        const auto b = static_cast<std::size_t>(cycle[(i + 1) % n]);
        CHECK(links[a][b]-- == 1);
        links[b][a]--;
      }
    }
  }
  CHECK(disjoint_cycles({{0, 0}, {0, 0}}).empty());
  CHECK(disjoint_cycles({{0, 3}, {3, 0}}).size() == 3);
}

TEST_CASE("the choice follows size: LL for small, Simple for large, NVLS where the switch can") {
  const CommunicatorLayout a100 = layout_on(cluster_of(dgx_a100(), 1), {});
  CHECK(choose(a100, CollectiveOp::all_reduce, Bytes(1024), {}).protocol == Protocol::ll);
  CHECK(choose(a100, CollectiveOp::all_reduce, Bytes(1 << 30), {}).protocol == Protocol::simple);
  CHECK(choose(a100, CollectiveOp::all_reduce, Bytes(1 << 30), {}).algorithm->name == "ring");
  CHECK(choose(a100, CollectiveOp::all_gather, Bytes(1 << 30), {}).algorithm->name == "ring");
  const CommunicatorLayout h100 = layout_on(cluster_of(dgx_h100(), 1), {});
  CHECK(choose(h100, CollectiveOp::all_reduce, Bytes(1 << 30), {}).algorithm->name == "nvls");
  CHECK(choose(h100, CollectiveOp::all_reduce, Bytes(1 << 16), {}).algorithm->name == "ring");
  const CommunicatorLayout many = layout_on(cluster_of(dgx_a100(), 16), {});
  CHECK(choose(many, CollectiveOp::all_reduce, Bytes(1 << 16), {}).algorithm->name == "tree");
  CHECK(choose(many, CollectiveOp::all_reduce, Bytes(std::int64_t{1} << 33), {}).algorithm->name == "ring");
}

TEST_CASE("NCCL's formula, by hand") {
  // Ring, LL, 8 GPUs on one node: 6.6 + 14 x 0.6 = 15.0 us, and 1 MB x 14/8 at min(87.7, 120) GB/s = 19.95 us.
  const CommunicatorLayout layout = layout_on(cluster_of(dgx_a100(), 1), {});
  const CollectiveAlgorithm& ring = *find_collective_algorithm("ring");
  CHECK(estimated_seconds(layout, ring, Protocol::ll, CollectiveOp::all_reduce, Bytes(1'000'000)) ==
        doctest::Approx(15e-6 + 1e6 * 14 / 8 / 87.7e9));
  // Simple: 8.4 + 14 x 3.4 = 56 us, at 240 GB/s.
  CHECK(estimated_seconds(layout, ring, Protocol::simple, CollectiveOp::all_reduce, Bytes(1'000'000)) ==
        doctest::Approx(56e-6 + 1e6 * 14 / 8 / 240e9));
}

TEST_CASE("forced algorithms, protocols and channels are taken where they are possible") {
  const CommunicatorLayout layout = layout_on(cluster_of(dgx_a100(), 1), {});
  const TuningRequest tree{"tree", "simple", 4};
  const TuningChoice choice = choose(layout, CollectiveOp::all_reduce, Bytes(1 << 20), tree);
  CHECK(choice.algorithm->name == "tree");
  CHECK(choice.protocol == Protocol::simple);
  CHECK(choice.channels == 4);
  CHECK(choose(layout, CollectiveOp::all_gather, Bytes(1 << 20), tree).algorithm->name == "ring");
  CHECK(choose(layout, CollectiveOp::all_to_all, Bytes(1 << 20), tree).algorithm->name == "pairwise");
  // NVLS needs a switch that reduces: Hopper's does, Ampere's does not, and there is none between nodes.
  const TuningRequest nvls{"nvls", "auto", 0};
  CHECK(choose(layout, CollectiveOp::all_reduce, Bytes(1 << 20), nvls).algorithm->name == "ring");
  CHECK(choose(layout_on(cluster_of(dgx_h100(), 1), {}), CollectiveOp::all_reduce, Bytes(1 << 10), nvls)
            .algorithm->name == "nvls");
  CHECK(choose(layout_on(cluster_of(dgx_h100(), 2), {}), CollectiveOp::all_reduce, Bytes(1 << 20), nvls)
            .algorithm->name != "nvls");
  NodeSpec without = dgx_h100();
  without.gpu.nvlink_sharp = false;
  CHECK(choose(layout_on(cluster_of(without, 1), {}), CollectiveOp::all_reduce, Bytes(1 << 30), {}).algorithm->name ==
        "ring");
  CHECK(find_protocol("ll128") == 1);
  CHECK(find_protocol("auto") == -1);
  CHECK(find_library("nccl") != nullptr);
  CHECK(find_library("mpi") == nullptr);
}

TEST_CASE("small operations run on few channels") {
  const CommunicatorLayout layout = layout_on(cluster_of(dgx_a100(), 1), {});
  CHECK(choose(layout, CollectiveOp::all_reduce, Bytes(1024), {}).channels == 1);
  CHECK(choose(layout, CollectiveOp::all_reduce, Bytes(1 << 30), {}).channels == 24);
}

TEST_CASE("protocols weigh what their flags weigh, and hops cost NCCL's constants on the reference wire") {
  CHECK(wire_bytes(Protocol::ll, Bytes(100)) == Bytes(200));
  CHECK(wire_bytes(Protocol::ll128, Bytes(120)) == Bytes(128));
  CHECK(wire_bytes(Protocol::ll128, Bytes(1)) == Bytes(2));
  CHECK(wire_bytes(Protocol::simple, Bytes(77)) == Bytes(77));
  CHECK(hop_latency(CostFamily::ring, Protocol::simple, Hop::nvlink) == Duration(3'400'000));
  CHECK(hop_latency(CostFamily::tree, Protocol::ll, Hop::network) == Duration(5'000'000));
  CHECK(software_latency(CostFamily::ring, Protocol::ll, Hop::nvlink) == Duration(100'000));
  CHECK(software_latency(CostFamily::ring, Protocol::ideal, Hop::network) == Duration::zero());
}

}  // namespace
}  // namespace orrery
