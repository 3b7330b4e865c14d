// Reductions by the switches of the network (SHARP): every rail's heads, one a node, send their node's sum into the
// network once and receive the sum of all once, whatever the number of nodes, where a ring's NIC sends twice the data.
// NCCL calls it CollNet (connectCollNet in src/graph/connect.cc, RunWorkElement of COLLNET_* in
// src/device/all_reduce.h):
//
//   sharp        CollNetDirect: every member sends each head the head's part of its data over NVLink, and gets it back
//   sharp_chain  CollNetChain: a chain of the node's members ends in the head
//   nvls_sharp   NVLS across nodes: the NVSwitch adds up for the head and multicasts its result
//
// The network's switches are one pseudo-member, kNetwork; where its links are is a matter of the topology
// (network_paths.hpp). A chunk of the sum comes back when all heads' chunks are in.
#include <vector>

#include "sim/exec/collectives/two_levels.hpp"

namespace orrery {

namespace {

Plan plan_in_network(const PlanInput& input, InsideNode inside) {
  PlanBuilder builder(input.members(), input.channels());
  builder.begin_phase({.chain = Chain::draining, .share = 1, .parts = input.channels()});
  for (std::int32_t channel = 0; channel < input.channels(); ++channel) {
    const std::vector<std::vector<std::int32_t>> nodes = nodes_of_channel(input, channel);
    std::vector<std::int32_t> up;
    for (const std::vector<std::int32_t>& members : nodes) {
      const std::vector<std::int32_t> gathered = add_gathering(builder, members, channel, inside);
      up.push_back(builder.add_edge(
          {.from = members[0], .to = kNetwork, .channel = channel, .content = {0, 1, 1, 0, kAlways}}, gathered));
    }
    for (const std::vector<std::int32_t>& members : nodes) {
      const std::vector<std::int32_t> down{
          builder.add_edge({.from = kNetwork, .to = members[0], .channel = channel, .content = {0, 1, 1, 0, 0}}, up)};
      add_spreading(builder, members, channel, inside, down);
    }
  }
  return std::move(builder).finish();
}

}  // namespace

Plan plan_sharp(const PlanInput& input) { return plan_in_network(input, InsideNode::star); }
Plan plan_sharp_chain(const PlanInput& input) { return plan_in_network(input, InsideNode::chain); }
Plan plan_nvls_sharp(const PlanInput& input) { return plan_in_network(input, InsideNode::switched); }

}  // namespace orrery
