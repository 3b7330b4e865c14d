// A GPU, a cluster, a traffic layer and small programs whose times can be worked out by hand.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sim/exec/execute.hpp"
#include "sim/graph/workload.hpp"
#include "topology/topology.hpp"

namespace orrery::test {

using namespace literals;

// 100 SMs; 1 TFLOP/s outside tensor cores; 1000 GB/s of memory, all of which can be used, 800 by one kernel. No
// start-up time, so that a kernel takes what its work takes.
GpuSpec plain_gpu();
ClusterSpec plain_cluster(int gpus, const GpuSpec& gpu = plain_gpu(), int nodes = 1);

// Kernel that computes for `duration` on all SMs (in proportion longer on fewer) and takes `bytes` of traffic along.
Kernel computing(Duration duration, Bytes bytes = 0_B);
// Kernel of `bytes` of traffic: at 800 GB/s alone, however many SMs there are down to half.
Kernel streaming(Bytes bytes);

// Traffic that lasts `latency` and then bytes / rate. With a memory count it crosses the memory of every GPU that takes
// part, and so contends with kernels (the latency then is a timer, the rest a flow).
struct SimpleTrafficSettings {
  Duration latency{};
  BytesPerSecond rate = 100_GBps;
  int multiprocessors = 0;
  int memory_count = 0;
};

// The options of a task: on a stream of this name ("compute" is the compute stream).
struct On {
  std::string stream = "compute";
  std::vector<TaskId> after = {};
  bool blocks_host = false;
  std::vector<MemoryOperation> memory = {};
  std::string label = "task";
  Issue issue = Issue::alone;
};

// A workload in the making: ranks 0 .. n-1, one role each unless they are given the same. One group kind "data" over
// all ranks and one "self" of one rank each; peers "pipeline_next" and "pipeline_previous" in a line.
class Scene {
 public:
  explicit Scene(std::size_t ranks);

  static constexpr GroupKindId kData{0};
  static constexpr GroupKindId kSelf{1};
  static constexpr PeerKindId kNext{0};
  static constexpr PeerKindId kPrevious{1};

  GroupKindId group(std::string name, const std::vector<std::vector<RankId>>& communicators);
  KernelId kernel(const Kernel& kernel);
  TaskId kernels(std::size_t r, const std::vector<Kernel>& list, const On& on = {});
  TaskId collective(std::size_t r, Bytes bytes, const On& on, GroupKindId kind = kData);
  TaskId send(std::size_t r, PeerKindId peer, Bytes bytes, const On& on, std::int32_t tag = 0);
  TaskId receive(std::size_t r, PeerKindId peer, Bytes bytes, const On& on, std::int32_t tag = 0);
  TaskId copy(std::size_t r, Bytes bytes, const On& on, CopyDirection direction = CopyDirection::host_to_device);
  TaskId host(std::size_t r, Duration work, const On& on = {"host"});
  void resident(std::size_t r, MemoryOperation operation);

  // Finished; the scene must not be used any more.
  Workload workload();

  static std::vector<RankId> all(std::size_t ranks);

 private:
  TaskOptions options(std::size_t r, const On& on);

  Workload workload_;
  std::vector<ProgramBuilder> builders_;
  std::vector<std::unique_ptr<On>> kept_;
};

// All ranks recorded, no launch costs.
ExecutionOptions recording(const Workload& workload);

RunResult run(const Workload& workload, const ExecutionOptions& options, const SimpleTrafficSettings& traffic = {},
              const GpuSpec& gpu = plain_gpu(), int nodes = 1);

Instant at(Duration since_start);
Duration exposed(const RankResult& rank, const std::string& kind);

}  // namespace orrery::test
