// What a step's time hangs on: the chain of work that reaches from its start to its end without a gap.
//
// Problem. Means over GPUs say how much time waiting takes, not what for, and most of what a step does could take
// longer without anybody noticing. The chain that could not is the critical path.
//
// Method. The walk begins at the task that ends last and goes back. At each moment it stands at something that is going
// on, follows it back to where it began, and asks what it had to wait for:
//  - kernels begin when the task before them on their stream has ended, or one that they depend on, or the kernels that
//    had the GPU before them, or when the host has launched them. Of these the last held them up, and that is the one
//    that ended (or launched) at the very picosecond at which they began. Where kernels in the middle of a sequence had
//    to wait for their launches, the walk leaves the sequence at the last that did;
//  - communication moves bytes from the moment at which its last side has arrived. The walk goes to that side: to the
//    rank that came last (of a folded run: to the class of it), and asks there. A rank that only waited is not on it;
//  - a copy begins as communication does, alone;
//  - the host thread issues task after task. Where it stood still before one of them, it waited for the GPU: for the
//  task
//    before, which blocks the host, or for what its own work depends on. There the walk goes on.
//
// Invariants, which tests hold against random programs and all small scenarios that ship: segments follow one another
// without gap or overlap, from the step's start to its end, so that their durations add up to the step's time to the
// picosecond; a folded run has the same path as an unfolded one, class for class.
//
// Cost. Every task of a rank class is at most once on the path as work of the GPU and once as work of the host, so the
// walk is linear in recorded tasks, and in memberships of the communicators that are on it. Indices of programs are
// made for roles that the path meets.
//
// What it cannot see. Of two things that end at the same picosecond it follows one: the GPU's before the host's, its
// own rank's before others', then that of the lower number. Sharing is not a cause of its own: a kernel that runs
// slowly beside communication, or a transfer that shares its links, is a longer segment, and nothing on the path says
// who it shares with. And there may be other chains that are almost as long: taking a segment away does not save all of
// its time.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/graph/workload.hpp"
#include "sim/results/run_result.hpp"

namespace orrery {

enum class PathActivity : std::uint8_t {
  kernels,       // kernels run back to back
  latency,       // communication: start-up and chains of latencies, put first wherever they really are
  transferring,  // communication: bytes move
  copying,       // between host and device
  launching,     // the host thread issues the task
  host_work,     // the host thread's own work
};

struct PathSegment {
  std::uint32_t rank_class = 0;  // index in RunResult::ranks
  TaskId task;                   // of its role's program
  PathActivity activity = PathActivity::kernels;
  Instant begin{};
  Instant end{};  // later than begin

  friend bool operator==(const PathSegment&, const PathSegment&) = default;
};

// In the order of time. Every rank class of the run must be recorded.
[[nodiscard]] std::vector<PathSegment> critical_path(const RunResult& run, const Workload& workload);

}  // namespace orrery
