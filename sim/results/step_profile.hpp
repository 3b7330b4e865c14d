// A step by kinds of work: how long each keeps a GPU busy, what it carries, and how much of the critical path is its.
//
// Tasks are of one kind that do the same sort of thing in the same phase under the same label, whatever the layer and
// micro-batch: "gathers of parameters over the data-parallel group, in the backward pass".
//
// Busy and carried are means over GPUs, of everything that the step does. The path's time is the critical path's, with
// one convention: while kernels run on the rank that the path is at, its time is theirs, even where the path follows a
// transfer or the host beside them. What the path has of communication is thus communication that nothing hides, as in
// a summary's breakdown, and shares of the path can be compared between runs in which it follows compute here and the
// network there.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>

#include "sim/base/units.hpp"
#include "sim/results/critical_path.hpp"
#include "sim/results/run_result.hpp"

namespace orrery {

enum class Work : std::uint8_t {
  compute,        // kernels
  communication,  // collectives and transfers
  copying,        // between host and device
  launching,      // the host's issuing
  host_work,      // the host's own work
};

struct WorkKind {
  Work work = Work::compute;
  Phase phase = Phase::other;
  // Communication that gathers parameters or reduces gradients: the pass that it belongs to, by its place in the
  // program: what is gathered belongs to the pass that comes next, what is reduced to the last. Otherwise as `phase`.
  Phase during = Phase::other;
  // Communication: its group or peers, as reports name them ("data", "pipeline"), and what it does there ("all_gather",
  // "transfer"). Empty for other work.
  std::string among;
  std::string operation;
  std::string label;  // of its tasks. Empty for launching, which is alike for all

  friend auto operator<=>(const WorkKind&, const WorkKind&) = default;
};

struct WorkShare {
  Duration path{};          // of the critical path; shares add up to the step's time
  Duration path_latency{};  // the part of it that is communication's latency
  double busy_s = 0;   // mean over GPUs: kernels run, bytes move (from the arrival of the last side), the host works
  double count = 0;    // tasks per GPU; transfers by their receivers
  double bytes = 0;    // communication: what a GPU sends at least, per GPU; copies: what is copied; compute: of memory
  double flops = 0;    // compute, per GPU
  double kernels = 0;  // compute, per GPU
};

using StepProfile = std::map<WorkKind, WorkShare>;

// All rank classes are recorded; `path` is the critical path. O(tasks + segments).
[[nodiscard]] StepProfile profile_of(const RunResult& run, const Workload& workload, std::span<const PathSegment> path);

}  // namespace orrery
