// NVLSTree: the NVSwitch of each node adds up what its members hold, one part for every rail; the rail's heads, one a
// node, add up those sums along a double binary tree over the nodes; and what comes down the tree is multicast in every
// node (connectNvls in NCCL's src/graph/connect.cc, RunWorkElement of NVLS_TREE in src/device/all_reduce.h).
//
// With h rails and p members a node, a GPU's NVLinks carry, per byte of the buffer, 1 + 1/h bytes out (all parts for
// the switch, and the head's result) and as many in; a NIC carries 1/h at most twice each way, up and down: as much as
// in a ring over many nodes, half of it over two. A head sends a chunk up when its own node's sum is in and its
// children's chunks are, and takes a child's chunk no earlier than that sum. One phase: everything is pipelined.
#include <vector>

#include "sim/exec/collectives/two_levels.hpp"

namespace orrery {

namespace {

using Edges = std::vector<std::int32_t>;

void append(Edges& to, const Edges& what) { to.insert(to.end(), what.begin(), what.end()); }

// Nodes from the root outwards: every parent before its children.
std::vector<std::int32_t> from_the_root(std::int32_t tree, std::int32_t nodes) {
  std::vector<std::vector<std::int32_t>> children(static_cast<std::size_t>(nodes));
  std::vector<std::int32_t> order;
  for (std::int32_t node = 0; node < nodes; ++node) {
    const std::int32_t parent = parent_in_tree(tree, node, nodes);
    (parent < 0 ? order : children[static_cast<std::size_t>(parent)]).push_back(node);
  }
  for (std::size_t i = 0; i < order.size(); ++i) append(order, children[static_cast<std::size_t>(order[i])]);
  return order;
}

void add_tree(PlanBuilder& builder, const std::vector<std::vector<std::int32_t>>& nodes, std::int32_t channel,
              std::int32_t tree) {
  const auto count = static_cast<std::int32_t>(nodes.size());
  const auto head = [&](std::int32_t node) { return nodes[static_cast<std::size_t>(node)][0]; };
  std::vector<Edges> gathered;
  for (const auto& members : nodes) {
    gathered.push_back(add_gathering(builder, members, channel, InsideNode::switched));
  }
  std::vector<Edges> arrived = gathered;  // [nodes] what a head waits for before it sends up
  const std::vector<std::int32_t> outwards = from_the_root(tree, count);
  for (std::size_t i = outwards.size(); i-- > 1;) {
    const auto node = static_cast<std::size_t>(outwards[i]);
    const std::int32_t parent = parent_in_tree(tree, outwards[i], count);
    Edges waits = arrived[node];
    append(waits, gathered[static_cast<std::size_t>(parent)]);
    const std::int32_t edge = builder.add_edge(
        {.from = head(outwards[i]), .to = head(parent), .channel = channel, .content = {0, 1, 1, 0, kAlways}}, waits);
    arrived[static_cast<std::size_t>(parent)].push_back(edge);
  }
  // The way down: the root has the result when all has arrived, others when their parent's is there.
  for (std::size_t i = 1; i < outwards.size(); ++i) {
    const std::int32_t parent = parent_in_tree(tree, outwards[i], count);
    const std::int32_t edge = builder.add_edge(
        {.from = head(parent), .to = head(outwards[i]), .channel = channel, .content = {0, 1, 1, 0, 0}},
        arrived[static_cast<std::size_t>(parent)]);
    arrived[static_cast<std::size_t>(outwards[i])] = {edge};
  }
  for (const std::int32_t node : outwards) {
    add_spreading(builder, nodes[static_cast<std::size_t>(node)], channel, InsideNode::switched,
                  arrived[static_cast<std::size_t>(node)]);
  }
}

}  // namespace

Plan plan_nvls_tree(const PlanInput& input) {
  constexpr std::int32_t kTrees = 2;
  PlanBuilder builder(input.members(), input.channels());
  builder.begin_phase({.chain = Chain::draining, .share = 1, .parts = std::int64_t{kTrees} * input.channels()});
  for (std::int32_t channel = 0; channel < input.channels(); ++channel) {
    const std::vector<std::vector<std::int32_t>> nodes = nodes_of_channel(input, channel);
    for (std::int32_t tree = 0; tree < kTrees; ++tree) add_tree(builder, nodes, channel, tree);
  }
  return std::move(builder).finish();
}

}  // namespace orrery
