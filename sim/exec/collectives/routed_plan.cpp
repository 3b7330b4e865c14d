#include "sim/exec/collectives/routed_plan.hpp"

#include <algorithm>
#include <functional>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/exec/collectives/network_paths.hpp"

namespace orrery {

namespace {

// Links before memories, by number.
std::uint64_t place_of(const RawUse& use) {
  return std::uint64_t{use.memory} << 32 | static_cast<std::uint32_t>(use.id);
}

constexpr auto kComesBefore = [](const RawUse& a, const RawUse& b) { return place_of(a) < place_of(b); };

std::int64_t capacity_of(const Hardware& hardware, const RawUse& use) {
  return rate_from(use.memory ? hardware.memory_bandwidth(GpuId(use.id)) : hardware.link_bandwidth(LinkId(use.id)))
      .count();
}

}  // namespace

void UseCounter::compact() {
  std::sort(uses_.begin(), uses_.end(), kComesBefore);
  std::size_t kept = 0;
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    if (kept > 0 && place_of(uses_[kept - 1]) == place_of(uses_[i])) {
      uses_[kept - 1].count += uses_[i].count;
    } else {
      uses_[kept++] = uses_[i];
    }
  }
  uses_.resize(kept);
  compact_at_ = std::max(kCompactFrom, 2 * kept);
}

std::vector<RawUse> UseCounter::take() {
  compact();
  return std::exchange(uses_, {});
}

void UseCounter::take_into(std::vector<RawUse>& uses) {
  compact();
  uses.insert(uses.end(), uses_.begin(), uses_.end());
  uses_.clear();
}

std::vector<Crossing> crossings_of(const Machine& machine, std::span<const RawUse> uses, std::int64_t multiplicity) {
  // Links of one class share a resource: their uses add up, and are spread over the links of the class.
  struct Sum {
    ResourceId resource;
    std::int64_t count = 0;
    std::int64_t shared_by = 1;
  };
  std::vector<Sum> sums;
  sums.reserve(uses.size());
  for (const RawUse& use : uses) {
    if (use.memory) {
      sums.push_back({machine.memory(GpuId(use.id)), use.count, machine.memories_in_class(GpuId(use.id))});
    } else {
      sums.push_back({machine.link(LinkId(use.id)), use.count, machine.links_in_class(LinkId(use.id))});
    }
  }
  std::sort(sums.begin(), sums.end(), [](const Sum& a, const Sum& b) { return a.resource < b.resource; });
  std::vector<Crossing> crossings;
  for (std::size_t i = 0; i < sums.size();) {
    std::int64_t count = 0;
    const Sum& first = sums[i];
    for (; i < sums.size() && sums[i].resource == first.resource; ++i) count += sums[i].count;
    count *= multiplicity;
    ORRERY_CHECK(count % first.shared_by == 0, "links of one class are crossed alike", count, first.shared_by);
    count /= first.shared_by;
    crossings.push_back({first.resource, count});
  }
  return crossings;
}

EdgePath path_between(const Topology& topology, GpuId from, GpuId to, const RouteOptions& options) {
  Route route = topology.route(from, to, options);
  EdgePath path{std::move(route.links), route.latency, Hop::nvlink};
  if (topology.node_of(from) != topology.node_of(to)) {
    path.hop = Hop::network;
  } else if (std::any_of(path.links.begin(), path.links.end(),
                         [&](LinkId link) { return topology.link(link).kind != LinkKind::nvlink; })) {
    path.hop = Hop::pcie;
  }
  return path;
}

int nic_towards(const Topology& topology, GpuId from, GpuId to) {
  const NodeId node = topology.node_of(from);
  const int place = topology.local_index(to);
  const NodeSpec& spec = topology.node_spec(node);
  if (node == topology.node_of(to) || spec.wiring == GpuWiring::none || place >= spec.gpus) return -1;
  const GpuId relay = topology.gpu(node, place);
  const Route handed = topology.route(from, relay);
  const bool direct = handed.links.size() <= (spec.wiring == GpuWiring::mesh ? 1 : 2);
  const bool nvlink = std::all_of(handed.links.begin(), handed.links.end(),
                                  [&](LinkId link) { return topology.link(link).kind == LinkKind::nvlink; });
  return direct && nvlink ? topology.nearest_nic(relay) : -1;
}

void EdgeLatency::add(const EdgePath& path) {
  Duration& most = by_hop[static_cast<std::size_t>(path.hop)];
  most = std::max(most, path.latency);
}

RoutedPlan::RoutedPlan(const Hardware& hardware, std::span<const GpuId> members, const CommunicatorLayout& layout,
                       const CollectiveAlgorithm& algorithm, std::shared_ptr<const Plan> plan,
                       const RoutingRules& rules)
    : topology_(hardware.topology()),
      members_(members),
      layout_(layout),
      algorithm_(&algorithm),
      plan_(std::move(plan)),
      rules_(rules),
      edge_latency_(plan_->edges.size()) {
  if (algorithm.nics == NicChoice::of_member) {
    own_nics_ = nics_of_members(layout);
  }
  if (algorithm.uses_network_switches) find_network_paths();
  for (const PlanPhase& phase : plan_->phases) route_phase(hardware, phase);
}

void RoutedPlan::route_phase(const Hardware& hardware, const PlanPhase& phase) {
  UseCounter counter;
  UseCounter of_edge;
  EdgeUses edges;
  for (std::int32_t i = 0; i < phase.edge_count; ++i) {
    const auto index = static_cast<std::size_t>(phase.first_edge + i);
    const PlanEdge& edge = plan_->edges[index];
    const bool changing = edge.to_stride != 0;
    for (std::int64_t r = 0; r < (changing ? edge.length : 1); ++r) {
      const EdgePath travelled = path(edge, r);
      edge_latency_[index].add(travelled);
      add_uses(edge, r, travelled, changing ? counter : of_edge, plan_->weight(edge, r));
    }
    const std::size_t begin = edges.all.size();
    of_edge.take_into(edges.all);
    for (std::size_t u = begin; u < edges.all.size(); ++u) counter.add(edges.all[u]);
    edges.end.push_back(edges.all.size());
  }
  RoutedPhase routed{counter.take(), kMaxRate};
  std::vector<std::int64_t> capacities;
  capacities.reserve(routed.uses.size());
  for (const RawUse& use : routed.uses) {
    capacities.push_back(capacity_of(hardware, use));
    routed.alone = std::min(routed.alone, Rate(capacities.back() / use.count));
  }
  set_edge_rates(routed, capacities, edges);
  phases_.push_back(std::move(routed));
}

// `capacities`: of what the phase uses.
void RoutedPlan::set_edge_rates(const RoutedPhase& routed, std::span<const std::int64_t> capacities,
                                const EdgeUses& edges) {
  std::size_t u = 0;
  for (const std::size_t end : edges.end) {
    // Where receivers change, no edge has a rate of its own.
    const bool changing = u == end;
    Rate rate = changing ? routed.alone : kMaxRate;
    Rate alone = rate;
    for (; u < end; ++u) {
      const RawUse& use = edges.all[u];
      const auto at = static_cast<std::size_t>(
          std::lower_bound(routed.uses.begin(), routed.uses.end(), use, kComesBefore) - routed.uses.begin());
      rate = std::min(rate, Rate(capacities[at] / routed.uses[at].count));
      alone = std::min(alone, Rate(capacities[at] / use.count));
    }
    edge_rate_.push_back(rate);
    edge_alone_.push_back(alone);
  }
}

EdgePath RoutedPlan::path(const PlanEdge& edge, std::int64_t r) const {
  const std::int32_t target = plan_->receiver(edge, r);
  if (target == kSwitch) return switch_path(edge.from, true);
  if (edge.from == kSwitch) return switch_path(target, false);
  if (target == kNetwork || edge.from == kNetwork) return network_path(edge);
  return path_between(topology_, members_[static_cast<std::size_t>(edge.from)],
                      members_[static_cast<std::size_t>(target)], nics_of(edge, target));
}

RouteOptions RoutedPlan::nics_of(const PlanEdge& edge, std::int32_t to) const {
  RouteOptions options;
  options.flow_label = static_cast<std::uint64_t>(edge.channel);
  const auto sender = static_cast<std::size_t>(edge.from);
  const auto receiver = static_cast<std::size_t>(to);
  const auto from_node = static_cast<std::size_t>(layout_.node_of[sender]);
  const auto to_node = static_cast<std::size_t>(layout_.node_of[receiver]);
  if (from_node == to_node) return options;
  if (algorithm_->nics == NicChoice::of_ring) {
    const std::vector<std::int32_t>& nics = layout_.nics[static_cast<std::size_t>(edge.channel)];
    options.from_nic = nics[from_node];
    options.to_nic = nics[to_node];
  } else if (algorithm_->nics == NicChoice::of_member && edge.to_stride == 0) {
    const auto turn = [&](const std::vector<std::int32_t>& nics) {
      return nics.empty() ? -1 : nics[static_cast<std::size_t>(edge.channel) % nics.size()];
    };
    options.from_nic = turn(own_nics_[sender]);
    options.to_nic = turn(own_nics_[receiver]);
  } else if (rules_.pxn) {
    options.from_nic = nic_towards(topology_, members_[sender], members_[receiver]);
  }
  return options;
}

// Half of the way to any other GPU of the node.
EdgePath RoutedPlan::switch_path(std::int32_t member, bool into) const {
  const GpuId gpu = members_[static_cast<std::size_t>(member)];
  const GpuId other = topology_.gpu(topology_.node_of(gpu), topology_.local_index(gpu) == 0 ? 1 : 0);
  const Route route = into ? topology_.route(gpu, other) : topology_.route(other, gpu);
  const LinkId link = into ? route.links.front() : route.links.back();
  return {{link}, topology_.link(link).latency, Hop::nvlink};
}

EdgePath RoutedPlan::network_path(const PlanEdge& edge) const {
  const bool into = edge.from >= 0;
  const auto node = static_cast<std::size_t>(layout_.node_of[static_cast<std::size_t>(into ? edge.from : edge.to)]);
  const EdgePath& up = into_network_[static_cast<std::size_t>(edge.channel)][node];
  if (into) return up;
  EdgePath down{{}, Duration::zero(), Hop::network};
  for (auto link = up.links.rbegin(); link != up.links.rend(); ++link) {
    down.links.push_back(Topology::reverse(*link));
    down.latency += topology_.link(down.links.back()).latency;
  }
  return down;
}

void RoutedPlan::find_network_paths() {
  for (std::size_t channel = 0; channel < static_cast<std::size_t>(plan_->channels); ++channel) {
    into_network_.push_back(paths_into_network(topology_, members_, layout_, channel));
  }
}

void RoutedPlan::add_uses(const PlanEdge& edge, std::int64_t r, const EdgePath& travelled, UseCounter& counter,
                          std::int64_t times) const {
  if (times == 0) return;
  const std::int32_t to = plan_->receiver(edge, r);
  const bool in_switch = edge.from == kSwitch || to == kSwitch;
  const std::int64_t crossings = times * (in_switch ? rules_.loss.taken : rules_.loss.kept);
  for (const LinkId link : travelled.links) counter.add_link(link, crossings);
  MemoryUse memory = kForwarded;
  if (edge.to_stride != 0) memory = kPointToPoint;
  if (edge.from < 0 || to < 0) memory = kInSwitch;
  const std::int64_t touches = times * rules_.loss.kept;
  if (edge.from >= 0) counter.add_memory(members_[static_cast<std::size_t>(edge.from)], memory.source * touches);
  if (to >= 0) counter.add_memory(members_[static_cast<std::size_t>(to)], memory.target * touches);
}

Hop RoutedPlan::hop(std::size_t edge) const {
  for (const Hop hop : {Hop::network, Hop::pcie}) {
    if (edge_latency_[edge].by_hop[static_cast<std::size_t>(hop)] >= Duration::zero()) return hop;
  }
  return Hop::nvlink;
}

std::vector<Duration> RoutedPlan::latencies(Protocol protocol) const {
  std::vector<Duration> result(edge_latency_.size());
  for (std::size_t i = 0; i < result.size(); ++i) {
    for (std::size_t hop = 0; hop < 3; ++hop) {
      const Duration wire = edge_latency_[i].by_hop[hop];
      if (wire < Duration::zero()) continue;
      const Duration software = software_latency(algorithm_->family, protocol, static_cast<Hop>(hop));
      result[i] = std::max(result[i], wire + software);
    }
  }
  return result;
}

RoutedPlan::Steps RoutedPlan::steps_of(std::size_t phase, std::span<const Duration> latencies, Bytes message,
                                       const HopCaps& caps) const {
  const PlanPhase& planned = plan_->phases[phase];
  const std::int64_t depth = planned.depth;
  Steps steps;
  for (std::int32_t i = 0; i < planned.edge_count; ++i) {
    const auto index = static_cast<std::size_t>(planned.first_edge + i);
    const Rate cap = caps[static_cast<std::size_t>(hop(index))];
    const Duration bytes = time_for(ticks_from_units(message.count()), std::min(edge_rate_[index], cap));
    Duration first = bytes;
    if (planned.chain == Chain::draining && depth > 1) {
      const auto early = static_cast<Int128>(edge_rate_[index].count()) * depth;
      const Rate most = std::min(edge_alone_[index], cap);
      const Rate rate = early < most.count() ? Rate(static_cast<std::int64_t>(early)) : most;
      first = time_for(ticks_from_units(message.count()), rate);
    }
    steps.each.push_back(latencies[index] + first);
    steps.slowest = std::max(steps.slowest, bytes);
    steps.latency_most = std::max(steps.latency_most, latencies[index]);
  }
  return steps;
}

Duration RoutedPlan::rotating_chain(const PlanPhase& phase, const Steps& steps, std::int64_t repetitions) const {
  Duration longest{};
  std::vector<Duration> around;
  for (std::int32_t i = 0; i < phase.edge_count;) {
    // Edges of one cycle follow one another, up to that which ends where the first begins.
    const std::int32_t start = plan_->edges[static_cast<std::size_t>(phase.first_edge + i)].from;
    around.clear();
    Duration turn{};
    for (bool closed = false; !closed && i < phase.edge_count; ++i) {
      around.push_back(steps.each[static_cast<std::size_t>(i)]);
      turn += around.back();
      closed = plan_->edges[static_cast<std::size_t>(phase.first_edge + i)].to == start;
    }
    const auto n = static_cast<std::int64_t>(around.size());
    std::sort(around.begin(), around.end(), std::greater<>());
    Duration total = turn * (repetitions / n);
    for (std::int64_t k = 0; k < repetitions % n; ++k) total += around[static_cast<std::size_t>(k)];
    longest = std::max(longest, total);
  }
  return std::max(longest - steps.slowest * repetitions, steps.latency_most);
}

Duration RoutedPlan::draining_chain(const PlanPhase& phase, const Steps& steps) const {
  std::vector<Duration> until(static_cast<std::size_t>(phase.edge_count));
  Duration longest{};
  for (std::int32_t i = 0; i < phase.edge_count; ++i) {
    const auto local = static_cast<std::size_t>(i);
    Duration start{};
    for (const std::int32_t feeder : plan_->feeders_of(plan_->edges[static_cast<std::size_t>(phase.first_edge + i)])) {
      if (feeder >= phase.first_edge) {
        start = std::max(start, until[static_cast<std::size_t>(feeder - phase.first_edge)]);
      }
    }
    until[local] = start + steps.each[local];
    longest = std::max(longest, until[local]);
  }
  return std::max(longest - steps.slowest, steps.latency_most);
}

Duration RoutedPlan::chain(std::size_t phase, std::span<const Duration> latencies, const PhaseSize& size, Bytes message,
                           const HopCaps& caps) const {
  const PlanPhase& planned = plan_->phases[phase];
  const Steps steps = steps_of(phase, latencies, message, caps);
  // Messages that wait for nobody: the last one's latency.
  if (plan_->edges[static_cast<std::size_t>(planned.first_edge)].to_stride != 0) return steps.latency_most;
  return planned.chain == Chain::rotating ? rotating_chain(planned, steps, size.repetitions)
                                          : draining_chain(planned, steps);
}

}  // namespace orrery
