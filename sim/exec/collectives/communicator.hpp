// What is known of a group of GPUs after its first collective: layout, routed plans, and per call everything that
// depends on operation and size. Starting the same collective again is two look-ups.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sim/exec/collectives/routed_plan.hpp"
#include "sim/exec/collectives/tuning.hpp"

namespace orrery {

// The crossings of each phase of a routed plan, for one multiplicity.
using PhaseCrossings = std::vector<std::vector<Crossing>>;

// What message players need of a routed plan: the crossings of each edge, and which edges wait for it. Edges whose
// receiver changes have no crossings here.
struct MessageTables {
  std::vector<Crossing> crossings;
  std::vector<std::size_t> first_crossing;  // [edges + 1]
  std::vector<std::int32_t> dependents;
  std::vector<std::size_t> first_dependent;  // [edges + 1]
};
[[nodiscard]] MessageTables message_tables(Machine& machine, const RoutedPlan& routed);

// One phase of a call.
struct PhaseCall {
  PhaseSize size;
  Bytes message{};   // on the wire
  Bytes work{};      // of the coupled activity: what one edge carries over the phase
  Duration chain{};  // coupled: what passes before the bytes flow on all edges
};

// A collective of one size on one communicator, ready to be played.
struct CollectiveInstance {
  const RoutedPlan* routed = nullptr;
  TuningChoice choice;
  Rate cap = kUncapped;  // of the edge that is capped most
  Duration base{};       // before the first message
  std::vector<PhaseCall> phases;
  PlanTotals totals;
  std::vector<Duration> latencies;  // [edges], message fidelity only
  std::vector<Rate> caps;           // [edges], message fidelity only
};

class CommunicatorState {
 public:
  CommunicatorState(const Topology& topology, std::span<const GpuId> group)
      : members(group.begin(), group.end()), layout(lay_out(topology, members)) {}

  std::vector<GpuId> members;
  CommunicatorLayout layout;

  struct Routed {
    CollectiveOp op{};
    const CollectiveAlgorithm* algorithm = nullptr;
    std::int32_t rings = 0;
    std::unique_ptr<RoutedPlan> plan;
    std::unique_ptr<MessageTables> messages;
    std::map<std::int64_t, PhaseCrossings> crossings;  // by multiplicity
  };
  std::vector<std::unique_ptr<Routed>> routed;
  std::map<std::pair<CollectiveOp, std::int64_t>, CollectiveInstance> instances;  // by bytes

  [[nodiscard]] Routed& routed_of(const RoutedPlan* plan);
};

// Finds the state of a group by its members; makes plans once per shape of group.
class CommunicatorCache {
 public:
  // `extra_base` is added to the fixed time of every collective.
  CommunicatorCache(Machine& machine, const TuningRequest& request, Duration extra_base, bool keep_latencies)
      : machine_(machine), request_(request), extra_base_(extra_base), keep_latencies_(keep_latencies) {}

  // Valid as long as the cache. O(members).
  CommunicatorState& find(std::span<const GpuId> members);
  // At least two members.
  const CollectiveInstance& instance(CommunicatorState& communicator, CollectiveOp op, Bytes bytes);
  // Of each phase, for `multiplicity` communicators alike.
  const PhaseCrossings& crossings(CommunicatorState& communicator, const RoutedPlan* plan, std::int64_t multiplicity);
  const MessageTables& messages(CommunicatorState& communicator, const RoutedPlan* plan);

  // A line for each operation that could not run as the request's algorithm, in the order of their first use.
  [[nodiscard]] const std::vector<std::string>& substitutions() const { return substitutions_; }

 private:
  std::shared_ptr<const Plan> plan_for(const CommunicatorLayout& layout, const CollectiveAlgorithm& algorithm,
                                       CollectiveOp op, std::int32_t rings);
  const RoutedPlan& route(CommunicatorState& communicator, const CollectiveAlgorithm& algorithm, CollectiveOp op,
                          std::int32_t rings);
  [[nodiscard]] CollectiveInstance make_instance(CommunicatorState& communicator, CollectiveOp op, Bytes bytes);
  void note_substitution(const CommunicatorLayout& layout, CollectiveOp op, const TuningChoice& choice);

  Machine& machine_;
  TuningRequest request_;
  Duration extra_base_;
  bool keep_latencies_;
  std::vector<std::string> substitutions_;
  std::vector<std::unique_ptr<CommunicatorState>> states_;
  std::map<std::uint64_t, std::vector<std::size_t>> by_hash_;
  std::map<std::vector<std::int32_t>, std::shared_ptr<const Plan>> plans_;  // by op, algorithm and shape
};

}  // namespace orrery
