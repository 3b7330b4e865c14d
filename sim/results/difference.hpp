// Why one run takes longer than another, in figures and in words.
//
// Problem. Two breakdowns side by side show where times differ, not what made them differ: longer waits for the network
// may mean that more is sent, that the same takes longer, or that the same, just as fast, is no longer hidden behind
// compute.
//
// Method. A step's time is taken apart in five sorts of parts, in both runs alike, and what differs is told:
//  - compute: the mean time that kernels run on a GPU, by phase;
//  - waits for communication, by group, operation and phase: what the critical path has of it while no kernels run
//    (sim/results/step_profile.hpp);
//  - the host, and copies: the same;
//  - the rest of the path: its kernels beyond one GPU's share. In a pipeline the path runs through the kernels of
//  several
//    stages, while it fills and drains: this is the bubble, seen from the path. Elsewhere it is waiting for ranks that
//    come late.
// These add up to the step by construction, so their differences add up to the gap. Each difference then gets its cause
// from what the kinds of work carry and how long they are busy, hidden or not:
//
//   waits: |busy - busy'| accounts for at least half of the difference:   bytes differ: traffic
//                                                                          operations differ: pieces
//                                                                          otherwise: rate (shared links, other links)
//          otherwise:                                                      overlap
//   compute: another GPU or precision: machine; other FLOPs or bytes: work; other kernels: pieces; the same kernels:
//            rate (communication beside them takes SMs and memory bandwidth)
//
// What it cannot see. A cause is that of the figures, not of the plan: the words say that something is not hidden, not
// which option would hide it. Kinds of work are matched by group, operation and phase: where two strategies do the same
// under different groups, the one is told as gone and the other as new.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/results/step_profile.hpp"
#include "sim/results/summary.hpp"

namespace orrery {

enum class Cause : std::uint8_t {
  base_only,     // only the base has work of this kind
  variant_only,  // only the variant has
  work,          // compute: other FLOPs or bytes
  machine,       // compute: another GPU or precision
  pieces,        // the same work in other numbers of kernels or operations
  rate,          // the same work, faster or slower
  traffic,       // other bytes
  overlap,       // what is busy as long is hidden more, or less
  bubble,        // pipelines: fill, drain, stages that wait for one another
  imbalance,     // ranks of a stage that wait for one another
  host,          // launches and the host's own work
  copying,       // copies between host and device
};
[[nodiscard]] std::string_view name_of(Cause cause);

// One side of a difference. Means per GPU; zero where the run has no such work.
struct DifferenceSide {
  double seconds = 0;  // of the step: what the two sides' difference is taken of
  double busy_s = 0;   // hidden time included
  double bytes = 0;
  double count = 0;  // operations; compute: kernels
  double flops = 0;
};

// Compute of one phase.
struct PhaseTimes {
  Phase phase = Phase::other;
  double base_s = 0;
  double variant_s = 0;
};

struct Difference {
  Cause cause = Cause::work;
  Work work = Work::compute;
  std::string subject;             // "the data all-gather 'gather parameters'", "forward, backward"
  std::string among;               // communication: "data"
  std::string operation;           // communication: "all_gather"
  std::string phase;               // "backward"; of compute: those that have this cause, "forward, backward"
  std::vector<PhaseTimes> phases;  // compute: the same, one by one, in the order of Phase
  DifferenceSide base;
  DifferenceSide variant;
  std::string text;  // "longer waits for ...: ..."

  [[nodiscard]] double seconds() const { return variant.seconds - base.seconds; }  // positive: the variant is slower
};

struct MemoryDifference {
  std::string tag;
  std::int64_t base_bytes = 0;
  std::int64_t variant_bytes = 0;
};

struct ComparedRun {
  std::string name;
  const Summary* summary = nullptr;
  const StepProfile* profile = nullptr;
};

struct Explanation {
  std::string base;
  std::string variant;
  double base_s = 0;  // time of a step
  double variant_s = 0;
  std::vector<Difference> differences;   // largest first; they add up to variant_s - base_s, but for rounding
  std::vector<MemoryDifference> memory;  // tags that differ at the peak, largest difference first
  std::string text;                      // a paragraph
};

[[nodiscard]] Explanation explain(const ComparedRun& base, const ComparedRun& variant);

// "81.0 % is compute, 12.3 % exposed data communication, ...": what limits a run. Parts below a hundredth are left out.
[[nodiscard]] std::string parts_of_step(const Summary& summary);

}  // namespace orrery
