#include "sim/exec/collectives/algorithm.hpp"

#include <array>

namespace orrery {

namespace {

using enum CollectiveOp;

constexpr std::array kRows{
    CollectiveAlgorithm{.name = "ring",
                        .doc = "one ring per channel; all_reduce in 2(n-1) rounds, broadcast and reduce as a chain",
                        .ops = op_set(all_reduce, reduce_scatter, all_gather, broadcast, reduce),
                        .family = CostFamily::ring,
                        .follows_rings = true,
                        .chosen_by_auto = true,
                        .plan = plan_ring},
    CollectiveAlgorithm{.name = "tree",
                        .doc = "double binary tree over nodes, a chain inside each; logarithmic latency",
                        .ops = op_set(all_reduce),
                        .family = CostFamily::tree,
                        .follows_rings = true,
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
                        .single_node_switch = true,
                        .simple_only = true,
                        .plan = plan_in_switch},
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
