// The part of a communicator that lies on one node: its members, the rings among them, and, where there are more nodes,
// by which NIC each ring enters and leaves, and past whom.
//
// A ring across nodes enters at the member that its NIC serves and may end at any other: on an NVSwitch every order is
// as good. It leaves by the same NIC, either over the last member's own PCIe link, where that member sits beside the
// NIC, or, handed over NVLink, over the PCIe link of a GPU that does. What must not happen is that two rings leave over
// one PCIe link while another link is free: rings carry equal shares, so both would be at half speed and everybody
// would wait for them. NCCL's search sees to it by taking each ring's bandwidth off the links that it uses; here the
// last member is chosen, ring by ring, such that the most loaded link on its way to the NIC is loaded least.
#pragma once

#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "topology/topology.hpp"

namespace orrery {

struct NodeMembers {
  NodeId node;
  std::vector<std::int32_t> members;  // of the communicator; by local index
};

// Members by node, in the order in which nodes appear. Appends the number of its node for every member.
[[nodiscard]] std::vector<NodeMembers> by_node(const Topology& topology, std::span<const GpuId> members,
                                               std::vector<std::int32_t>& node_of);

// Rings through the members of one node: cycles over direct links on a mesh, each both ways; else one in order.
[[nodiscard]] std::vector<std::vector<std::int32_t>> rings_inside(const Topology& topology,
                                                                  std::span<const GpuId> members,
                                                                  const NodeMembers& node);

// A ring's way through a node among others.
struct NodePassage {
  std::int32_t nic = 0;             // by which it enters and leaves
  std::vector<std::int32_t> order;  // of the node's members
};

// One passage for each NIC next to a member: those that the topology names, and where a node has several per GPU, the
// GPU's share of them in order. `other` is a GPU on another node. O(members^2 x NICs) routes.
[[nodiscard]] std::vector<NodePassage> passages_of(const Topology& topology, std::span<const GpuId> members,
                                                   const NodeMembers& node, GpuId other);

// The same for all nodes of a communicator, searched once for nodes of one kind whose members have the same places.
[[nodiscard]] std::vector<std::vector<NodePassage>> passages_of_all(const Topology& topology,
                                                                    std::span<const GpuId> members,
                                                                    const std::vector<NodeMembers>& nodes);

}  // namespace orrery
