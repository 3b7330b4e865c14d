// Double binary trees over nodes with a chain inside each node, as NCCL builds them.
//
// The trees are those of two_levels.hpp. The members of a node form a chain whose head, the member next to the
// channel's NIC, is the node's place in the tree.
//
// An all_reduce goes up (every member adds its children's chunk to its own) and comes down again. Chunks follow one
// another, so that all edges of both trees, up and down, are busy at once: one phase.
#include <algorithm>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/exec/collectives/algorithm.hpp"
#include "sim/exec/collectives/two_levels.hpp"

namespace orrery {

namespace {

// The parent of every member: along the chain of its node, from the head to the head of the parent node.
std::vector<std::int32_t> member_parents(const PlanInput& input, std::int32_t channel, std::int32_t tree) {
  const std::vector<std::int32_t>& order = input.orders[static_cast<std::size_t>(channel)];
  const std::int32_t nodes = node_count(input);
  std::vector<std::int32_t> last(static_cast<std::size_t>(nodes), -1);
  std::vector<std::int32_t> head(static_cast<std::size_t>(nodes), -1);
  std::vector<std::int32_t> parent(order.size(), -1);
  for (const std::int32_t member : order) {
    const auto node = static_cast<std::size_t>(input.node_of[static_cast<std::size_t>(member)]);
    if (head[node] < 0) head[node] = member;
    parent[static_cast<std::size_t>(member)] = last[node];
    last[node] = member;
  }
  for (std::int32_t node = 0; node < nodes; ++node) {
    const std::int32_t up = parent_in_tree(tree, node, nodes);
    if (up >= 0) {
      parent[static_cast<std::size_t>(head[static_cast<std::size_t>(node)])] = head[static_cast<std::size_t>(up)];
    }
  }
  return parent;
}

// Members from the root outwards: every parent before its children.
std::vector<std::int32_t> from_the_root(const std::vector<std::int32_t>& parent) {
  std::vector<std::vector<std::int32_t>> children(parent.size());
  std::vector<std::int32_t> order;
  for (std::size_t member = 0; member < parent.size(); ++member) {
    const std::int32_t up = parent[member];
    if (up < 0) {
      order.push_back(static_cast<std::int32_t>(member));
    } else {
      children[static_cast<std::size_t>(up)].push_back(static_cast<std::int32_t>(member));
    }
  }
  ORRERY_CHECK(order.size() == 1, "a tree has one root", order.size());
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::vector<std::int32_t>& next = children[static_cast<std::size_t>(order[i])];
    order.insert(order.end(), next.begin(), next.end());
  }
  ORRERY_CHECK(order.size() == parent.size(), "every member hangs on the tree", order.size(), parent.size());
  return order;
}

void add_tree(PlanBuilder& builder, const std::vector<std::int32_t>& parent, std::int32_t channel) {
  const std::vector<std::int32_t> outwards = from_the_root(parent);
  std::vector<std::vector<std::int32_t>> received(parent.size());  // edges that feed a member on the way up
  const Content up{0, 1, 1, 0, kAlways};
  for (std::size_t i = outwards.size(); i-- > 1;) {
    const std::int32_t member = outwards[i];
    const std::int32_t above = parent[static_cast<std::size_t>(member)];
    const std::int32_t edge = builder.add_edge({.from = member, .to = above, .channel = channel, .content = up},
                                               received[static_cast<std::size_t>(member)]);
    received[static_cast<std::size_t>(above)].push_back(edge);
  }
  // The way down: the root starts when its children's chunk is in, others when their parent's is.
  std::vector<std::vector<std::int32_t>> down(parent.size());
  down[static_cast<std::size_t>(outwards[0])] = received[static_cast<std::size_t>(outwards[0])];
  for (std::size_t i = 1; i < outwards.size(); ++i) {
    const std::int32_t member = outwards[i];
    const std::int32_t above = parent[static_cast<std::size_t>(member)];
    const std::int32_t edge =
        builder.add_edge({.from = above, .to = member, .channel = channel, .content = {0, 1, 1, 0, 0}},
                         down[static_cast<std::size_t>(above)]);
    down[static_cast<std::size_t>(member)] = {edge};
  }
}

}  // namespace

Plan plan_tree(const PlanInput& input) {
  const std::int32_t nodes = node_count(input);
  // On one node both trees are the same chain: one tree carries everything.
  const std::int32_t trees = nodes > 1 ? 2 : 1;
  PlanBuilder builder(input.members(), input.channels());
  builder.begin_phase({.chain = Chain::draining, .share = 1, .parts = std::int64_t{trees} * input.channels()});
  for (std::int32_t channel = 0; channel < input.channels(); ++channel) {
    for (std::int32_t tree = 0; tree < trees; ++tree) add_tree(builder, member_parents(input, channel, tree), channel);
  }
  return std::move(builder).finish();
}

}  // namespace orrery
