// Ways between the members of a communicator and the network: into the switches that reduce (SHARP), and the NICs that
// are a member's own.
//
// SHARP's aggregation tree. The switches between the heads of a channel (one member a node, by its NIC) form a tree: a
// leaf adds up what its ports send, passes the sum on to the tier above, and gets the whole sum back, which it hands to
// all of its ports (Graham et al., "Scalable Hierarchical Aggregation Protocol (SHArP)", 2016). So a cable between
// switches carries the data once each way, however many heads there are below it. The tree is the union of the ways
// from all heads to one of them, up to where they turn down; what several heads share is booked on the first of them.
// With hashed routes (ecmp) a leaf's way up is that of its first head. SHARP's own headers are left out: the link's
// efficiency has them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/exec/collectives/routed_plan.hpp"

namespace orrery {

// [nodes] From a channel's head on the node into the network. The layout has more than one node. O(nodes) routes.
[[nodiscard]] std::vector<EdgePath> paths_into_network(const Topology& topology, std::span<const GpuId> members,
                                                       const CommunicatorLayout& layout, std::size_t channel);

// [members] Node-local NICs of the rings that enter a node at the member; empty: none does.
[[nodiscard]] std::vector<std::vector<std::int32_t>> nics_of_members(const CommunicatorLayout& layout);

}  // namespace orrery
