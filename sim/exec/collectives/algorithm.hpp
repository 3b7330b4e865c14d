// The collective algorithms: one .cpp and one row each. A row is all that the rest of the program knows of one, and
// the property tests loop over the rows.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "sim/exec/collectives/plan.hpp"
#include "sim/graph/communication.hpp"

namespace orrery {

// What an algorithm is told of a communicator: per distinct channel the members in ring order, node after node, and
// the node (numbered in the order of the communicator) of every member. Member 0 is the root of broadcast and reduce.
struct PlanInput {
  CollectiveOp op = CollectiveOp::all_reduce;
  std::span<const std::vector<std::int32_t>> orders;  // [channels][members]; at least one channel
  std::span<const std::int32_t> node_of;              // [members]
  // all_to_all: [members] the parts of what each member sends, by receiver; with `returns`, of what each receives, by
  // sender. Empty: equal parts.
  std::span<const std::int64_t> weights{};
  bool returns = false;

  [[nodiscard]] std::int32_t members() const { return static_cast<std::int32_t>(node_of.size()); }
  [[nodiscard]] std::int32_t channels() const { return static_cast<std::int32_t>(orders.size()); }
};

// Bits by CollectiveOp.
using OpSet = std::uint32_t;
[[nodiscard]] constexpr OpSet op_set(CollectiveOp op) { return OpSet{1} << static_cast<unsigned>(op); }
template <class... Ops>
[[nodiscard]] constexpr OpSet op_set(CollectiveOp first, Ops... rest) {
  return (op_set(first) | ... | op_set(rest));
}

// Which row of NCCL's latency and bandwidth tables describes the algorithm (sim/exec/collectives/protocol.hpp).
enum class CostFamily : std::uint8_t {
  ring,
  tree,
  in_switch,    // NVLS on one node
  nvls_tree,    // NVLS inside nodes, a tree between them
  nvls_sharp,   // NVLS inside nodes, the network's switches between them
  sharp,        // CollNetDirect
  sharp_chain,  // CollNetChain
  pairwise,
};
// Whether NVSwitches of several nodes take part, beside NICs.
[[nodiscard]] constexpr bool mixes_switches_and_network(CostFamily family) {
  return family == CostFamily::nvls_tree || family == CostFamily::nvls_sharp;
}

struct CommunicatorLayout;

// Where an algorithm can run.
struct HardwareNeed {
  bool (*met)(const CommunicatorLayout& layout) = nullptr;
  std::string_view words;  // after "without"
};

// By which NICs edges between nodes go.
enum class NicChoice : std::uint8_t {
  of_ring,      // those of the channel's ring
  of_member,    // each member's own: of several, the channels take turns
  of_receiver,  // as messages from point to point do (PXN)
};

struct CollectiveAlgorithm {
  std::string_view name;
  std::string_view doc;
  OpSet ops = 0;
  CostFamily family = CostFamily::ring;
  bool follows_rings = false;  // one plan for each of the layout's rings, but for all_to_all
  NicChoice nics = NicChoice::of_receiver;
  bool chosen_by_auto = false;                     // NCCL has it and may choose it
  bool uses_network_switches = false;              // and `auto` takes it only where that is asked for
  bool simple_only = false;                        // runs with the Simple protocol only
  HardwareNeed need{};                             // none: runs everywhere
  Plan (*plan)(const PlanInput& input) = nullptr;  // at least two members

  [[nodiscard]] constexpr bool has(CollectiveOp op) const { return (ops & op_set(op)) != 0; }
};

[[nodiscard]] std::span<const CollectiveAlgorithm> collective_algorithm_rows();
// Null if there is no such row.
[[nodiscard]] const CollectiveAlgorithm* find_collective_algorithm(std::string_view name);

[[nodiscard]] Plan plan_ring(const PlanInput& input);
[[nodiscard]] Plan plan_tree(const PlanInput& input);
[[nodiscard]] Plan plan_halving_doubling(const PlanInput& input);
[[nodiscard]] Plan plan_pairwise(const PlanInput& input);
[[nodiscard]] Plan plan_in_switch(const PlanInput& input);
[[nodiscard]] Plan plan_nvls_tree(const PlanInput& input);
[[nodiscard]] Plan plan_nvls_sharp(const PlanInput& input);
[[nodiscard]] Plan plan_sharp(const PlanInput& input);
[[nodiscard]] Plan plan_sharp_chain(const PlanInput& input);
[[nodiscard]] Plan plan_hierarchical(const PlanInput& input);

}  // namespace orrery
