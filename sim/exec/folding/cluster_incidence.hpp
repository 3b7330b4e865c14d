// What a step on a cluster looks like to colour refinement: ranks, communicators, pairs of ranks that send to one
// another, links; at message fidelity also the edges of the plans of all communicators.
//
//   element        its colour says                                  its neighbours, and what labels say
//   rank           role, kind of GPU, slowdown, own noise, size     links of its copies; all below
//                  of the communicators of its transfers
//   communicator   kind, size; per distinct call: what passes       members: uses of their memory, links: uses, each by
//                  before, between and after its bytes              plan and phase
//   channel        latency, kind of hop, nominal bandwidth          sender, receiver: which of their peers it is; links
//   edge           -                                                its communicators: phase, and repetitions,
//   latencies
//                                                                   and sizes of each call; ends; links; edges that it
//                                                                   waits for
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

// What colours and labels are about. Each rule keeps apart what would otherwise be taken for alike.
enum class FoldingRule : std::uint8_t {
  // Colours.
  rank,
  communicator,
  channel,
  link,
  // Labels.
  member,      // of a communicator
  crossing,    // of a link, how often
  memory,      // use of a rank's memory, how often
  peer,        // at a channel's end: who sends, who receives, and which peer it is to the other
  copies,      // over a link
  part_of,     // an edge, of a communicator's calls
  message_of,  // an edge, with its number
  waits_for,   // an edge, for another
  // Totals only: uses of links that decide nothing, which an element sees as a neighbourhood with itself.
  counts,
  // Colours without content.
  edge,
  message,
};
inline constexpr std::size_t kFoldingRules = 12;  // that times rest on: those before `counts`

struct FoldingInput {
  const Workload& workload;
  std::span<const GpuId> gpu_of;  // [ranks]
  const Hardware& hardware;
  CommunicatorCache& communicators;
  TrafficFidelity fidelity = TrafficFidelity::coupled;
  bool ranks_differ = false;                          // noise of their own: no two ranks are alike
  std::optional<FoldingRule> ignored = std::nullopt;  // for tests: a rule that is broken
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
