// Plays a workload out on a topology: the one entry of this folder.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/problem.hpp"
#include "sim/exec/progress.hpp"
#include "sim/exec/slowdown.hpp"
#include "sim/exec/traffic.hpp"
#include "sim/graph/workload.hpp"
#include "sim/results/run_result.hpp"
#include "topology/topology.hpp"

namespace orrery {

// Which GPU each rank runs on: [ranks]. Rank i on GPU i unless the user says otherwise.
struct Placement {
  std::vector<GpuId> gpu_of;
};
[[nodiscard]] Placement place_in_order(const Workload& workload);

struct ExecutionOptions {
  TrafficOptions traffic;
  std::uint64_t seed = 1;
  double kernel_jitter = 0;  // standard deviation of a kernel sequence's duration, as a fraction
  std::vector<GpuSlowdown> slow_gpus;
  std::vector<LinkSlowdown> slow_links;
  Duration launch{};  // host time per kernel (or per captured sequence, with graphs)
  Duration collective_launch{};
  bool graphs = false;
  // Host time per kernel, send or receive that a framework's call issues beyond its first; no more than the two above.
  Duration driver_launch = Duration::max();
  bool fold = true;            // play one rank for all that behave alike; the result is the same
  std::vector<RankId> record;  // ranks whose tasks and memory are kept for the trace
  bool record_all = false;     // keep those of every rank that is played: folded, of one in each class
  ProgressFunction progress;   // told now and then how far the run has come; may be empty, changes nothing
};

// Runs one step to its end. A deadlock (our bug, or a user's own schedule table) is a Problem that names the blocked
// ranks and tasks. Deterministic: the same input gives the same result, bit for bit.
[[nodiscard]] Result<RunResult> execute(const Topology& topology, const Workload& workload, const Placement& placement,
                                        const ExecutionOptions& options);

}  // namespace orrery
