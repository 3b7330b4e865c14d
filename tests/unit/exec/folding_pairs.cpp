#include "tests/unit/exec/folding_pairs.hpp"

#include <doctest/doctest.h>

#include <array>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/exec/collectives/algorithm.hpp"
#include "tests/unit/exec/executor_fixtures.hpp"

namespace orrery::test {

namespace {

using fuzz::SmallCase;

// One link's worth everywhere, and latency on the NVLinks alone.
NodeSpec even_node(int gpus, Duration nvlink, Duration nic) {
  NodeSpec node = plain_cluster(gpus).groups[0].node;
  node.nics = gpus;
  for (LinkSpec* link : {&node.nvlink, &node.pcie, &node.nic}) {
    link->bandwidth = 50_GBps;
    link->latency = Duration{};
  }
  node.nvlink.latency = nvlink;
  node.nic.latency = nic;
  return node;
}

ClusterSpec even_cluster(std::vector<NodeGroup> groups) {
  ClusterSpec cluster = plain_cluster(1);
  cluster.groups = std::move(groups);
  cluster.fabric.link.bandwidth = 50_GBps;
  cluster.fabric.link.latency = Duration{};
  cluster.fabric.switch_latency = Duration{};
  return cluster;
}

TrafficOptions ideal(std::string algorithm, TrafficFidelity fidelity = TrafficFidelity::coupled) {
  TrafficOptions traffic;
  traffic.fidelity = fidelity;
  traffic.algorithm = std::move(algorithm);
  traffic.protocol = "ideal";
  traffic.channels = 1;
  return traffic;
}

using Groups = std::vector<std::vector<int>>;
constexpr GroupKindId kData(std::size_t{0});

// All ranks make one call, on the communicator that has them; each communicator is given by its GPUs, in order.
SmallCase one_call(const ClusterSpec& cluster, const Groups& communicators, const CollectiveCall& call,
                   TrafficOptions traffic, std::vector<Shares> shares = {}) {
  Result<Topology> topology = Topology::build(cluster);
  REQUIRE(topology.ok());
  Workload workload;
  workload.group_kinds = {{"data"}};
  workload.communicator_of.emplace_back();
  workload.shares = std::move(shares);
  Placement placement;
  for (std::size_t c = 0; c < communicators.size(); ++c) {
    workload.communicators.push_back({kData, {}});
    for (const int gpu : communicators[c]) {
      workload.communicators.back().ranks.emplace_back(placement.gpu_of.size());
      workload.communicator_of[0].emplace_back(c);
      placement.gpu_of.emplace_back(gpu);
      workload.role_of.emplace_back(std::size_t{0});
    }
  }
  ProgramBuilder builder;
  builder.collective(call, {.stream = builder.stream("data")});
  workload.programs.push_back(std::move(builder).freeze());
  ExecutionOptions options;
  options.traffic = std::move(traffic);
  for (std::size_t rank = 0; rank < workload.ranks(); ++rank) options.record.emplace_back(rank);
  return {std::move(topology).value(), std::move(workload), std::move(placement), std::move(options)};
}

SmallCase all_reduces(const ClusterSpec& cluster, const Groups& communicators, Bytes bytes, TrafficOptions traffic) {
  return one_call(cluster, communicators, {.op = CollectiveOp::all_reduce, .group = kData, .bytes = bytes},
                  std::move(traffic));
}

// With p GPUs on each of N nodes, S bytes: p - 1 rounds of S / p inside, 2 (N - 1) of S / 6 by rail, p - 1 of S / p
// inside. Both shapes have 36 messages and 10 S bytes, and every GPU sends and receives by one link at a time:
//
//                inside         by rail        rounds in all
//   2 x 3        2 of S / 3     2 of S / 6     6
//   3 x 2        1 of S / 2     4 of S / 6     6
//
// Latencies of a round add up. To agree phase by phase, they must be in inverse proportion to the rounds; to agree over
// the whole call, they may be equal.
constexpr Duration kHop(1'000'000);

SmallCase two_by_three(const NodeSpec& threes, const NodeSpec& twos, Bytes bytes, TrafficFidelity fidelity) {
  return all_reduces(even_cluster({{threes, 2}, {twos, 3}}), {{0, 1, 2, 3, 4, 5}, {6, 7, 8, 9, 10, 11}}, bytes,
                     ideal("hierarchical", fidelity));
}

}  // namespace

std::optional<SmallCase> two_by_three_coupled(std::uint64_t) {
  return two_by_three(even_node(3, kHop, 2 * kHop), even_node(2, 2 * kHop, kHop), Bytes(6 << 20),
                      TrafficFidelity::coupled);
}

// What differs is how the phases are cut: no edge's latency, nor how edges wait for one another seen from nearby.
std::optional<SmallCase> two_by_three_messages(std::uint64_t) {
  return two_by_three(even_node(3, kHop, kHop), even_node(2, kHop, kHop), Bytes(6 << 20), TrafficFidelity::message);
}

// 600 B: too few to be noticed, at most 400 B an edge and phase. At 20 ps a byte they take 20 ps x 10 / 6 S in both
// shapes. But NVLinks carry 8 S in the one and 6 S in the other.
std::optional<SmallCase> two_by_three_unnoticed(std::uint64_t) {
  return two_by_three(even_node(3, kHop, kHop), even_node(2, kHop, kHop), Bytes(600), TrafficFidelity::coupled);
}

namespace {

// One block may move 24 or 26 GB/s before Hopper and 38.7 GB/s on Hopper, of 50. With two members a round takes two
// edges alike, so that the chain is two latencies whatever the cap.
std::optional<SmallCase> either_first(TrafficFidelity fidelity) {
  NodeSpec older = even_node(1, kHop, kHop);
  NodeSpec newer = older;
  newer.gpu.nvlink_sharp = true;
  TrafficOptions traffic = ideal("ring", fidelity);
  traffic.protocol = "simple";
  return all_reduces(even_cluster({{older, 2}, {newer, 2}}), {{0, 2}, {3, 1}}, Bytes(1 << 24), traffic);
}

}  // namespace

std::optional<SmallCase> either_first_coupled(std::uint64_t) { return either_first(TrafficFidelity::coupled); }
std::optional<SmallCase> either_first_messages(std::uint64_t) { return either_first(TrafficFidelity::message); }

// The stages exchange S / 2, S / 4, S / 4, S / 2 between partners 2, 1, 1 and 2 places apart. Nodes 0 and 1 are on one
// leaf, 2 and 3 on another: 0, 1, 2, 3 in order cross between leaves with S / 2; 4, 6, 5, 7 with S / 4. Cables cost no
// time, and the ports below cannot fill those above the leaves.
std::optional<SmallCase> near_and_far_partners(std::uint64_t) {
  ClusterSpec cluster = even_cluster({{even_node(1, kHop, kHop), 8}});
  cluster.fabric.kind = FabricKind::leaf_spine;
  cluster.fabric.nodes_per_leaf = 2;
  return all_reduces(cluster, {{0, 1, 2, 3}, {4, 6, 5, 7}}, Bytes(1 << 20), ideal("halving_doubling"));
}

// Two links from GPU to GPU either way, of the same latency and bandwidth, and too few bytes to be noticed.
std::optional<SmallCase> nvlink_and_pcie(std::uint64_t) {
  NodeSpec node = even_node(2, kHop, kHop);
  node.pcie.latency = kHop;
  NodeSpec without = node;
  without.wiring = GpuWiring::none;
  return all_reduces(even_cluster({{node, 1}, {without, 1}}), {{0, 1}, {2, 3}}, Bytes(64), ideal("ring"));
}

// Two NVLinks from GPU to GPU carry a ring each, of one hop a round in place of two. Of 2 B a ring's round carries one
// and half of one, which is a byte too. Both cross four NVLinks a round; two rings send 8 messages, one sends 4.
std::optional<SmallCase> one_ring_and_two(std::uint64_t) {
  const NodeSpec node = even_node(2, kHop, kHop);
  NodeSpec direct = even_node(2, 2 * kHop, kHop);
  direct.wiring = GpuWiring::mesh;
  direct.mesh_links = {{0, 1, 2}};
  TrafficOptions traffic = ideal("ring");
  traffic.channels = 2;
  return all_reduces(even_cluster({{node, 1}, {direct, 1}}), {{0, 1}, {2, 3}}, Bytes(2), traffic);
}

// Everybody sends the first member three times as much as the others, on links that are all alike.
std::optional<SmallCase> uneven_exchange(std::uint64_t) {
  return one_call(
      even_cluster({{even_node(4, kHop, kHop), 1}}), {{0, 1, 2, 3}},
      {.op = CollectiveOp::all_to_all, .group = kData, .bytes = Bytes(6 << 20), .shares = SharesId(std::size_t{0})},
      ideal("pairwise", TrafficFidelity::message), {Shares{{3, 1, 1, 1}}});
}

std::optional<SmallCase> layouts(std::uint64_t seed) {
  RandomStream random(seed, "layouts");
  const auto one_of = [&](const auto& items) { return items[random.below(std::size(items))]; };
  constexpr std::array kSizes{4, 6, 8};
  constexpr std::array kProtocols{"ideal", "ideal", "auto", "simple"};
  constexpr std::array<std::int64_t, 6> kBytes{1, 2, 600, 960, 3000, 1 << 20};
  constexpr std::array kFidelities{TrafficFidelity::coupled, TrafficFidelity::message};
  const int size = one_of(kSizes);
  Groups communicators;
  int nodes = 0;
  for (int each = 1; each <= size; ++each) {
    if (size % each != 0) continue;
    auto& gpus = communicators.emplace_back();
    for (int i = 0; i < size; ++i) gpus.push_back((nodes + i / each) * size + i % each);
    nodes += size / each;
  }
  NodeSpec node = even_node(size, kHop, kHop);
  node.gpu.nvlink_sharp = random.below(2) == 0;
  ClusterSpec cluster = even_cluster({{node, nodes}});
  if (random.below(2) == 0) {
    cluster.fabric.kind = FabricKind::leaf_spine;
    cluster.fabric.nodes_per_leaf = 2;
  }
  TrafficOptions traffic = ideal(std::string(one_of(collective_algorithm_rows()).name), one_of(kFidelities));
  traffic.protocol = one_of(kProtocols);
  const auto op = static_cast<CollectiveOp>(random.below(kCollectiveOps));
  return one_call(cluster, communicators, {.op = op, .group = kData, .bytes = Bytes(one_of(kBytes))}, traffic);
}

}  // namespace orrery::test
