#include "executor_fixtures.hpp"

#include <fmt/core.h>

#include <utility>

#include "simple_traffic.hpp"

namespace orrery::test {

namespace {

LinkSpec plain_link(std::string name, double gigabytes, Duration latency) {
  LinkSpec link;
  link.name = std::move(name);
  link.bandwidth = BytesPerSecond(gigabytes * 1e9);
  link.latency = latency;
  return link;
}

struct SimpleTraffic final : TrafficPort {
  SimpleTraffic(Machine& machine, TrafficListener& listener, const SimpleTrafficSettings& settings)
      : machine_(machine), listener_(listener), settings_(settings) {}

  void start_collective(std::span<const GpuId> members, const CollectiveCall& call, std::int64_t multiplicity, int kind,
                        std::uint64_t token) override {
    counts_[kind].messages += multiplicity * static_cast<std::int64_t>(members.size());
    counts_[kind].bytes += multiplicity * call.bytes.count();
    start({members.begin(), members.end()}, call.bytes, token);
  }
  void start_transfer(GpuId from, GpuId to, Bytes bytes, std::int64_t multiplicity, int kind,
                      std::uint64_t token) override {
    counts_[kind].messages += multiplicity;
    counts_[kind].bytes += multiplicity * bytes.count();
    start({from, to}, bytes, token);
  }
  int multiprocessors(std::span<const GpuId>, const CollectiveCall&) override { return settings_.multiprocessors; }
  int multiprocessors_of_transfer(GpuId, GpuId, Bytes, int) override { return settings_.multiprocessors; }
  void handle(std::uint32_t target) override {
    Running& running = running_[target];
    if (settings_.memory_count == 0 || running.bytes <= 0_B) return listener_.operation_ended(running.token);
    std::vector<Crossing> crossings;
    for (const GpuId gpu : running.gpus) crossings.push_back({machine_.memory(gpu), settings_.memory_count});
    machine_.start_flow(running.bytes, rate_from(settings_.rate), crossings, Owner::traffic, target);
  }
  void flow_completed(std::uint32_t target) override { listener_.operation_ended(running_[target].token); }
  [[nodiscard]] std::map<int, TrafficCount> count_by_kind() const override { return counts_; }

 private:
  struct Running {
    std::vector<GpuId> gpus;
    Bytes bytes{};
    std::uint64_t token = 0;
  };
  void start(std::vector<GpuId> gpus, Bytes bytes, std::uint64_t token) {
    running_.push_back({std::move(gpus), bytes, token});
    Duration delay = settings_.latency;
    if (settings_.memory_count == 0) delay += transfer_time(bytes, settings_.rate);
    machine_.after(delay, Owner::traffic, static_cast<std::uint32_t>(running_.size() - 1));
  }

  Machine& machine_;
  TrafficListener& listener_;
  SimpleTrafficSettings settings_;
  std::vector<Running> running_;
  std::map<int, TrafficCount> counts_;
};

}  // namespace

TrafficFactory simple_traffic(const SimpleTrafficSettings& settings) {
  return [settings](Machine& machine, TrafficListener& listener) {
    return std::make_unique<SimpleTraffic>(machine, listener, settings);
  };
}

GpuSpec plain_gpu() {
  GpuSpec gpu;
  gpu.name = "plain";
  gpu.multiprocessors = 100;
  gpu.vector_peak = 1_TFLOPs;
  gpu.memory = 80_GB;
  gpu.memory_bandwidth = 1000_GBps;
  gpu.kernels.memory_ceiling = 1;
  gpu.kernels.memory_rate.fill(0.8);
  gpu.kernels.memory_fixed = Duration{};
  gpu.kernels.kernel_gap = Duration{};
  return gpu;
}

ClusterSpec plain_cluster(int gpus, const GpuSpec& gpu, int nodes) {
  NodeSpec node;
  node.name = "plain";
  node.gpu = gpu;
  node.gpus = gpus;
  node.wiring = GpuWiring::nvswitch;
  node.nvlink = plain_link("nvlink", 100, 1_us);
  node.pcie = plain_link("pcie", 25, 1_us);
  node.socket_link = plain_link("socket", 25, 1_us);
  node.nic = plain_link("nic", 25, 1_us);
  ClusterSpec cluster;
  cluster.groups.push_back({node, nodes});
  cluster.fabric.link = plain_link("cable", 25, 1_us);
  return cluster;
}

Kernel computing(Duration duration, Bytes bytes) {
  Kernel kernel;
  kernel.name = fmt::format("compute{}-{}", duration.count(), bytes.count());
  kernel.m = kernel.n = 1;
  kernel.flops = Flops(static_cast<double>(duration.count()));  // 1 TFLOP/s: one FLOP a picosecond
  kernel.bytes = bytes;
  return kernel;
}

Kernel streaming(Bytes bytes) {
  Kernel kernel;
  kernel.name = fmt::format("stream{}", bytes.count());
  kernel.m = kernel.n = 1;
  kernel.bytes = bytes;
  return kernel;
}

Scene::Scene(std::size_t ranks) : builders_(ranks) {
  for (std::size_t r = 0; r < ranks; ++r) workload_.role_of.emplace_back(r);
  group("data", {all(ranks)});
  std::vector<std::vector<RankId>> alone;
  for (std::size_t r = 0; r < ranks; ++r) alone.push_back({RankId(r)});
  group("self", alone);
  PeerKind next{"pipeline_next", std::vector<RankId>(ranks)};
  PeerKind previous{"pipeline_previous", std::vector<RankId>(ranks)};
  for (std::size_t r = 0; r + 1 < ranks; ++r) {
    next.of[r] = RankId(r + 1);
    previous.of[r + 1] = RankId(r);
  }
  workload_.peer_kinds = {next, previous};
}

GroupKindId Scene::group(std::string name, const std::vector<std::vector<RankId>>& communicators) {
  const GroupKindId kind(workload_.group_kinds.size());
  workload_.group_kinds.push_back({std::move(name)});
  auto& of = workload_.communicator_of.emplace_back(builders_.size());
  for (const auto& ranks : communicators) {
    for (const RankId rank : ranks) of[rank.index()] = CommunicatorId(workload_.communicators.size());
    workload_.communicators.push_back({kind, ranks});
  }
  return kind;
}

KernelId Scene::kernel(const Kernel& kernel) {
  workload_.kernels.push_back(kernel);
  return KernelId(workload_.kernels.size() - 1);
}

TaskId Scene::kernels(std::size_t r, const std::vector<Kernel>& list, const On& on) {
  KernelSequence sequence;
  for (const Kernel& k : list) sequence.push_back(kernel(k));
  return builders_[r].kernels(std::move(sequence), options(r, on));
}

TaskId Scene::collective(std::size_t r, Bytes bytes, const On& on, GroupKindId kind) {
  return builders_[r].collective({CollectiveOp::all_reduce, kind, bytes}, options(r, on));
}

TaskId Scene::send(std::size_t r, PeerKindId peer, Bytes bytes, const On& on, std::int32_t tag) {
  return builders_[r].send({peer, tag, bytes}, options(r, on));
}

TaskId Scene::receive(std::size_t r, PeerKindId peer, Bytes bytes, const On& on, std::int32_t tag) {
  return builders_[r].receive({peer, tag, bytes}, options(r, on));
}

TaskId Scene::copy(std::size_t r, Bytes bytes, const On& on, CopyDirection direction) {
  return builders_[r].copy({direction, bytes}, options(r, on));
}

TaskId Scene::host(std::size_t r, Duration work, const On& on) { return builders_[r].host(work, options(r, on)); }

void Scene::resident(std::size_t r, MemoryOperation operation) { builders_[r].resident(operation); }

Workload Scene::workload() {
  for (ProgramBuilder& builder : builders_) workload_.programs.push_back(std::move(builder).freeze());
  return std::move(workload_);
}

std::vector<RankId> Scene::all(std::size_t ranks) {
  std::vector<RankId> result;
  for (std::size_t r = 0; r < ranks; ++r) result.emplace_back(r);
  return result;
}

TaskOptions Scene::options(std::size_t r, const On& on) {
  kept_.push_back(std::make_unique<On>(on));
  return {.stream = builders_[r].stream(on.stream, on.stream == "compute", on.stream == "urgent"),
          .label = kept_.back()->label,
          .after = kept_.back()->after,
          .memory = kept_.back()->memory,
          .blocks_host = on.blocks_host,
          .issue = on.issue};
}

ExecutionOptions recording(const Workload& workload) {
  ExecutionOptions options;
  options.record = Scene::all(workload.ranks());
  return options;
}

RunResult run(const Workload& workload, const ExecutionOptions& options, const SimpleTrafficSettings& traffic,
              const GpuSpec& gpu, int nodes) {
  const auto topology = Topology::build(plain_cluster(static_cast<int>(workload.ranks()), gpu, nodes));
  auto result = play(topology.value(), workload, place_in_order(workload), options, simple_traffic(traffic));
  return std::move(result).value();
}

Instant at(Duration since_start) { return Instant{} + since_start; }

Duration exposed(const RankResult& rank, const std::string& kind) {
  const auto found = rank.times.exposed_communication.find(kind);
  return found == rank.times.exposed_communication.end() ? Duration{} : found->second;
}

}  // namespace orrery::test
