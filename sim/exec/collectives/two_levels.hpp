// What algorithms of two levels share: the nodes of a channel with a head each, the trees that join nodes, and the ways
// in which a node's data comes to its head and the sum goes back.
//
// Double binary trees. In a binary tree over nodes the inner nodes send and receive twice what the leaves do. Two trees
// that carry half of the data each, in which no node is an inner one twice, use every node's links alike (Sanders,
// Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", 2009). The first tree over
// N nodes joins node x, whose lowest set bit is b, to the node with that bit cleared and the next one set (or, beyond
// N, just cleared); node 0 is the root. The second is its mirror image for even N and its rotation by one for odd N.
//
// Inside a node, chunk after chunk:
//   chain     from member to member, added up on the way, to the head; back the same way
//   star      every member to the head, which adds up; back from the head to every member
//   switched  the NVSwitch reads the members and gives the head the sum; the head's result is multicast to all of them
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/exec/collectives/algorithm.hpp"

namespace orrery {

[[nodiscard]] std::int32_t node_count(const PlanInput& input);

// [nodes] The members of each in the order of the channel's ring: the head, next to the ring's NIC, first.
[[nodiscard]] std::vector<std::vector<std::int32_t>> nodes_of_channel(const PlanInput& input, std::int32_t channel);

// The parent of node x in the first (0) or second (1) tree over n nodes; -1 for the root.
[[nodiscard]] std::int32_t parent_in_tree(std::int32_t tree, std::int32_t x, std::int32_t n);

enum class InsideNode : std::uint8_t { chain, star, switched };

// Adds the edges by which a head gets its node's sum. Returns those that the head has to wait for.
[[nodiscard]] std::vector<std::int32_t> add_gathering(PlanBuilder& builder, std::span<const std::int32_t> members,
                                                      std::int32_t channel, InsideNode inside);
// Adds the edges by which the node's members get the head's result, which has come by the edges `from`.
void add_spreading(PlanBuilder& builder, std::span<const std::int32_t> members, std::int32_t channel, InsideNode inside,
                   std::span<const std::int32_t> from);

}  // namespace orrery
