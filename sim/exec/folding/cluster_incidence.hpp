// What a step on a cluster looks like to colour refinement: ranks, communicators, pairs of ranks that send to one
// another, links; at message fidelity also the edges of the plans of all communicators.
//
//   element        its colour says                                  its neighbours, and what labels say
//   rank           role, kind of GPU, slowdown, own noise, size     links of its copies: direction; all below
//                  of the communicators of its transfers,
//                  latency of its copies
//   communicator   kind; per distinct call: plan, channels,         members: uses of their memory, links: uses; each by
//                  messages and bytes, latency; coupled also        plan and phase
//                  cap, and each phase's work
//   channel        latency, nominal bandwidth                       sender, receiver: which of their peers it is; links
//                                                                   and memories: uses
//   edge           -                                                its communicators: plan, and for each call size and
//                                                                   number of messages, latency, cap; edges that it
//                                                                   waits for, and for how much of them; links and
//                                                                   memories: uses
//   message        -                                                (of an edge whose receivers change) the edge: its
//                                                                   number and weight; links and memories: uses
//   link           kind, bandwidth                                  -
//
// A rank is also its GPU's memory. Elements of different rows never have equal colours.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/exec/collectives/communicator.hpp"
#include "sim/exec/folding/colour_refinement.hpp"
#include "sim/exec/hardware.hpp"
#include "sim/exec/traffic.hpp"
#include "sim/graph/workload.hpp"

namespace orrery {

// What keeps elements apart, entry by entry: each can be broken on its own, and for each there is an input whose run
// then comes out otherwise (tests/unit/exec/folding_rules_test.cpp). An entry is what a run reads, no more. So a call's
// operation, size and shares are not among them (communicators whose members have the same roles make the same calls),
// nor are, although they decide what is read:
//   algorithm, protocol       seen in the latency, the sizes, the caps and the shape of the plan
//   size of a message,        in a coupled run, which reads a phase's work and chain alone
//   number of messages
//   cap of a call             message by message, where each edge has its own
//   phase of an edge          an edge says how large and how many its messages are; and of each that it waits for,
//                             whether for all of it (of an earlier phase) or up to how far behind
enum class FoldingRule : std::uint8_t {
  // Entries of colours.
  rank_role,
  rank_gpu,
  rank_slowdown,
  rank_noise,
  rank_transfer_ranks,  // of the communicators that its transfers go over
  rank_copy_latency,
  communicator_kind,
  call_channels,
  call_totals,   // messages and bytes
  call_alone,    // unnoticed: all that it takes
  call_latency,  // what passes before and between its bytes
  call_cap,      // coupled
  phase_work,    // coupled
  channel_latency,
  channel_bandwidth,
  link_kind,
  link_bandwidth,
  // Neighbourhoods, and entries of their labels.
  member,    // of a communicator
  crossing,  // of a link
  memory,    // use of a rank's memory
  crossing_count,
  crossing_phase,
  copying,  // over a link
  copying_direction,
  peer,       // at a channel's end
  peer_end,   // who sends, who receives
  peer_kind,  // which peer it is to the other
  part,       // an edge, of a communicator's calls
  part_plan,
  part_size,  // of each message, and how many
  part_latency,
  part_cap,
  numbered,     // a message, of an edge
  numbered_by,  // which one it is
  numbered_weight,
  waiting,      // an edge, for another
  waiting_how,  // which for which, and for how much of it
  // Totals only: uses of links that decide nothing, which an element sees as a neighbourhood with itself.
  count_phase,
  count_kind,
  count_bandwidth,
  count_uses,
};
inline constexpr std::size_t kFoldingRules = static_cast<std::size_t>(FoldingRule::count_uses) + 1;

struct FoldingInput {
  const Workload& workload;
  std::span<const GpuId> gpu_of;  // [ranks]
  const Hardware& hardware;
  CommunicatorCache& communicators;
  TrafficFidelity fidelity = TrafficFidelity::coupled;
  bool ranks_differ = false;                         // noise of their own: no two ranks are alike
  std::optional<FoldingRule> broken = std::nullopt;  // for tests: says nothing
};

// Elements are numbered ranks, communicators, channels, then the rest in the order of their first use.
struct ClusterIncidence {
  static constexpr std::uint32_t kNone = 0xffffffff;

  Incidence incidence;
  std::uint32_t first_communicator = 0;
  std::uint32_t first_channel = 0;
  std::vector<std::pair<RankId, RankId>> channels;  // sender, receiver; sorted
  std::vector<std::uint32_t> element_of_link;       // [links]; kNone: nobody crosses it

  // Message fidelity: the edges of all routed plans.
  struct PlanEdges {
    CommunicatorState* state = nullptr;
    const RoutedPlan* plan = nullptr;
    std::vector<std::uint32_t> elements;  // [edges]
  };
  std::vector<PlanEdges> plans;

  [[nodiscard]] std::uint32_t channel(RankId sender, RankId receiver) const;
};

// O(total length of the routes of all edges of all plans).
[[nodiscard]] ClusterIncidence cluster_incidence(const FoldingInput& input);

}  // namespace orrery
