// What is known of a group of GPUs after its first collective: layout, routed plans, and per call everything that
// depends on operation and size. Starting the same collective again is two look-ups.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/exec/collectives/routed_plan.hpp"
#include "sim/exec/collectives/tuning.hpp"

namespace orrery {

// The crossings of each phase of a routed plan, for one multiplicity.
using PhaseCrossings = std::vector<std::vector<Crossing>>;

// What message players need of a routed plan: which edges wait for which, and what each crosses. A lane is an edge, or
// (folded) a class of edges that are alike.
struct MessageTables {
  // Items of lane i are those from first[i] to first[i + 1].
  template <class Item>
  struct Rows {
    std::vector<Item> items;
    std::vector<std::size_t> first{0};

    void end_row() { first.push_back(items.size()); }
    [[nodiscard]] std::span<const Item> of(std::size_t i) const {
      return std::span(items).subspan(first[i], first[i + 1] - first[i]);
    }
  };

  std::vector<std::int32_t> model;  // [lanes] the first of its edges
  Rows<std::int32_t> edges;         // all of them
  Rows<std::uint32_t> feeders;      // lanes that it waits for
  Rows<std::uint32_t> dependents;   // lanes that wait for it
  Rows<Crossing> crossings;         // empty where receivers change
  std::int64_t multiplicity = 1;    // communicators that this one stands for

  [[nodiscard]] std::size_t lanes() const { return model.size(); }
};
// `alike`: [edges] equal numbers for edges that are alike; empty: none are.
[[nodiscard]] MessageTables message_tables(const Machine& machine, const RoutedPlan& routed,
                                           std::span<const std::uint32_t> alike, std::int64_t multiplicity);
// What message r of a lane crosses.
[[nodiscard]] std::vector<Crossing> message_crossings(const Machine& machine, const RoutedPlan& routed,
                                                      const MessageTables& tables, std::size_t lane, std::int64_t r);

// One phase of a call.
struct PhaseCall {
  PhaseSize size;
  Bytes message{};   // on the wire, in units of the routed plan
  Bytes work{};      // of the coupled activity: what one edge carries over the phase, in the same units
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
  // Coupled: no edge carries more than kUnnoticed, so nobody's bandwidth is taken and the whole lasts `alone`.
  bool unnoticed = false;
  Duration alone{};  // all of it on an idle machine
};

// What an edge may carry in a collective whose bytes take no bandwidth from others. The norm of the gradients, the
// loss and the overflow flag of a step are a few bytes each and last a few latencies: 4 KiB are 0.1 us of a 400 Gb/s
// port. The bytes still take their own time, at the rates of an idle machine. For folding this matters: such calls go
// over trees, whose nodes are loaded differently, and would tell ranks apart that differ in nothing else.
inline constexpr Bytes kUnnoticed = Bytes(4 << 10);

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
    SharesId shares;
    bool returns = false;
    std::unique_ptr<RoutedPlan> plan;
    std::vector<std::uint32_t> alike;  // [edges], see message_tables(); to be set before the first call of messages()
    std::map<std::int64_t, MessageTables> messages;    // by multiplicity
    std::map<std::int64_t, PhaseCrossings> crossings;  // by multiplicity
  };
  std::vector<std::unique_ptr<Routed>> routed;
  std::map<std::tuple<CollectiveOp, std::int64_t, SharesId, bool>, CollectiveInstance> instances;  // by call

  [[nodiscard]] Routed& routed_of(const RoutedPlan* plan);
};

// Finds the state of a group by its members; makes plans once per shape of group.
class CommunicatorCache {
 public:
  // `extra_base` is added to the fixed time of every collective.
  CommunicatorCache(const Hardware& hardware, const TuningRequest& request, Duration extra_base, bool keep_latencies)
      : hardware_(hardware), request_(request), extra_base_(extra_base), keep_latencies_(keep_latencies) {}

  // Valid as long as the cache. O(members).
  CommunicatorState& find(std::span<const GpuId> members);
  // What calls mean by their shares. Must outlive the cache; to be set before the first such call.
  void know_shares(std::span<const Shares> shares) { shares_ = shares; }
  // At least two members. The call's group is left out of account.
  const CollectiveInstance& instance(CommunicatorState& communicator, const CollectiveCall& call);
  // Of each phase, for `multiplicity` communicators alike.
  const PhaseCrossings& crossings(const Machine& machine, CommunicatorState& communicator, const RoutedPlan* plan,
                                  std::int64_t multiplicity);
  const MessageTables& messages(const Machine& machine, CommunicatorState& communicator, const RoutedPlan* plan,
                                std::int64_t multiplicity);

  [[nodiscard]] const TuningRequest& request() const { return request_; }

  // A line for each operation that could not run as the request's algorithm, in the order of their first use.
  [[nodiscard]] const std::vector<std::string>& substitutions() const { return substitutions_; }

 private:
  std::shared_ptr<const Plan> plan_for(const CommunicatorLayout& layout, const CollectiveAlgorithm& algorithm,
                                       const CollectiveCall& call, std::int32_t rings);
  const RoutedPlan& route(CommunicatorState& communicator, const TuningChoice& choice, const CollectiveCall& call,
                          std::int32_t rings);
  [[nodiscard]] CollectiveInstance make_instance(CommunicatorState& communicator, const CollectiveCall& call);
  void note_substitution(const CommunicatorLayout& layout, CollectiveOp op, const TuningChoice& choice);

  const Hardware& hardware_;
  TuningRequest request_;
  Duration extra_base_;
  bool keep_latencies_;
  std::span<const Shares> shares_;
  std::vector<std::string> substitutions_;
  std::vector<std::unique_ptr<CommunicatorState>> states_;
  std::map<std::uint64_t, std::vector<std::size_t>> by_hash_;
  std::map<std::vector<std::int32_t>, std::shared_ptr<const Plan>> plans_;  // by op, algorithm and shape
};

}  // namespace orrery
