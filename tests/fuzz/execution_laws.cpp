// The laws on messages, bytes, capacity, repetition and fidelities, and the runs that they need.
#include "tests/fuzz/execution_laws.hpp"

#include "tests/fuzz/path_laws.hpp"
#include "tests/support/same_run.hpp"

#include <fmt/core.h>

#include <map>
#include <memory>
#include <utility>

#include "sim/exec/collectives/communicator.hpp"
#include "sim/exec/executor/executor.hpp"
#include "topology/explicit_graph.hpp"

namespace orrery::fuzz {

namespace {

// What a run did to the machine, beside its result.
struct Observation {
  std::vector<Ticks> served;       // [links], then [GPUs] for their memories
  std::vector<std::size_t> above;  // resources that served more than they can
  std::int64_t flows = 0;          // of the traffic layer
};

// The traffic layer, with a look at the machine at the end of the run.
class ObservedTraffic final : public TrafficPort {
 public:
  ObservedTraffic(Machine& machine, const TrafficOptions& options, TrafficListener& listener, Observation& seen)
      : machine_(machine), traffic_(machine, options, listener), seen_(seen) {}

  void start_collective(std::span<const GpuId> members, const CollectiveCall& call, std::int64_t multiplicity, int kind,
                        std::uint64_t token) override {
    traffic_.start_collective(members, call, multiplicity, kind, token);
  }
  void start_transfer(GpuId from, GpuId to, Bytes bytes, std::int64_t multiplicity, int kind,
                      std::uint64_t token) override {
    traffic_.start_transfer(from, to, bytes, multiplicity, kind, token);
  }
  int multiprocessors(std::span<const GpuId> members, const CollectiveCall& call) override {
    return traffic_.multiprocessors(members, call);
  }
  [[nodiscard]] Duration latency(std::span<const GpuId> members, const CollectiveCall& call) override {
    return traffic_.latency(members, call);
  }
  [[nodiscard]] Duration latency_of_transfer(GpuId from, GpuId to, Bytes bytes) override {
    return traffic_.latency_of_transfer(from, to, bytes);
  }
  int multiprocessors_of_transfer(GpuId from, GpuId to, Bytes bytes, int ranks) override {
    return traffic_.multiprocessors_of_transfer(from, to, bytes, ranks);
  }
  void handle(std::uint32_t target) override { traffic_.handle(target); }
  void flow_completed(std::uint32_t target) override { traffic_.flow_completed(target); }

  // Asked for once, when the run is over.
  [[nodiscard]] std::map<int, TrafficCount> count_by_kind() const override {
    const FluidNetwork& network = machine_.network();
    seen_ = {};
    for (std::size_t i = 0; i < network.resource_count(); ++i) {
      const ResourceId resource(i);
      seen_.served.push_back(network.served_ticks(resource, machine_.now()));
      const Ticks ticks = seen_.served.back();
      seen_.served.back() += ticks_from_units(machine_.carried(resource));
      if (ticks > work_done(network.capacity(resource), machine_.now() - Instant{})) {
        seen_.above.push_back(i);
      }
    }
    seen_.flows = traffic_.flows();
    return traffic_.count_by_kind();
  }
  [[nodiscard]] std::vector<std::string> warnings() const override { return traffic_.warnings(); }

 private:
  Machine& machine_;
  Traffic traffic_;
  Observation& seen_;
};

Result<RunResult> observe(const SmallCase& drawn, const ExecutionOptions& options, Observation& seen) {
  return play(drawn.topology, drawn.workload, drawn.placement, options,
              [&](Machine& machine, TrafficListener& listener) {
                return std::make_unique<ObservedTraffic>(machine, options.traffic, listener, seen);
              });
}

// What no algorithm can do without moving, summed over members: of a reduction every member's contribution must come
// together with the others' (n - 1 times the buffer), and what has come together or is in one place must get to the
// others (as much again). Messages of in-switch algorithms count towards both.
std::int64_t least_bytes(const CollectiveCall& call, std::size_t members) {
  const std::int64_t once = (static_cast<std::int64_t>(members) - 1) * call.bytes.count();
  return call.op == CollectiveOp::all_reduce ? 2 * once : once;
}

class TrafficLaws {
 public:
  explicit TrafficLaws(const SmallCase& drawn) : drawn_(drawn), graph_(materialize(drawn.topology)) {
    net_.assign(graph_.vertices.size(), 0);
    lopsided_.assign(graph_.vertices.size(), false);
    for (std::size_t v = 0; v < graph_.vertices.size(); ++v) vertex_[graph_.vertices[v]] = v;
    Machine machine(drawn.topology, drawn.options.slow_gpus, drawn.options.slow_links);
    const TrafficOptions& traffic = drawn.options.traffic;
    CommunicatorCache cache(machine.hardware(), {traffic.algorithm, traffic.protocol, traffic.channels}, Duration{},
                            false);
    for (std::size_t r = 0; r < drawn.workload.ranks(); ++r) expect_of_rank(r, cache);
  }

  std::vector<std::string> broken(const RunResult& result, const Observation& seen, TrafficFidelity fidelity) {
    std::vector<std::string> broken = std::exchange(broken_, {});
    check_counts(result, broken);
    check_balance(seen, broken);
    for (const std::size_t resource : seen.above) {
      broken.push_back(fmt::format("resource {} serves more than its capacity", resource));
    }
    std::int64_t messages = 0;
    for (const auto& [name, count] : result.traffic_by_kind) messages += count.messages;
    if (fidelity == TrafficFidelity::message && seen.flows != messages) {
      broken.push_back(fmt::format("{} messages are {} flows", messages, seen.flows));
    }
    return broken;
  }

 private:
  void expect_of_rank(std::size_t r, CommunicatorCache& cache) {
    const Program& program = drawn_.workload.programs[drawn_.workload.role_of[r].index()];
    for (const Task& task : program.tasks()) {
      if (task.kind == TaskKind::copy) expect_copy(r, program.copy(task));
      if (task.kind == TaskKind::send) expect_send(r, program.transfer(task));
      if (task.kind == TaskKind::collective) expect_collective(r, program.collective(task), cache);
    }
  }

  std::size_t vertex_of(GpuId gpu) const {
    return vertex_.at(
        fmt::format("node{}.gpu{}", drawn_.topology.node_of(gpu).value(), drawn_.topology.local_index(gpu)));
  }
  void expect_flow(std::size_t from, std::size_t to, Bytes wire) {
    net_[from] += ticks_from_units(wire.count());
    net_[to] -= ticks_from_units(wire.count());
  }

  void expect_copy(std::size_t r, const CopyCall& call) {
    const GpuId gpu = drawn_.placement.gpu_of[r];
    const Route up = drawn_.topology.device_to_host(gpu);
    const auto host = static_cast<std::size_t>(graph_.edges[up.links.back().index()].to);
    const bool out = call.direction == CopyDirection::device_to_host;
    expect_flow(out ? vertex_of(gpu) : host, out ? host : vertex_of(gpu), call.bytes);
  }

  void expect_send(std::size_t r, const TransferCall& call) {
    const PeerKind& kind = drawn_.workload.peer_kinds[call.peer.index()];
    const RankId peer = kind.of[r];
    if (peer == RankId(r)) return;
    const Bytes wire = wire_bytes(transfer_protocol(call.bytes, drawn_.options.traffic.protocol), call.bytes);
    expect_flow(vertex_of(drawn_.placement.gpu_of[r]), vertex_of(drawn_.placement.gpu_of[peer.index()]), wire);
    TrafficCount& count = counts_[kind.name.substr(0, kind.name.find('_'))];
    count.messages += 1;
    count.bytes += call.bytes.count();
  }

  // Each collective once: with its first member.
  void expect_collective(std::size_t r, const CollectiveCall& call, CommunicatorCache& cache) {
    const CommunicatorId on = drawn_.workload.communicator_of[call.group.index()][r];
    const std::vector<RankId>& ranks = drawn_.workload.communicators[on.index()].ranks;
    if (ranks.size() == 1 || call.bytes == Bytes(0)) return;
    if (ranks.front() != RankId(r)) return;
    std::vector<GpuId> members;
    for (const RankId rank : ranks) members.push_back(drawn_.placement.gpu_of[rank.index()]);
    const CollectiveInstance& instance = cache.instance(cache.find(members), call);
    if (has_ends(call.op, instance)) {
      for (const GpuId gpu : members) lopsided_[vertex_of(gpu)] = true;
    }
    const PlanTotals& totals = instance.totals;
    TrafficCount& count = counts_[drawn_.workload.group_kinds[call.group.index()].name];
    count.messages += totals.messages;
    count.bytes += totals.bytes;
    if (totals.bytes >= least_bytes(call, ranks.size())) return;
    broken_.push_back(fmt::format("{} of {} B among {} moves {} B", name_of(call.op), call.bytes.count(), ranks.size(),
                                  totals.bytes));
  }

  // Chains have ends, and where halving and doubling have members without a partner these hand over less than they get
  // back, or more. In all other operations every member receives as much as it sends.
  static bool has_ends(CollectiveOp op, const CollectiveInstance& instance) {
    if (op == CollectiveOp::broadcast || op == CollectiveOp::reduce) return true;
    return op != CollectiveOp::all_reduce && instance.choice.algorithm->name == "halving_doubling";
  }

  void check_counts(const RunResult& result, std::vector<std::string>& broken) const {
    auto found = result.traffic_by_kind;
    for (const auto& [name, expected] : counts_) {
      const TrafficCount count = found[name];
      if (count.messages == expected.messages && count.bytes == expected.bytes) continue;
      broken.push_back(fmt::format("{}: {} messages with {} B, planned {} with {} B", name, count.messages, count.bytes,
                                   expected.messages, expected.bytes));
    }
    for (const auto& [name, count] : found) {
      if (!counts_.contains(name) && (count.messages != 0 || count.bytes != 0)) {
        broken.push_back(fmt::format("{}: traffic that nobody planned", name));
      }
    }
  }

  void check_balance(const Observation& seen, std::vector<std::string>& broken) const {
    std::vector<Ticks> net(graph_.vertices.size(), 0);
    for (std::size_t link = 0; link < graph_.edges.size(); ++link) {
      net[static_cast<std::size_t>(graph_.edges[link].from)] += seen.served[link];
      net[static_cast<std::size_t>(graph_.edges[link].to)] -= seen.served[link];
    }
    Ticks lopsided = 0;
    for (std::size_t v = 0; v < net.size(); ++v) {
      const Ticks excess = net[v] - net_[v];
      if (lopsided_[v]) {
        lopsided += excess;
      } else if (excess != 0) {
        broken.push_back(fmt::format("{} sends {} B more than it receives and its tasks say", graph_.vertices[v],
                                     static_cast<double>(excess) / static_cast<double>(kTicksPerUnit)));
      }
    }
    if (lopsided != 0) broken.emplace_back("what the ends of operations send and receive differs");
  }

  const SmallCase& drawn_;
  ExplicitGraph graph_;
  std::map<std::string, std::size_t> vertex_;
  std::vector<Ticks> net_;      // [vertices] expected: out less in
  std::vector<bool> lopsided_;  // [vertices] takes part in an operation with ends
  std::map<std::string, TrafficCount> counts_;
  std::vector<std::string> broken_;
};

void append(std::vector<std::string>& all, std::string_view prefix, const std::vector<std::string>& more) {
  for (const std::string& text : more) all.push_back(fmt::format("{}: {}", prefix, text));
}

bool same_traffic(const RunResult& a, const RunResult& b) {
  const auto same = [](const auto& x, const auto& y) {
    return x.first == y.first && x.second.messages == y.second.messages && x.second.bytes == y.second.bytes;
  };
  return std::equal(a.traffic_by_kind.begin(), a.traffic_by_kind.end(), b.traffic_by_kind.begin(),
                    b.traffic_by_kind.end(), same);
}

}  // namespace

std::vector<std::string> broken_laws(const SmallCase& drawn) {
  std::vector<std::string> broken = inconsistencies(drawn.workload);
  if (!broken.empty()) return broken;

  TrafficLaws traffic(drawn);
  std::map<TrafficFidelity, RunResult> results;
  std::map<TrafficFidelity, Observation> seen;
  for (const TrafficFidelity fidelity : {TrafficFidelity::coupled, TrafficFidelity::message}) {
    const std::string_view name = fidelity == TrafficFidelity::message ? "message" : "coupled";
    ExecutionOptions options = drawn.options;
    options.traffic.fidelity = fidelity;
    Result<RunResult> result = observe(drawn, options, seen[fidelity]);
    if (!result) {
      append(broken, name, {to_string(result.problems())});
      return broken;
    }
    append(broken, name, broken_schedule_laws(drawn, *result));
    append(broken, name, broken_path_laws(*result, drawn.workload));
    append(broken, name, traffic.broken(*result, seen[fidelity], fidelity));
    options.fold = true;
    const Result<RunResult> folded = execute(drawn.topology, drawn.workload, drawn.placement, options);
    append(broken, fmt::format("{}, folded", name),
           folded ? test::differences(*result, *folded) : std::vector{to_string(folded.problems())});
    if (folded) append(broken, fmt::format("{}, folded", name), broken_path_laws(*folded, drawn.workload));
    results.emplace(fidelity, std::move(result).value());
  }
  const RunResult& coupled = results.at(TrafficFidelity::coupled);
  const RunResult& message = results.at(TrafficFidelity::message);
  if (!same_traffic(coupled, message)) broken.emplace_back("the fidelities move different messages");
  for (int link = 0; link < drawn.topology.links(); ++link) {
    const auto i = static_cast<std::size_t>(link);
    if (seen[TrafficFidelity::coupled].served[i] == seen[TrafficFidelity::message].served[i]) continue;
    broken.push_back(
        fmt::format("the fidelities move different bytes over {}", drawn.topology.link_name(LinkId(link))));
  }

  ExecutionOptions options = drawn.options;
  const std::string& expected = results.at(options.traffic.fidelity).fingerprint;
  for (const std::string_view again : {"a second run", "a run that records nothing"}) {
    const Result<RunResult> result = execute(drawn.topology, drawn.workload, drawn.placement, options);
    if (!result || result->fingerprint != expected) broken.push_back(fmt::format("{} differs", again));
    options.record.clear();
  }
  return broken;
}

}  // namespace orrery::fuzz
