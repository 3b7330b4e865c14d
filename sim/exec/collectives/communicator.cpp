#include "sim/exec/collectives/communicator.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "sim/base/check.hpp"
#include "sim/base/random.hpp"

namespace orrery {

namespace {

// What a payload weighs on the wire under the choice, what NVLS loses included.
Bytes on_the_wire(const TuningChoice& choice, GpuGeneration generation, Bytes payload) {
  const Bytes wire = wire_bytes(choice.protocol, payload);
  if (choice.algorithm->family != CostFamily::in_switch || choice.protocol == Protocol::ideal) return wire;
  const double efficiency = in_switch_efficiency(generation);
  if (efficiency <= 0) return wire;
  const auto per_mille = static_cast<std::int64_t>(efficiency * 1000);
  return Bytes(divide_up(wire.count() * 1000, per_mille));
}

// The rules by which a choice's plan is routed.
RoutingRules rules_of(const TuningChoice& choice, GpuGeneration generation, bool pxn) {
  const bool mixed = mixes_switches_and_network(choice.algorithm->family) && choice.protocol != Protocol::ideal;
  return {pxn, mixed ? in_switch_loss(generation) : InSwitchLoss{}};
}

HopCaps caps_of(const CommunicatorLayout& layout, const TuningChoice& choice, std::int32_t rings) {
  HopCaps caps{kUncapped, kUncapped, kUncapped};
  for (std::size_t hop = 0; hop < caps.size(); ++hop) {
    const double cap = wire_cap(layout, choice, rings, static_cast<Hop>(hop));
    if (std::isfinite(cap)) caps[hop] = rate_from(cap);
  }
  return caps;
}

// [edges] The lane of each: numbered in the order of their first edges.
std::vector<std::uint32_t> lanes_of(std::size_t edges, std::span<const std::uint32_t> alike) {
  std::vector<std::uint32_t> lane(edges);
  std::map<std::uint32_t, std::uint32_t> known;
  for (std::size_t e = 0; e < edges; ++e) {
    lane[e] = static_cast<std::uint32_t>(e);
    if (!alike.empty()) lane[e] = known.try_emplace(alike[e], static_cast<std::uint32_t>(known.size())).first->second;
  }
  return lane;
}

// The phase of an edge; edges are in the order of their phases.
std::ptrdiff_t phase_of(const Plan& plan, std::int32_t edge) {
  const auto after = std::upper_bound(plan.phases.begin(), plan.phases.end(), edge,
                                      [](std::int32_t e, const PlanPhase& phase) { return e < phase.first_edge; });
  return after - plan.phases.begin();
}

}  // namespace

MessageTables message_tables(const Machine& machine, const RoutedPlan& routed, std::span<const std::uint32_t> alike,
                             std::int64_t multiplicity) {
  const Plan& plan = routed.plan();
  const std::vector<std::uint32_t> lane_of = lanes_of(plan.edges.size(), alike);
  MessageTables tables;
  tables.multiplicity = multiplicity;
  std::vector<std::vector<std::int32_t>> edges;
  for (std::size_t e = 0; e < plan.edges.size(); ++e) {
    if (lane_of[e] == edges.size()) edges.emplace_back();
    edges[lane_of[e]].push_back(static_cast<std::int32_t>(e));
  }
  std::vector<std::vector<std::uint32_t>> dependents(edges.size());
  for (std::uint32_t lane = 0; lane < edges.size(); ++lane) {
    ORRERY_CHECK(phase_of(plan, edges[lane].front()) == phase_of(plan, edges[lane].back()), "a lane is in one phase",
                 lane);
    tables.model.push_back(edges[lane].front());
    tables.edges.items.insert(tables.edges.items.end(), edges[lane].begin(), edges[lane].end());
    tables.edges.end_row();
    // Edges that are alike wait for edges that are alike.
    std::vector<std::uint32_t> feeders;
    for (const std::int32_t feeder : plan.feeders_of(plan.edges[static_cast<std::size_t>(edges[lane].front())])) {
      feeders.push_back(lane_of[static_cast<std::size_t>(feeder)]);
    }
    std::sort(feeders.begin(), feeders.end());
    feeders.erase(std::unique(feeders.begin(), feeders.end()), feeders.end());
    for (const std::uint32_t feeder : feeders) dependents[feeder].push_back(lane);
    tables.feeders.items.insert(tables.feeders.items.end(), feeders.begin(), feeders.end());
    tables.feeders.end_row();
  }
  for (std::uint32_t lane = 0; lane < edges.size(); ++lane) {
    tables.dependents.items.insert(tables.dependents.items.end(), dependents[lane].begin(), dependents[lane].end());
    tables.dependents.end_row();
    if (plan.edges[static_cast<std::size_t>(tables.model[lane])].to_stride == 0) {
      const std::vector<Crossing> crossings = message_crossings(machine, routed, tables, lane, 0);
      tables.crossings.items.insert(tables.crossings.items.end(), crossings.begin(), crossings.end());
    }
    tables.crossings.end_row();
  }
  return tables;
}

std::vector<Crossing> message_crossings(const Machine& machine, const RoutedPlan& routed, const MessageTables& tables,
                                        std::size_t lane, std::int64_t r) {
  UseCounter counter;
  for (const std::int32_t e : tables.edges.of(lane)) {
    const PlanEdge& edge = routed.plan().edges[static_cast<std::size_t>(e)];
    routed.add_uses(edge, r, routed.path(edge, r), counter);
  }
  return crossings_of(machine, counter.take(), tables.multiplicity);
}

CommunicatorState::Routed& CommunicatorState::routed_of(const RoutedPlan* plan) {
  for (const std::unique_ptr<Routed>& each : routed) {
    if (each->plan.get() == plan) return *each;
  }
  ORRERY_CHECK(false, "a routed plan of this communicator");
  return *routed.front();
}

CommunicatorState& CommunicatorCache::find(std::span<const GpuId> members) {
  std::uint64_t hash = members.size();
  for (const GpuId gpu : members) hash = splitmix64(hash ^ static_cast<std::uint64_t>(gpu.value()));
  std::vector<std::size_t>& candidates = by_hash_[hash];
  for (const std::size_t i : candidates) {
    if (std::equal(members.begin(), members.end(), states_[i]->members.begin(), states_[i]->members.end())) {
      return *states_[i];
    }
  }
  candidates.push_back(states_.size());
  states_.push_back(std::make_unique<CommunicatorState>(hardware_.topology(), members));
  return *states_.back();
}

std::shared_ptr<const Plan> CommunicatorCache::plan_for(const CommunicatorLayout& layout,
                                                        const CollectiveAlgorithm& algorithm,
                                                        const CollectiveCall& call, std::int32_t rings) {
  const auto row = static_cast<std::int32_t>(&algorithm - collective_algorithm_rows().data());
  std::vector<std::int32_t> key{
      row, static_cast<std::int32_t>(call.op), rings, layout.members(), call.shares.value(), call.returns ? 1 : 0};
  key.insert(key.end(), layout.node_of.begin(), layout.node_of.end());
  for (std::int32_t ring = 0; ring < rings; ++ring) {
    const std::vector<std::int32_t>& order = layout.orders[static_cast<std::size_t>(ring)];
    key.insert(key.end(), order.begin(), order.end());
  }
  std::shared_ptr<const Plan>& plan = plans_[key];
  if (plan != nullptr) return plan;
  PlanInput input = plan_input(layout, call.op, rings);
  if (call.shares.valid()) {
    input.weights = shares_[call.shares.index()].weights;
    input.returns = call.returns;
    ORRERY_CHECK(call.op == CollectiveOp::all_to_all && input.weights.size() == layout.node_of.size(),
                 "shares are those of an all-to-all of so many members", input.weights.size(), layout.members());
  }
  plan = std::make_shared<const Plan>(algorithm.plan(input));
  return plan;
}

const RoutedPlan& CommunicatorCache::route(CommunicatorState& communicator, const TuningChoice& choice,
                                           const CollectiveCall& call, std::int32_t rings) {
  const CollectiveAlgorithm& algorithm = *choice.algorithm;
  const RoutingRules rules = rules_of(choice, communicator.layout.generation, request_.pxn);
  for (const auto& each : communicator.routed) {
    if (each->op == call.op && each->algorithm == &algorithm && each->rings == rings && each->shares == call.shares &&
        each->returns == call.returns && each->plan->unit() == rules.loss.kept) {
      return *each->plan;
    }
  }
  auto fresh = std::make_unique<CommunicatorState::Routed>();
  fresh->op = call.op;
  fresh->shares = call.shares;
  fresh->returns = call.returns;
  fresh->algorithm = &algorithm;
  fresh->rings = rings;
  fresh->plan = std::make_unique<RoutedPlan>(hardware_, communicator.members, communicator.layout, algorithm,
                                             plan_for(communicator.layout, algorithm, call, rings), rules);
  communicator.routed.push_back(std::move(fresh));
  return *communicator.routed.back()->plan;
}

void CommunicatorCache::note_substitution(const CommunicatorLayout& layout, CollectiveOp op,
                                          const TuningChoice& choice) {
  const auto note = [this](std::string line) {
    if (std::find(substitutions_.begin(), substitutions_.end(), line) == substitutions_.end()) {
      substitutions_.push_back(std::move(line));
    }
  };
  const CollectiveAlgorithm* asked = find_collective_algorithm(request_.algorithm);
  if (asked != nullptr && asked != choice.algorithm && !possible(layout, *asked, op)) {
    const std::string why = asked->has(op) ? fmt::format("without {}", asked->need.words) : "at all";
    note(fmt::format("collectives.algorithm {} cannot do {} {}: it runs as {}", asked->name, name_of(op), why,
                     choice.algorithm->name));
  }
  const bool may_reduce = op == CollectiveOp::all_reduce && layout.nodes > 1;
  if (request_.sharp && asked == nullptr && may_reduce && !layout.network_reduces) {
    note(
        "collectives.sharp is without effect: the switches of this fabric do not reduce (in_network_reduction of its "
        "link)");
  }
  if (find_protocol(request_.protocol) >= 0 && request_.protocol != row_of(choice.protocol).name) {
    note(fmt::format("collectives.protocol {} is not there for {}: {} runs as {}", request_.protocol,
                     choice.algorithm->name, name_of(op), row_of(choice.protocol).name));
  }
}

CollectiveInstance CommunicatorCache::make_instance(CommunicatorState& communicator, const CollectiveCall& of) {
  const CollectiveOp op = of.op;
  const Bytes bytes = of.bytes;
  const CommunicatorLayout& layout = communicator.layout;
  CollectiveInstance instance;
  instance.choice = choose(layout, op, bytes, request_);
  note_substitution(layout, op, instance.choice);
  const CollectiveAlgorithm& algorithm = *instance.choice.algorithm;
  const std::int32_t rings = rings_for(layout, instance.choice);
  instance.routed = &route(communicator, instance.choice, of, rings);
  instance.base = base_latency(algorithm.family, instance.choice.protocol) + extra_base_;
  const HopCaps caps = caps_of(layout, instance.choice, rings);

  const Plan& plan = instance.routed->plan();
  const ChunkRule chunks = chunks_for(layout, instance.choice, request_.buffer);
  const std::vector<Duration> latencies = instance.routed->latencies(instance.choice.protocol);
  for (std::size_t i = 0; i < plan.phases.size(); ++i) {
    const PlanPhase& phase = plan.phases[i];
    PhaseCall call;
    call.size = size_of(phase, bytes, chunks);
    call.message = Bytes(
        divide_up(on_the_wire(instance.choice, layout.generation, call.size.payload).count(), instance.routed->unit()));
    // Where receivers change, the crossings are those of all messages and each is one unit of the activity.
    const bool changing = plan.edges[static_cast<std::size_t>(phase.first_edge)].to_stride != 0;
    call.work = changing ? call.message : call.message * call.size.repetitions;
    call.chain = instance.routed->chain(i, latencies, call.size, call.message, caps);
    instance.phases.push_back(call);
  }
  instance.totals = totals_of(plan, bytes, chunks);
  for (std::size_t edge = 0; edge < plan.edges.size(); ++edge) {
    const Rate cap = caps[static_cast<std::size_t>(instance.routed->hop(edge))];
    instance.cap = std::min(instance.cap, cap);
    if (keep_latencies_) instance.caps.push_back(cap);
  }
  // The heaviest message makes so many units of progress at a time.
  const std::int64_t heaviest = std::max<std::int64_t>(1, plan.heaviest());
  if (heaviest > 1 && instance.cap < kUncapped) {
    instance.cap = std::max(Rate(1), Rate(instance.cap.count() / heaviest));
  }
  instance.unnoticed = true;
  instance.alone = instance.base;
  for (std::size_t i = 0; i < instance.phases.size(); ++i) {
    const PhaseCall& call = instance.phases[i];
    const Rate rate = std::min(instance.cap, instance.routed->phase(i).alone);
    instance.alone += call.chain + time_for(ticks_from_units(call.work.count()), rate);
    instance.unnoticed =
        instance.unnoticed && call.message * (call.size.repetitions * heaviest * instance.routed->unit()) <= kUnnoticed;
  }
  if (keep_latencies_) instance.latencies = latencies;
  return instance;
}

const CollectiveInstance& CommunicatorCache::instance(CommunicatorState& communicator, const CollectiveCall& call) {
  const std::tuple key{call.op, call.bytes.count(), call.shares, call.returns};
  const auto found = communicator.instances.find(key);
  if (found != communicator.instances.end()) return found->second;
  return communicator.instances.emplace(key, make_instance(communicator, call)).first->second;
}

const PhaseCrossings& CommunicatorCache::crossings(const Machine& machine, CommunicatorState& communicator,
                                                   const RoutedPlan* plan, std::int64_t multiplicity) {
  CommunicatorState::Routed& routed = communicator.routed_of(plan);
  const auto [where, fresh] = routed.crossings.try_emplace(multiplicity);
  if (fresh) {
    for (std::size_t i = 0; i < plan->plan().phases.size(); ++i) {
      where->second.push_back(crossings_of(machine, plan->phase(i).uses, multiplicity));
    }
  }
  return where->second;
}

const MessageTables& CommunicatorCache::messages(const Machine& machine, CommunicatorState& communicator,
                                                 const RoutedPlan* plan, std::int64_t multiplicity) {
  CommunicatorState::Routed& routed = communicator.routed_of(plan);
  const auto found = routed.messages.find(multiplicity);
  if (found != routed.messages.end()) return found->second;
  return routed.messages.emplace(multiplicity, message_tables(machine, *plan, routed.alike, multiplicity))
      .first->second;
}

}  // namespace orrery
