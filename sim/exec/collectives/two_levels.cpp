#include "sim/exec/collectives/two_levels.hpp"

#include <algorithm>

namespace orrery {

namespace {

// Chunks follow one another; they are added to what the receiver has, or replace it.
constexpr Content kAdded{0, 1, 1, 0, kAlways};
constexpr Content kCopied{0, 1, 1, 0, 0};

// The parent of node x in the first tree over n nodes; -1 for the root.
std::int32_t parent_in_first_tree(std::int32_t x, std::int32_t n) {
  if (x == 0) return -1;
  const std::int32_t low = x & -x;
  const std::int32_t raised = (x ^ low) | (low << 1);
  return raised < n ? raised : x ^ low;
}

}  // namespace

std::int32_t parent_in_tree(std::int32_t tree, std::int32_t x, std::int32_t n) {
  if (tree == 0) return parent_in_first_tree(x, n);
  const bool even = n % 2 == 0;
  const std::int32_t image = even ? n - 1 - x : (x + n - 1) % n;
  const std::int32_t parent = parent_in_first_tree(image, n);
  if (parent < 0) return -1;
  return even ? n - 1 - parent : (parent + 1) % n;
}

std::int32_t node_count(const PlanInput& input) {
  return *std::max_element(input.node_of.begin(), input.node_of.end()) + 1;
}

std::vector<std::vector<std::int32_t>> nodes_of_channel(const PlanInput& input, std::int32_t channel) {
  std::vector<std::vector<std::int32_t>> nodes(static_cast<std::size_t>(node_count(input)));
  for (const std::int32_t member : input.orders[static_cast<std::size_t>(channel)]) {
    nodes[static_cast<std::size_t>(input.node_of[static_cast<std::size_t>(member)])].push_back(member);
  }
  return nodes;
}

std::vector<std::int32_t> add_gathering(PlanBuilder& builder, std::span<const std::int32_t> members,
                                        std::int32_t channel, InsideNode inside) {
  const std::int32_t head = members[0];
  if (members.size() == 1) return {};
  std::vector<std::int32_t> waits;
  if (inside == InsideNode::chain) {
    for (std::size_t i = members.size(); i-- > 1;) {
      const std::int32_t edge =
          builder.add_edge({.from = members[i], .to = members[i - 1], .channel = channel, .content = kAdded}, waits);
      waits = {edge};
    }
    return waits;
  }
  const bool switched = inside == InsideNode::switched;
  for (std::size_t i = switched ? 0 : 1; i < members.size(); ++i) {
    waits.push_back(
        builder.add_edge({.from = members[i], .to = switched ? kSwitch : head, .channel = channel, .content = kAdded}));
  }
  if (!switched) return waits;
  return {builder.add_edge({.from = kSwitch, .to = head, .channel = channel, .content = kCopied}, waits)};
}

void add_spreading(PlanBuilder& builder, std::span<const std::int32_t> members, std::int32_t channel, InsideNode inside,
                   std::span<const std::int32_t> from) {
  const std::int32_t head = members[0];
  if (members.size() == 1) return;
  std::vector<std::int32_t> waits(from.begin(), from.end());
  if (inside == InsideNode::switched) {
    waits = {builder.add_edge({.from = head, .to = kSwitch, .channel = channel, .content = kCopied}, waits)};
  }
  for (std::size_t i = inside == InsideNode::switched ? 0 : 1; i < members.size(); ++i) {
    std::int32_t source = head;
    if (inside == InsideNode::chain) source = members[i - 1];
    if (inside == InsideNode::switched) source = kSwitch;
    const std::int32_t edge =
        builder.add_edge({.from = source, .to = members[i], .channel = channel, .content = kCopied}, waits);
    if (inside == InsideNode::chain) waits = {edge};
  }
}

}  // namespace orrery
