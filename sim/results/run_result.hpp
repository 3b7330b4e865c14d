// What an executed step leaves behind: times, counters and (for the recorded ranks) every task. Made by sim/exec, read
// by everything that reports. Times are simulated; nothing here depends on the machine that simulated it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/graph/communication.hpp"
#include "sim/graph/program.hpp"

namespace orrery {

// One task of one recorded rank.
struct TaskRecord {
  TaskId task;
  Instant begin{};   // left the head of its stream: kernels start, communication is posted
  Instant active{};  // communication: the last partner arrived and bytes began to move; otherwise equal to begin
  Instant end{};
  Duration gaps{};  // kernels: how long none of them ran between begin and end, for want of launches
  // The host thread is busy with issuing the task from the one to the other (host work: does it, as begin and end say).
  Instant issue_begin{};
  Instant issued{};
  // Kernels: when the last that had to wait for its launch was launched. Before `begin`: none of them had to.
  Instant late_launch{Duration(-1)};
  // Communication: what passes between active and end before bytes flow on all edges (start-up, chains of latencies),
  // as it is on an idle machine.
  Duration latency{};
};

// What one rank (or class of equal ranks) did with the step. The parts add up to the step time.
struct RankTimes {
  Duration compute{};  // at least one kernel running
  // No kernel running and the compute stream waits for communication that is under way, by group or peer kind
  // ("tensor", "data", "pipeline"): latencies pass or bytes move.
  std::map<std::string, Duration> exposed_communication;
  Duration bubble{};      // waits for another stage of the pipeline, or has nothing left to do in a pipeline
  Duration waiting{};     // waits for ranks of the same stage that are late: imbalance, stragglers, noise
  Duration data_stall{};  // waits for input data
  Duration other{};       // waits for the host: launches, synchronisation, Python
};

// The memory ledger of one rank (or class).
struct MemoryPeak {
  Bytes peak{};
  std::array<Bytes, kMemoryTags> by_tag{};  // what the peak consists of
  Instant when{};                           // moment of the sample that reaches it
  TaskId task;                              // that reached it; invalid: resident before the step
  TaskId first_beyond;                      // the first that needs more than the GPU has; invalid: there is none
};

// What is allocated from this moment to the next sample, in program order by the clock of the GPU: a task holds what it
// takes from its begin and what it gives back until its end, so that the largest sample is the peak.
struct MemorySample {
  Instant when{};
  Bytes allocated{};
};

// A rank, or the representative of a class of ranks that behave alike.
struct RankResult {
  RankId rank;
  RoleId role;
  std::int64_t multiplicity = 1;  // ranks it stands for
  RankTimes times;
  MemoryPeak memory;
  std::vector<TaskRecord> tasks;               // in program order; empty unless recorded
  std::vector<MemorySample> memory_over_time;  // empty unless recorded
};

struct TrafficCount {
  std::int64_t messages = 0;  // point-to-point messages that cross between two GPUs
  std::int64_t bytes = 0;     // their payload, each counted once, whatever the number of links
};

// The busiest directed links, and the mean use of all of a kind.
struct LinkUse {
  std::string name;
  std::string kind;
  std::int64_t bytes = 0;
  double utilization = 0;  // of capacity over the step
};

struct RunResult {
  Duration step_time{};
  std::vector<RankResult> ranks;                           // [rank classes], in the order of their lowest rank
  std::vector<std::uint32_t> class_of;                     // [ranks of the workload] index in the above
  std::map<std::string, TrafficCount> traffic_by_kind;     // "tensor", "data", "pipeline", ...
  std::map<std::string, std::int64_t> bytes_by_link_kind;  // "nvlink": bytes x links crossed of that kind
  std::map<std::string, double> utilization_by_link_kind;  // mean over links that exist, over the step
  std::vector<LinkUse> busiest_links;                      // at most ten, by utilization
  std::int64_t events = 0;
  std::int64_t flows = 0;
  std::string fingerprint;            // of what happened: the same on every machine
  std::vector<std::string> warnings;  // what the run cannot vouch for ("h100 GEMM constants are not measured ...")
};

}  // namespace orrery
