// A program made ready for playing: what does not depend on the rank is worked out once per role.
//
// The host thread. It issues tasks in program order, and between two synchronisations its progress is a sum of launch
// costs: the same for every rank of the role. So each task carries two offsets (when its issuing begins and when it is
// issued in full), and a rank needs one number, the host's base: issued at base + offset. A synchronisation moves the
// base and nothing else. There are two kinds:
//  - a task that blocks the host: nothing behind it is issued before it has ended;
//  - host work that depends on work of the GPU: it cannot begin before that has ended.
// Up to the next synchronisation that is still open (the horizon) the issue times of all tasks are known in advance.
//
// Host work is done by the host thread itself and occupies no stream; whatever is issued behind it is later anyway, so
// dependencies on host work are dropped, and streams hold the tasks of the GPU only.
//
// The collectives of a group must all be on one stream: a communicator runs its operations one after the other, in the
// order in which they were launched (NCCL makes each launch wait for the one before it), whatever streams they come
// from.
//
// Dependencies. Streams are in order, so "task t has ended" is "its stream has passed place p", and of several
// dependencies on one stream only the last counts.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "sim/graph/program.hpp"
#include "sim/graph/workload.hpp"

namespace orrery {

// What a launch costs the host; see ExecutionOptions. Most of it is the way through the framework. What a call issues
// beyond its first kernel, send or receive costs the driver's part only, if that is less.
//
// With graphs a sequence is one launch, at the driver's part if it belongs to a call as a whole.
struct HostCosts {
  Duration launch{};
  Duration collective_launch{};
  bool graphs = false;
  Duration driver_launch = Duration::max();

  [[nodiscard]] Duration of_kernel(const Kernel& kernel) const {
    return kernel.within_call ? std::min(launch, driver_launch) : launch;
  }
  // When each kernel of the sequence has been launched, from the beginning of the sequence's issuing: [kernels].
  // Saturates.
  [[nodiscard]] std::vector<Duration> launched(const KernelSequence& sequence, std::span<const Kernel> kernels) const;
  // What anything but kernels costs.
  [[nodiscard]] Duration of(const Program& program, const Task& task) const;
};

// The stream must have passed `place`.
struct Dependency {
  std::uint32_t stream = 0;
  std::uint32_t place = 0;
};

struct PlayTask {
  TaskKind kind = TaskKind::kernels;
  bool blocks_host = false;
  bool dates_peak_at_begin = false;  // what it does to memory then is no later than the peak
  bool dates_peak_at_end = false;
  std::uint8_t stream = 0;
  std::uint16_t group_kind = 0;  // of a collective
  std::uint32_t payload = 0;     // kernels: index through all programs; collective: its call in the CallTable
  std::uint32_t ordinal = 0;     // of a collective, among those of its group kind in this program
  std::uint32_t dependencies_begin = 0;
  std::uint32_t dependencies_end = 0;
  Duration issue_begin{};   // offsets from the host's base
  Duration first_issued{};  // kernels: when the first of them is launched
  Duration issued{};
};

// A place in the program at which the host may have to wait.
struct Synchronisation {
  std::uint32_t task = 0;
  bool host_work = false;     // otherwise: a task of the GPU that blocks the host
  std::uint32_t horizon = 0;  // tasks below are issued without waiting for this
};

// The distinct collectives of each group kind, over all programs: members of a communicator must agree.
using CallTable = std::vector<std::vector<CollectiveCall>>;  // [group kinds]

struct PlayProgram {
  const Program* program = nullptr;
  std::vector<PlayTask> tasks;
  std::vector<Dependency> dependencies;
  std::vector<Synchronisation> synchronisations;
  std::vector<std::vector<std::uint32_t>> stream_tasks;      // [streams] tasks of the GPU, in order
  std::vector<std::vector<std::uint32_t>> collective_tasks;  // [group kinds][ordinals]
  std::uint32_t compute_stream = kNoStream;                  // the first that is marked so
  std::uint64_t urgent_streams = 0;                          // a bit for each whose kernels do not wait their turn
  std::vector<std::uint32_t> dated_host_tasks;               // host work that dates the peak of memory
  std::uint32_t gpu_tasks = 0;
  Duration host_total{};  // offset at which the last task is issued; cut at kTooLong

  static constexpr std::uint32_t kNoStream = 0xff;
  static constexpr std::size_t kMaxStreams = 63;  // a bit each in a word, and one for the host

  [[nodiscard]] std::span<const Dependency> dependencies_of(const PlayTask& task) const {
    return std::span(dependencies).subspan(task.dependencies_begin, task.dependencies_end - task.dependencies_begin);
  }
  // Tasks below are issued once `passed` synchronisations are over.
  [[nodiscard]] std::uint32_t horizon(std::size_t passed) const {
    return passed < synchronisations.size() ? synchronisations[passed].horizon
                                            : static_cast<std::uint32_t>(tasks.size());
  }
};

// Sequences of this program are numbered from `first_sequence`. New calls are added to `calls` ([group kinds]).
[[nodiscard]] PlayProgram prepare(const Program& program, std::span<const Kernel> kernels, const HostCosts& costs,
                                  std::uint32_t first_sequence, CallTable& calls);

}  // namespace orrery
