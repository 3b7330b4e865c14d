#include <fmt/core.h>

#include "sim/exec/executor/executor.hpp"

namespace orrery {

namespace {

void check_placement(const Topology& topology, const Workload& workload, const Placement& placement,
                     Problems& problems) {
  if (placement.gpu_of.size() != workload.ranks()) {
    problems.push_back(
        {"placement",
         fmt::format("{} ranks are placed, the workload has {}", placement.gpu_of.size(), workload.ranks()),
         "",
         {}});
    return;
  }
  std::vector<bool> taken(static_cast<std::size_t>(topology.gpus()));
  for (std::size_t rank = 0; rank < placement.gpu_of.size(); ++rank) {
    const GpuId gpu = placement.gpu_of[rank];
    if (!gpu.valid() || gpu.value() >= topology.gpus()) {
      problems.push_back(
          {"placement",
           fmt::format("rank {} is placed on GPU {}, the cluster has {}", rank, gpu.value(), topology.gpus()),
           "",
           {}});
      return;
    }
    if (taken[gpu.index()]) {
      problems.push_back({"placement",
                          fmt::format("rank {} is placed on GPU {}, which has a rank already", rank, gpu.value()),
                          "",
                          {}});
      return;
    }
    taken[gpu.index()] = true;
  }
}

void check_factor(const char* key, double factor, Problems& problems) {
  if (factor > 0 && factor <= 1) return;
  problems.push_back({key, fmt::format("slowdown factor {}", factor), "a factor is above 0 and at most 1", {}});
}

Problems check_options(const Topology& topology, const ExecutionOptions& options) {
  Problems problems;
  for (const GpuSlowdown& slow : options.slow_gpus) {
    check_factor("variation.slow", slow.factor, problems);
    if (slow.gpu.valid() && slow.gpu.value() < topology.gpus()) continue;
    problems.push_back({"variation.slow", fmt::format("GPU {} is not in the cluster", slow.gpu.value()), "", {}});
  }
  for (const LinkSlowdown& slow : options.slow_links) {
    check_factor("variation.slow", slow.factor, problems);
    if (slow.link.valid() && slow.link.value() < topology.links()) continue;
    problems.push_back({"variation.slow", fmt::format("link {} is not in the cluster", slow.link.value()), "", {}});
  }
  if (!(options.kernel_jitter >= 0)) {
    problems.push_back({"variation.kernel_jitter", fmt::format("jitter {}", options.kernel_jitter), "0 or more", {}});
  }
  return problems;
}

}  // namespace

Placement place_in_order(const Workload& workload) {
  Placement placement;
  for (std::size_t rank = 0; rank < workload.ranks(); ++rank) placement.gpu_of.emplace_back(rank);
  return placement;
}

Result<RunResult> play(const Topology& topology, const Workload& workload, const Placement& placement,
                       const ExecutionOptions& options, const TrafficFactory& make_traffic) {
  Problems problems = check_options(topology, options);
  check_placement(topology, workload, placement, problems);
  if (!problems.empty()) return problems;
  const Partition partition = unfolded_partition(workload, placement.gpu_of);
  Machine machine(topology, options.slow_gpus, options.slow_links);
  Executor executor(machine, workload, partition, options);
  const auto traffic = make_traffic(machine, executor);
  return executor.run(*traffic);
}

}  // namespace orrery
