#include "sim/exec/collectives/algorithm.hpp"

#include <array>

#include "sim/exec/collectives/layout.hpp"

namespace orrery {

namespace {

using enum CollectiveOp;

// NCCL_MAX_DIRECT_ARITY (src/include/device.h): a head and so many others on its node.
constexpr std::int32_t kDirectMembersMost = 8;

bool reaches_one_switch(const CommunicatorLayout& layout) { return layout.nodes == 1 && layout.switch_reduces; }
bool reaches_switches(const CommunicatorLayout& layout) { return layout.nodes > 1 && layout.switch_reduces; }
bool reaches_network(const CommunicatorLayout& layout) { return layout.nodes > 1 && layout.network_reduces; }
bool reaches_both(const CommunicatorLayout& layout) { return reaches_switches(layout) && layout.network_reduces; }
bool reaches_directly(const CommunicatorLayout& layout) {
  return reaches_network(layout) && (layout.one_switch || layout.node_most == 1) &&
         layout.node_most <= kDirectMembersMost;
}
bool lies_evenly(const CommunicatorLayout& layout) { return layout.even_nodes; }

constexpr HardwareNeed kOneSwitch{reaches_one_switch, "all members on one NVSwitch with NVLink SHARP"};
constexpr HardwareNeed kSwitches{reaches_switches,
                                 "several nodes whose members all share an NVSwitch with NVLink SHARP"};
constexpr HardwareNeed kNetwork{reaches_network,
                                "several nodes on switches that reduce (in_network_reduction of the fabric's link)"};
constexpr HardwareNeed kDirect{
    reaches_directly,
    "several nodes on switches that reduce (in_network_reduction of the fabric's link), each "
    "with one member or up to eight on one NVSwitch"};
constexpr HardwareNeed kBoth{reaches_both,
                             "several nodes with NVLink SHARP on switches that reduce (in_network_reduction of the "
                             "fabric's link)"};
constexpr HardwareNeed kEven{lies_evenly, "as many members on every node, numbered node after node"};

constexpr std::array kRows{
    CollectiveAlgorithm{.name = "ring",
                        .doc = "one ring per channel; all_reduce in 2(n-1) rounds, broadcast and reduce as a chain",
                        .ops = op_set(all_reduce, reduce_scatter, all_gather, broadcast, reduce),
                        .family = CostFamily::ring,
                        .follows_rings = true,
                        .nics = NicChoice::of_ring,
                        .chosen_by_auto = true,
                        .plan = plan_ring},
    CollectiveAlgorithm{.name = "tree",
                        .doc = "double binary tree over nodes, a chain inside each; logarithmic latency",
                        .ops = op_set(all_reduce),
                        .family = CostFamily::tree,
                        .follows_rings = true,
                        .nics = NicChoice::of_ring,
                        .chosen_by_auto = true,
                        .plan = plan_tree},
    CollectiveAlgorithm{.name = "halving_doubling",
                        .doc = "recursive halving, then recursive doubling, between partners a power of two apart",
                        .ops = op_set(all_reduce, reduce_scatter, all_gather),
                        .family = CostFamily::tree,
                        .plan = plan_halving_doubling},
    CollectiveAlgorithm{.name = "nvls",
                        .doc = "the NVSwitch adds up and multicasts (NVLink SHARP); one node, Hopper and later",
                        .ops = op_set(all_reduce),
                        .family = CostFamily::in_switch,
                        .chosen_by_auto = true,
                        .simple_only = true,
                        .need = kOneSwitch,
                        .plan = plan_in_switch},
    CollectiveAlgorithm{.name = "nvls_tree",
                        .doc = "NVSwitches add up and multicast inside nodes, double binary trees join them by rail",
                        .ops = op_set(all_reduce),
                        .family = CostFamily::nvls_tree,
                        .follows_rings = true,
                        .nics = NicChoice::of_ring,
                        .chosen_by_auto = true,
                        .simple_only = true,
                        .need = kSwitches,
                        .plan = plan_nvls_tree},
    CollectiveAlgorithm{.name = "nvls_sharp",
                        .doc = "NVSwitches add up and multicast inside nodes, the network's switches between them",
                        .ops = op_set(all_reduce),
                        .family = CostFamily::nvls_sharp,
                        .follows_rings = true,
                        .nics = NicChoice::of_ring,
                        .chosen_by_auto = true,
                        .uses_network_switches = true,
                        .simple_only = true,
                        .need = kBoth,
                        .plan = plan_nvls_sharp},
    CollectiveAlgorithm{.name = "sharp",
                        .doc = "a head per rail adds up its node's data, the network's switches add up the heads' "
                               "(NCCL's CollNetDirect)",
                        .ops = op_set(all_reduce),
                        .family = CostFamily::sharp,
                        .follows_rings = true,
                        .nics = NicChoice::of_ring,
                        .chosen_by_auto = true,
                        .uses_network_switches = true,
                        .simple_only = true,
                        .need = kDirect,
                        .plan = plan_sharp},
    CollectiveAlgorithm{.name = "sharp_chain",
                        .doc = "as sharp, with a chain inside each node (NCCL's CollNetChain)",
                        .ops = op_set(all_reduce),
                        .family = CostFamily::sharp_chain,
                        .follows_rings = true,
                        .nics = NicChoice::of_ring,
                        .chosen_by_auto = true,
                        .uses_network_switches = true,
                        .simple_only = true,
                        .need = kNetwork,
                        .plan = plan_sharp_chain},
    CollectiveAlgorithm{.name = "hierarchical",
                        .doc = "rings inside nodes and rings between members of the same place in their nodes; "
                               "all_to_all inside nodes, then between them",
                        .ops = op_set(all_reduce, reduce_scatter, all_gather, all_to_all),
                        .family = CostFamily::ring,
                        .follows_rings = true,
                        .nics = NicChoice::of_member,
                        .need = kEven,
                        .plan = plan_hierarchical},
    CollectiveAlgorithm{.name = "pairwise",
                        .doc = "every member sends to every other directly, a few at a time",
                        .ops = op_set(all_to_all),
                        .family = CostFamily::pairwise,
                        .chosen_by_auto = true,
                        .plan = plan_pairwise},
};

}  // namespace

std::span<const CollectiveAlgorithm> collective_algorithm_rows() { return kRows; }

const CollectiveAlgorithm* find_collective_algorithm(std::string_view name) {
  for (const CollectiveAlgorithm& row : kRows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace orrery
