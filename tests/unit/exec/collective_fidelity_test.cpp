// How far the coupled fidelity may be from the message fidelity, algorithm by algorithm, on many uneven clusters.
#include <algorithm>
#include <map>
#include <random>

#include "sim/exec/collectives/tuning.hpp"
#include "tests/unit/exec/collective_machines.hpp"

namespace orrery {
namespace {

using namespace testing;

int pick(std::mt19937& random, std::initializer_list<int> values) {
  return *(values.begin() + static_cast<std::ptrdiff_t>(random() % values.size()));
}

NodeSpec random_node(std::mt19937& random) {
  NodeSpec node = random() % 2 == 0 ? dgx_a100() : dgx_h100();
  node.gpus = pick(random, {1, 2, 3, 4, 8});
  if (random() % 3 == 0) node.wiring = GpuWiring::none;
  node.nics = pick(random, {1, 1, 2, node.gpus});
  node.nic.bandwidth = BytesPerSecond(pick(random, {3, 12, 25, 50}) * 1e9);
  node.nic.in_network_reduction = true;
  return node;
}

// Two groups of nodes that differ in GPUs, wiring and NICs. Every draw is a statement of its own, so that all compilers
// see the same clusters.
ClusterSpec random_cluster(std::mt19937& random) {
  const NodeSpec first = random_node(random);
  const int first_count = pick(random, {1, 2, 3});
  const NodeSpec second = random_node(random);
  const int second_count = pick(random, {1, 2});
  ClusterSpec cluster = cluster_of(first, first_count);
  cluster.groups.push_back({second, second_count});
  cluster.fabric.kind = random() % 2 == 0 ? FabricKind::single_switch : FabricKind::leaf_spine;
  cluster.fabric.link = cluster.groups[0].node.nic;
  return cluster;
}

// The largest error of the coupled time by algorithm (and chains apart from rings), in per cent: too slow and too fast.
struct Spread {
  double slow = 0;
  double fast = 0;
};

std::map<std::string, Spread> spread_over(int clusters, std::int64_t bytes) {
  std::map<std::string, Spread> spread;
  std::mt19937 random(1);
  for (int i = 0; i < clusters; ++i) {
    const ClusterSpec spec = random_cluster(random);
    const Topology topology = build(spec);
    const std::vector<GpuId> gpus = all_gpus(topology);
    const CommunicatorLayout layout = lay_out(topology, gpus);
    for (const CollectiveAlgorithm& algorithm : collective_algorithm_rows()) {
      for (std::size_t o = 0; o < kCollectiveOps; ++o) {
        const auto op = static_cast<CollectiveOp>(o);
        if (!possible(layout, algorithm, op)) continue;
        const std::string name(algorithm.name);
        const auto seconds = [&](TrafficFidelity fidelity) {
          return to_seconds(time_of(topology, gpus, op, bytes, options_of(fidelity, name, "simple")));
        };
        const double error = 100 * (seconds(TrafficFidelity::coupled) / seconds(TrafficFidelity::message) - 1);
        const bool chain = op == CollectiveOp::broadcast || op == CollectiveOp::reduce;
        Spread& of = spread[chain ? "chain" : name];
        of.slow = std::max(of.slow, error);
        of.fast = std::max(of.fast, -error);
      }
    }
  }
  return spread;
}

TEST_CASE("coupled and message times agree within the stated bound on uneven clusters") {
  // Of 64 MiB, in per cent: the largest of 400 clusters, rounded up. Members of a halving-doubling go on to the next
  // stage while others, with slower links, are still in this one; the coupled time adds up the slowest of every stage
  // (too slow), and sees no contention between stages (too fast); so do the steps of `hierarchical`. Lanes of an
  // all-to-all drift apart likewise. Until a tree's first chunks reach the root only the way up is busy, and runs ahead
  // of its share.
  const std::map<std::string, Spread> bounds{
      {"ring", {0.1, 3}},         {"chain", {0.5, 4}},    {"tree", {14, 9}},          {"halving_doubling", {58, 25}},
      {"hierarchical", {16, 21}}, {"nvls_tree", {2, 1}},  {"nvls_sharp", {0.1, 0.1}}, {"sharp", {0.1, 5}},
      {"sharp_chain", {4, 3}},    {"pairwise", {0.2, 38}}};
  for (const auto& row : spread_over(150, 64 << 20)) {
    const auto& name = row.first;
    const auto& seen = row.second;
    MESSAGE(name << ": coupled at most " << seen.slow << " % slower, " << seen.fast << " % faster");
    CAPTURE(name);
    CHECK(seen.slow <= bounds.at(name).slow);
    CHECK(seen.fast <= bounds.at(name).fast);
  }
}

}  // namespace
}  // namespace orrery
