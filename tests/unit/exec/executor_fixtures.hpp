// A GPU, a cluster, a traffic layer and small programs whose times can be worked out by hand.
#pragma once

#include <fmt/core.h>

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sim/exec/executor/executor.hpp"
#include "sim/graph/workload.hpp"
#include "topology/topology.hpp"

namespace orrery::test {

using namespace literals;

// 100 SMs; 1 TFLOP/s outside tensor cores; 1000 GB/s of memory, all of which can be used, 800 by one kernel. No
// start-up time, so that a kernel takes what its work takes.
inline GpuSpec plain_gpu() {
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

inline LinkSpec plain_link(std::string name, double gigabytes, Duration latency) {
  LinkSpec link;
  link.name = std::move(name);
  link.bandwidth = BytesPerSecond(gigabytes * 1e9);
  link.latency = latency;
  return link;
}

inline ClusterSpec plain_cluster(int gpus, const GpuSpec& gpu = plain_gpu(), int nodes = 1) {
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

// Kernel that computes for `duration` on all SMs (in proportion longer on fewer) and takes `bytes` of traffic along.
inline Kernel computing(Duration duration, Bytes bytes = 0_B) {
  Kernel kernel;
  kernel.name = fmt::format("compute{}-{}", duration.count(), bytes.count());
  kernel.m = kernel.n = 1;
  kernel.flops = Flops(static_cast<double>(duration.count()));  // 1 TFLOP/s: one FLOP a picosecond
  kernel.bytes = bytes;
  return kernel;
}

// Kernel of `bytes` of traffic: at 800 GB/s alone, however many SMs there are down to half.
inline Kernel streaming(Bytes bytes) {
  Kernel kernel;
  kernel.name = fmt::format("stream{}", bytes.count());
  kernel.m = kernel.n = 1;
  kernel.bytes = bytes;
  return kernel;
}

// Traffic that lasts `latency` and then bytes / rate. With a memory count it crosses the memory of every GPU that takes
// part, and so contends with kernels (the latency then is a timer, the rest a flow).
struct SimpleTraffic final : TrafficPort {
  struct Settings {
    Duration latency{};
    BytesPerSecond rate = 100_GBps;
    int multiprocessors = 0;
    int memory_count = 0;
  };
  SimpleTraffic(Machine& machine, TrafficListener& listener, const Settings& settings)
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
  Settings settings_;
  std::vector<Running> running_;
  std::map<int, TrafficCount> counts_;
};

inline TrafficFactory simple_traffic(const SimpleTraffic::Settings& settings = {}) {
  return [settings](Machine& machine, TrafficListener& listener) {
    return std::make_unique<SimpleTraffic>(machine, listener, settings);
  };
}

// The options of a task: on a stream of this name ("compute" is the compute stream).
struct On {
  std::string stream = "compute";
  std::vector<TaskId> after = {};
  bool blocks_host = false;
  std::vector<MemoryOperation> memory = {};
  std::string label = "task";
};

// A workload in the making: ranks 0 .. n-1, one role each unless they are given the same. One group kind "data" over
// all ranks and one "self" of one rank each; peers "pipeline_next" and "pipeline_previous" in a line.
class Scene {
 public:
  explicit Scene(std::size_t ranks) : builders_(ranks) {
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

  static constexpr GroupKindId kData{0};
  static constexpr GroupKindId kSelf{1};
  static constexpr PeerKindId kNext{0};
  static constexpr PeerKindId kPrevious{1};

  GroupKindId group(std::string name, const std::vector<std::vector<RankId>>& communicators) {
    const GroupKindId kind(workload_.group_kinds.size());
    workload_.group_kinds.push_back({std::move(name)});
    auto& of = workload_.communicator_of.emplace_back(builders_.size());
    for (const auto& ranks : communicators) {
      for (const RankId rank : ranks) of[rank.index()] = CommunicatorId(workload_.communicators.size());
      workload_.communicators.push_back({kind, ranks});
    }
    return kind;
  }

  KernelId kernel(const Kernel& kernel) {
    workload_.kernels.push_back(kernel);
    return KernelId(workload_.kernels.size() - 1);
  }

  TaskId kernels(std::size_t r, const std::vector<Kernel>& list, const On& on = {}) {
    KernelSequence sequence;
    for (const Kernel& k : list) sequence.push_back(kernel(k));
    return builders_[r].kernels(std::move(sequence), options(r, on));
  }
  TaskId collective(std::size_t r, Bytes bytes, const On& on, GroupKindId kind = kData) {
    return builders_[r].collective({CollectiveOp::all_reduce, kind, bytes}, options(r, on));
  }
  TaskId send(std::size_t r, PeerKindId peer, Bytes bytes, const On& on, std::int32_t tag = 0) {
    return builders_[r].send({peer, tag, bytes}, options(r, on));
  }
  TaskId receive(std::size_t r, PeerKindId peer, Bytes bytes, const On& on, std::int32_t tag = 0) {
    return builders_[r].receive({peer, tag, bytes}, options(r, on));
  }
  TaskId copy(std::size_t r, Bytes bytes, const On& on, CopyDirection direction = CopyDirection::host_to_device) {
    return builders_[r].copy({direction, bytes}, options(r, on));
  }
  TaskId host(std::size_t r, Duration work, const On& on = {"host"}) { return builders_[r].host(work, options(r, on)); }
  void resident(std::size_t r, MemoryOperation operation) { builders_[r].resident(operation); }

  // Finished; the scene must not be used any more.
  Workload workload() {
    for (ProgramBuilder& builder : builders_) workload_.programs.push_back(std::move(builder).freeze());
    return std::move(workload_);
  }

  static std::vector<RankId> all(std::size_t ranks) {
    std::vector<RankId> result;
    for (std::size_t r = 0; r < ranks; ++r) result.emplace_back(r);
    return result;
  }

 private:
  TaskOptions options(std::size_t r, const On& on) {
    kept_.push_back(std::make_unique<On>(on));
    return {.stream = builders_[r].stream(on.stream, on.stream == "compute", on.stream == "urgent"),
            .label = kept_.back()->label,
            .after = kept_.back()->after,
            .memory = kept_.back()->memory,
            .blocks_host = on.blocks_host};
  }

  Workload workload_;
  std::vector<ProgramBuilder> builders_;
  std::vector<std::unique_ptr<On>> kept_;
};

// All ranks recorded, no launch costs.
inline ExecutionOptions recording(const Workload& workload) {
  ExecutionOptions options;
  options.record = Scene::all(workload.ranks());
  return options;
}

inline RunResult run(const Workload& workload, const ExecutionOptions& options,
                     const SimpleTraffic::Settings& traffic = {}, const GpuSpec& gpu = plain_gpu(), int nodes = 1) {
  const auto topology = Topology::build(plain_cluster(static_cast<int>(workload.ranks()), gpu, nodes));
  auto result = play(topology.value(), workload, place_in_order(workload), options, simple_traffic(traffic));
  return std::move(result).value();
}

inline Instant at(Duration since_start) { return Instant{} + since_start; }

inline Duration exposed(const RankResult& rank, const std::string& kind) {
  const auto found = rank.times.exposed_communication.find(kind);
  return found == rank.times.exposed_communication.end() ? Duration{} : found->second;
}

}  // namespace orrery::test
