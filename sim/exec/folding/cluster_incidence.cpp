#include "sim/exec/folding/cluster_incidence.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <initializer_list>
#include <limits>
#include <map>
#include <tuple>
#include <unordered_map>

#include "sim/base/check.hpp"
#include "sim/base/random.hpp"
#include "sim/exec/collectives/transfer_route.hpp"
#include "sim/exec/copy_route.hpp"
#include "sim/exec/executor/peer_groups.hpp"

namespace orrery {

namespace {

using Description = std::vector<std::int64_t>;

struct DescriptionHash {
  std::size_t operator()(const Description& description) const {
    std::uint64_t hash = description.size();
    for (const std::int64_t each : description) hash = splitmix64(hash ^ static_cast<std::uint64_t>(each));
    return hash;
  }
};

// What a description is of.
enum class About : std::uint8_t {
  // Colours.
  rank,
  communicator,
  channel,
  link,
  edge,
  message,
  // Labels.
  member,
  crossing,
  copying,
  peer,
  part,
  number,
  waiting,
  waited_for,
  count,
};

// Numbers for descriptions: equal descriptions have equal numbers.
class Names {
 public:
  std::uint32_t of(About about, std::span<const std::int64_t> rest) {
    key_.assign(1, static_cast<std::int64_t>(about));
    key_.insert(key_.end(), rest.begin(), rest.end());
    return numbers_.try_emplace(key_, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

 private:
  Description key_;
  std::unordered_map<Description, std::uint32_t, DescriptionHash> numbers_;  // looked up only, never walked through
};

std::int64_t bits(double value) { return std::bit_cast<std::int64_t>(value); }

// A plan of a communicator with the calls that use it.
struct UsedPlan {
  const RoutedPlan* plan = nullptr;
  std::vector<const CollectiveInstance*> instances;
};

class Builder {
  using enum FoldingRule;

 public:
  explicit Builder(const FoldingInput& input)
      : input_(input),
        topology_(input.hardware.topology()),
        incidence_(result_.incidence),
        rank_on_(static_cast<std::size_t>(topology_.gpus()), ClusterIncidence::kNone) {
    result_.element_of_link.assign(static_cast<std::size_t>(topology_.links()), ClusterIncidence::kNone);
    for (int link = 0; link < topology_.links(); ++link) decides_.push_back(input.hardware.may_decide(LinkId(link)));
    transfer_ranks_ = transfer_communicator_sizes(input.workload);
    find_calls();
  }

  ClusterIncidence run() && {
    const Workload& workload = input_.workload;
    for (std::size_t r = 0; r < workload.ranks(); ++r) add_rank(r);
    result_.first_communicator = static_cast<std::uint32_t>(incidence_.elements());
    for (std::size_t c = 0; c < workload.communicators.size(); ++c) add_communicator(c);
    result_.first_channel = static_cast<std::uint32_t>(incidence_.elements());
    add_channels();
    for (std::size_t r = 0; r < workload.ranks(); ++r) join_copies(r);
    for (std::size_t c = 0; c < workload.communicators.size(); ++c) join_communicator(c);
    join_channels();
    return std::move(result_);
  }

 private:
  [[nodiscard]] bool broken(FoldingRule rule) const { return input_.broken == rule; }

  // An entry of a colour or a label: says nothing where its rule is broken.
  [[nodiscard]] std::int64_t told(FoldingRule rule, std::int64_t value) const { return broken(rule) ? 0 : value; }

  std::uint32_t add_element(About about, std::span<const std::int64_t> colour) {
    return incidence_.add_element(names_.of(about, colour));
  }
  std::uint32_t add_element(About about, std::initializer_list<std::int64_t> colour) {
    return add_element(about, std::span(colour.begin(), colour.size()));
  }

  void join(std::uint32_t a, std::uint32_t b, About about, std::span<const std::int64_t> label) {
    incidence_.add(a, b, names_.of(about, label));
  }
  void join(std::uint32_t a, std::uint32_t b, About about, std::initializer_list<std::int64_t> label) {
    join(a, b, about, std::span(label.begin(), label.size()));
  }

  // [roles][group kinds] the distinct calls, in order; [roles] the directions of copies, then those
  // of offloaded state.
  void find_calls() {
    const Workload& workload = input_.workload;
    for (const Program& program : workload.programs) {
      auto& calls = calls_.emplace_back(workload.group_kinds.size());
      auto& copies = copies_.emplace_back(2 * kCopyDirections.size(), false);
      for (const Task& task : program.tasks()) {
        if (task.kind == TaskKind::collective) {
          const CollectiveCall& call = program.collective(task);
          auto& known = calls[call.group.index()];
          if (std::find(known.begin(), known.end(), call) == known.end()) known.push_back(call);
        } else if (task.kind == TaskKind::copy) {
          const CopyCall& call = program.copy(task);
          copies[static_cast<std::size_t>(call.direction) + (call.offload ? kCopyDirections.size() : 0)] = true;
        }
      }
    }
  }

  [[nodiscard]] std::span<const CollectiveCall> calls_on(const Communicator& communicator) const {
    const RoleId role = input_.workload.role_of[communicator.ranks.front().index()];
    return calls_[role.index()][communicator.kind.index()];
  }

  // The routes of a rank's copies, with a number for each sort.
  template <class Use>
  void for_each_copy(std::size_t rank, Use&& use) const {
    const std::vector<bool>& copies = copies_[input_.workload.role_of[rank].index()];
    for (std::size_t sort = 0; sort < copies.size(); ++sort) {
      if (!copies[sort]) continue;
      const bool offload = sort >= kCopyDirections.size();
      const CopyDirection direction = kCopyDirections[sort % kCopyDirections.size()];
      use(static_cast<std::int64_t>(sort), copy_route(topology_, input_.gpu_of[rank], direction, offload));
    }
  }

  void add_rank(std::size_t rank) {
    const GpuId gpu = input_.gpu_of[rank];
    rank_on_[gpu.index()] = static_cast<std::uint32_t>(rank);
    const GpuSpec* spec = &topology_.gpu_spec(gpu);
    auto kind = std::find_if(kinds_.begin(), kinds_.end(),
                             [spec](const GpuSpec* known) { return known == spec || *known == *spec; });
    if (kind == kinds_.end()) kind = kinds_.insert(kind, spec);
    Description colour{told(rank_role, input_.workload.role_of[rank].value()), told(rank_gpu, kind - kinds_.begin()),
                       told(rank_slowdown, bits(input_.hardware.gpu_factor(gpu))),
                       told(rank_noise, input_.ranks_differ ? static_cast<std::int64_t>(rank) : -1)};
    for (const auto& sizes : transfer_ranks_) colour.push_back(told(rank_transfer_ranks, sizes[rank]));
    for_each_copy(rank, [&](std::int64_t /*sort*/, const Route& route) {
      colour.push_back(told(rank_copy_latency, route.latency.count()));
    });
    add_element(About::rank, colour);
  }

  std::vector<GpuId> gpus_of(const Communicator& communicator) const {
    std::vector<GpuId> gpus;
    gpus.reserve(communicator.ranks.size());
    for (const RankId rank : communicator.ranks) gpus.push_back(input_.gpu_of[rank.index()]);
    return gpus;
  }

  // The plans that the calls on a communicator use, each once, in the order of the calls. Appends to `colour` what of
  // the calls does not depend on where they are.
  std::vector<UsedPlan> plans_of(const Communicator& communicator, CommunicatorState& state, Description& colour) {
    std::vector<UsedPlan> plans;
    for (const CollectiveCall& call : calls_on(communicator)) {
      if (call.bytes.count() == 0) continue;
      const CollectiveInstance& instance = input_.communicators.instance(state, call);
      auto found =
          std::find_if(plans.begin(), plans.end(), [&](const UsedPlan& each) { return each.plan == instance.routed; });
      if (found == plans.end()) found = plans.insert(found, UsedPlan{instance.routed, {}});
      found->instances.push_back(&instance);
      colour.push_back(found - plans.begin());
      describe(instance, colour);
    }
    return plans;
  }

  void add_communicator(std::size_t c) {
    const Communicator& communicator = input_.workload.communicators[c];
    // How many members it has is seen in its neighbourhoods with them.
    Description colour{told(communicator_kind, communicator.kind.value())};
    auto& plans = plans_.emplace_back();
    states_.push_back(nullptr);
    if (communicator.ranks.size() > 1) {
      states_.back() = &input_.communicators.find(gpus_of(communicator));
      plans = plans_of(communicator, *states_.back(), colour);
    }
    add_element(About::communicator, colour);
  }

  void describe(const CollectiveInstance& instance, Description& colour) const {
    colour.insert(colour.end(),
                  {told(call_channels, instance.choice.channels), told(call_totals, instance.totals.messages),
                   told(call_totals, instance.totals.bytes)});
    if (input_.fidelity == TrafficFidelity::message) {
      // Its phases are their edges' business, but for the latency that records show.
      Duration chains{};
      for (const PhaseCall& phase : instance.phases) chains += phase.chain;
      colour.insert(colour.end(), {told(call_latency, instance.base.count()), told(call_latency, chains.count())});
      return;
    }
    // Prefix-free: how many phases, and of which sort, comes first.
    const auto phases = static_cast<std::int64_t>(instance.phases.size());
    colour.push_back(instance.unnoticed ? -phases : phases);
    if (instance.unnoticed) {
      colour.push_back(told(call_alone, instance.alone.count()));
    } else {
      colour.push_back(told(call_cap, instance.cap.count()));
    }
    Duration wait = instance.base;
    for (const PhaseCall& phase : instance.phases) {
      wait += phase.chain;
      if (!instance.unnoticed) colour.push_back(told(call_latency, wait.count()));
      colour.push_back(told(phase_work, phase.work.count()));  // unnoticed bytes are counted too
      wait = Duration{};
    }
  }

  void add_channels() {
    auto& channels = result_.channels;
    for (const PeerKind& kind : input_.workload.peer_kinds) {
      for (std::size_t rank = 0; rank < kind.of.size(); ++rank) {
        if (!kind.of[rank].valid()) continue;
        channels.emplace_back(RankId(rank), kind.of[rank]);
        channels.emplace_back(kind.of[rank], RankId(rank));
      }
    }
    std::sort(channels.begin(), channels.end());
    channels.erase(std::unique(channels.begin(), channels.end()), channels.end());
    for (const auto& [sender, receiver] : channels) {
      routes_.push_back(transfer_route(topology_, input_.gpu_of[sender.index()], input_.gpu_of[receiver.index()],
                                       input_.communicators.request().pxn));
      const EdgePath& path = routes_.back().path;
      double slowest =
          std::numeric_limits<double>::infinity();  // nominal: it decides on how many blocks a transfer runs
      for (const LinkId link : path.links) slowest = std::min(slowest, topology_.link(link).bandwidth.count());
      // The kind of hop is that of the links.
      add_element(About::channel,
                  {told(channel_latency, path.latency.count()), told(channel_bandwidth, bits(slowest))});
    }
  }

  std::uint32_t link_element(LinkId link) {
    std::uint32_t& element = result_.element_of_link[link.index()];
    if (element == ClusterIncidence::kNone) {
      element = add_element(About::link, {told(link_kind, static_cast<std::int64_t>(topology_.link(link).kind)),
                                          told(link_bandwidth, bits(input_.hardware.link_bandwidth(link).count()))});
    }
    return element;
  }

  // Links that never decide a rate tell nobody apart.
  [[nodiscard]] bool matters(const RawUse& use) const {
    return use.memory || decides_[static_cast<std::size_t>(use.id)];
  }

  // The element of what is used: a link, or a rank for its memory.
  std::uint32_t element_of(const RawUse& use) {
    return use.memory ? rank_on_[static_cast<std::size_t>(use.id)] : link_element(LinkId(use.id));
  }

  // Links that tell nobody apart are counted all the same: how often, by kind and bandwidth. `all`: every link.
  void count_links(std::uint32_t element, std::int64_t phase, std::span<const RawUse> uses, bool all) {
    std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> counts;
    for (const RawUse& use : uses) {
      if (use.memory || (!all && matters(use))) continue;
      const LinkId link(use.id);
      const auto kind = static_cast<std::int64_t>(topology_.link(link).kind);
      const std::int64_t bandwidth = all ? 0 : bits(input_.hardware.link_bandwidth(link).count());
      counts[{told(count_kind, kind), told(count_bandwidth, bandwidth)}] += use.count;
    }
    if (counts.empty()) return;
    Description label{told(count_phase, phase), all ? 1 : 0};
    for (const auto& [what, count] : counts) {
      label.insert(label.end(), {what.first, what.second, told(count_uses, count)});
    }
    join(element, element, About::count, label);
  }

  void join_uses(std::uint32_t element, std::span<const RawUse> uses) {
    count_links(element, 0, uses, false);
    for (const RawUse& use : uses) {
      if (!matters(use)) continue;
      if (broken(use.memory ? memory : crossing)) continue;
      join(element, element_of(use), About::crossing, {told(crossing_count, use.count)});
    }
  }

  void join_copies(std::size_t rank) {
    for_each_copy(rank, [&](std::int64_t sort, const Route& route) {
      for (const LinkId link : route.links) {
        const std::uint32_t element = link_element(link);
        if (broken(copying)) continue;
        join(static_cast<std::uint32_t>(rank), element, About::copying, {told(copying_direction, sort)});
      }
    });
  }

  void join_communicator(std::size_t c) {
    const Communicator& communicator = input_.workload.communicators[c];
    const auto element = static_cast<std::uint32_t>(result_.first_communicator + c);
    for (const RankId rank : communicator.ranks) {
      if (!broken(member)) join(element, static_cast<std::uint32_t>(rank.index()), About::member, {});
    }
    if (input_.fidelity == TrafficFidelity::message) {
      for (std::size_t p = 0; p < plans_[c].size(); ++p) join_edges(c, p);
    } else {
      join_phases(element, plans_[c]);
    }
  }

  // Coupled: a phase is one activity.
  void join_phases(std::uint32_t element, std::span<const UsedPlan> plans) {
    struct Use {
      std::uint32_t element = 0;
      std::int64_t phase = 0;  // counted through the plans
      std::int64_t count = 0;
    };
    std::vector<Use> uses;
    std::int64_t phase = 0;
    for (const UsedPlan& used : plans) {
      const bool unnoticed = std::any_of(used.instances.begin(), used.instances.end(),
                                         [](const CollectiveInstance* instance) { return instance->unnoticed; });
      for (std::size_t i = 0; unnoticed && i < used.plan->plan().phases.size(); ++i) {
        count_links(element, phase + static_cast<std::int64_t>(i), used.plan->phase(i).uses, true);
      }
      const bool noticed = std::any_of(used.instances.begin(), used.instances.end(),
                                       [](const CollectiveInstance* instance) { return !instance->unnoticed; });
      if (!noticed) {
        phase += static_cast<std::int64_t>(used.plan->plan().phases.size());
        continue;
      }
      for (std::size_t i = 0; i < used.plan->plan().phases.size(); ++i, ++phase) {
        count_links(element, phase, used.plan->phase(i).uses, false);
        for (const RawUse& use : used.plan->phase(i).uses) {
          if (!matters(use)) continue;
          const std::uint32_t crossed = element_of(use);
          if (!broken(use.memory ? memory : crossing)) uses.push_back({crossed, phase, use.count});
        }
      }
    }
    std::sort(uses.begin(), uses.end(),
              [](const Use& a, const Use& b) { return std::tie(a.element, a.phase) < std::tie(b.element, b.phase); });
    Description label;
    for (std::size_t i = 0; i < uses.size();) {
      const std::uint32_t used = uses[i].element;
      label.clear();
      for (; i < uses.size() && uses[i].element == used; ++i) {
        label.insert(label.end(), {told(crossing_phase, uses[i].phase), told(crossing_count, uses[i].count)});
      }
      join(element, used, About::crossing, label);
    }
  }

  // Message fidelity: an edge is a row of activities. Communicators with the same members in the same order, of
  // different kinds, share plans and their edges.
  void join_edges(std::size_t c, std::size_t p) {
    const UsedPlan& used = plans_[c][p];
    const Plan& plan = used.plan->plan();
    const auto [where, fresh] = made_.try_emplace(used.plan, result_.plans.size());
    if (fresh) make_edges(*states_[c], *used.plan);
    const std::vector<std::uint32_t>& elements = result_.plans[where->second].elements;
    for (std::size_t i = 0; i < plan.phases.size(); ++i) {
      const PlanPhase& phase = plan.phases[i];
      for (std::int32_t e = phase.first_edge; e < phase.first_edge + phase.edge_count; ++e) {
        const auto index = static_cast<std::size_t>(e);
        Description label{told(part_plan, static_cast<std::int64_t>(p))};
        for (const CollectiveInstance* instance : used.instances) {
          const PhaseCall& call = instance->phases[i];
          label.insert(
              label.end(),
              {told(part_size, call.message.count()), told(part_size, repetitions_of(plan.edges[index], call.size)),
               told(part_latency, instance->latencies[index].count()), told(part_cap, instance->caps[index].count())});
        }
        if (broken(part)) continue;
        join(elements[index], static_cast<std::uint32_t>(result_.first_communicator + c), About::part, label);
      }
    }
  }

  void make_edges(CommunicatorState& state, const RoutedPlan& routed) {
    const Plan& plan = routed.plan();
    ClusterIncidence::PlanEdges made{&state, &routed, {}};
    for (const PlanPhase& phase : plan.phases) {
      for (const PlanEdge& edge : plan.edges_of(phase)) {
        made.elements.push_back(add_element(About::edge, {}));
        join_messages(routed, edge, made.elements.back());
      }
    }
    if (!broken(waiting)) join_waits(plan, made.elements);
    result_.plans.push_back(std::move(made));
  }

  // An edge waits for all that an edge of an earlier phase carries, and for what is `lag` behind in its own phase.
  void join_waits(const Plan& plan, std::span<const std::uint32_t> elements) {
    constexpr std::int64_t kAll = -1;
    const auto labels = [&](std::int64_t how) {
      return std::pair(
          names_.of(About::waiting, std::array{told(waiting_how, how)}),
          names_.of(broken(waiting_how) ? About::waiting : About::waited_for, std::array{told(waiting_how, how)}));
    };
    const auto for_all = labels(kAll);
    for (const PlanPhase& phase : plan.phases) {
      for (std::int32_t e = phase.first_edge; e < phase.first_edge + phase.edge_count; ++e) {
        const PlanEdge& edge = plan.edges[static_cast<std::size_t>(e)];
        const auto behind = labels(edge.lag);
        for (const std::int32_t feeder : plan.feeders_of(edge)) {
          const auto& [waits, waited_for] = feeder < phase.first_edge ? for_all : behind;
          incidence_.add(elements[static_cast<std::size_t>(e)], elements[static_cast<std::size_t>(feeder)], waits,
                         waited_for);
        }
      }
    }
  }

  void join_messages(const RoutedPlan& plan, const PlanEdge& edge, std::uint32_t element) {
    UseCounter counter;
    if (edge.to_stride == 0) {
      plan.add_uses(edge, 0, plan.path(edge, 0), counter);
      join_uses(element, counter.take());
      return;
    }
    for (std::int64_t r = 0; r < edge.length; ++r) {
      const std::uint32_t message = add_element(About::message, {});
      if (!broken(numbered))
        join(element, message, About::number,
             {told(numbered_by, r), told(numbered_weight, plan.plan().weight(edge, r))});
      plan.add_uses(edge, r, plan.path(edge, r), counter);
      join_uses(message, counter.take());
    }
  }

  // The ends of a channel know it by the kinds of peer that it serves.
  void join_channels() {
    constexpr std::int64_t kSends = 0;
    constexpr std::int64_t kReceives = 1;
    const auto join_end = [&](std::uint32_t channel, std::int64_t end, std::int64_t kind) {
      const auto [sender, receiver] = result_.channels[channel];
      const RankId rank = end == kSends ? sender : receiver;
      if (broken(peer)) return;
      join(result_.first_channel + channel, static_cast<std::uint32_t>(rank.index()), About::peer,
           {told(peer_end, end), told(peer_kind, kind)});
    };
    const auto& peer_kinds = input_.workload.peer_kinds;
    for (std::size_t k = 0; k < peer_kinds.size(); ++k) {
      for (std::size_t rank = 0; rank < peer_kinds[k].of.size(); ++rank) {
        const RankId other = peer_kinds[k].of[rank];
        if (!other.valid()) continue;
        join_end(result_.channel(RankId(rank), other), kSends, static_cast<std::int64_t>(k));
        join_end(result_.channel(other, RankId(rank)), kReceives, static_cast<std::int64_t>(k));
      }
    }
    for (std::uint32_t channel = 0; channel < routes_.size(); ++channel) {
      // Also where a peer kind names the pair from one side only.
      join_end(channel, kSends, -1);
      join_end(channel, kReceives, -1);
      join_uses(result_.first_channel + channel, routes_[channel].uses);
    }
  }

  const FoldingInput& input_;
  const Topology& topology_;
  ClusterIncidence result_;
  Incidence& incidence_;
  Names names_;
  std::vector<std::vector<std::vector<CollectiveCall>>> calls_;
  std::vector<std::vector<bool>> copies_;
  std::vector<const GpuSpec*> kinds_;
  std::vector<std::vector<int>> transfer_ranks_;   // [peer kinds][ranks]
  std::vector<bool> decides_;                      // [links]
  std::vector<std::uint32_t> rank_on_;             // [GPUs]
  std::vector<CommunicatorState*> states_;         // [communicators]; null: one member
  std::vector<std::vector<UsedPlan>> plans_;       // [communicators]
  std::vector<TransferRoute> routes_;              // [channels]
  std::map<const RoutedPlan*, std::size_t> made_;  // index in result_.plans
};

}  // namespace

std::uint32_t ClusterIncidence::channel(RankId sender, RankId receiver) const {
  const auto found = std::lower_bound(channels.begin(), channels.end(), std::pair(sender, receiver));
  ORRERY_CHECK(found != channels.end() && *found == std::pair(sender, receiver), "a pair of peers");
  return static_cast<std::uint32_t>(found - channels.begin());
}

ClusterIncidence cluster_incidence(const FoldingInput& input) { return Builder(input).run(); }

}  // namespace orrery
