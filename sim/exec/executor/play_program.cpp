#include "sim/exec/executor/play_program.hpp"

#include <algorithm>

#include "sim/base/check.hpp"
#include "sim/exec/longest_step.hpp"

namespace orrery {

namespace {

std::uint32_t intern(std::vector<CollectiveCall>& calls, const CollectiveCall& call) {
  const auto found = std::find(calls.begin(), calls.end(), call);
  const auto index = static_cast<std::uint32_t>(found - calls.begin());
  if (found == calls.end()) calls.push_back(call);
  return index;
}

// Adds "stream has passed place" to those from `begin` on, or raises the one that names the stream.
void require(std::vector<Dependency>& dependencies, std::size_t begin, Dependency wanted) {
  for (std::size_t i = begin; i < dependencies.size(); ++i) {
    if (dependencies[i].stream != wanted.stream) continue;
    dependencies[i].place = std::max(dependencies[i].place, wanted.place);
    return;
  }
  dependencies.push_back(wanted);
}

class Preparation {
 public:
  Preparation(const Program& program, std::span<const Kernel> kernels, const HostCosts& costs,
              std::uint32_t first_sequence, CallTable& calls)
      : program_(program), costs_(costs), first_sequence_(first_sequence), calls_(calls) {
    ORRERY_CHECK(program.streams().size() <= PlayProgram::kMaxStreams, "too many streams", program.streams().size());
    play_.program = &program;
    play_.stream_tasks.resize(program.streams().size());
    play_.collective_tasks.resize(calls.size());
    for (const KernelSequence& sequence : program.sequences()) {
      const std::vector<Duration> launched = costs.launched(sequence, kernels);
      launches_.push_back(launched.empty() ? Launches{} : Launches{launched.front(), launched.back()});
    }
    for (std::size_t s = 0; s < program.streams().size(); ++s) {
      const Stream& stream = program.streams()[s];
      if (stream.urgent) play_.urgent_streams |= std::uint64_t{1} << s;
      if (stream.compute && play_.compute_stream == PlayProgram::kNoStream) {
        play_.compute_stream = static_cast<std::uint32_t>(s);
      }
    }
  }

  PlayProgram run() && {
    play_.tasks.reserve(program_.tasks().size());
    place_.reserve(program_.tasks().size());
    for (const Task& task : program_.tasks()) add(task);
    return std::move(play_);
  }

 private:
  void add(const Task& task) {
    const auto id = static_cast<std::uint32_t>(play_.tasks.size());
    PlayTask play{.kind = task.kind, .stream = static_cast<std::uint8_t>(task.stream.index()), .payload = task.payload};
    play.issue_begin = play_.host_total;
    const bool kernels = task.kind == TaskKind::kernels;
    const Launches launches = kernels ? launches_[task.payload] : Launches{};
    play.first_issued = bounded(saturating_add(play_.host_total, launches.first));
    const Duration cost = kernels ? launches.all : costs_.of(program_, task);
    play.issued = play_.host_total = bounded(saturating_add(play_.host_total, cost));
    add_dependencies(task, play);
    if (task.kind == TaskKind::host) {
      place_.push_back(0);
      if (play.dependencies_begin < play.dependencies_end) play_.synchronisations.push_back({id, true, id});
      play_.tasks.push_back(play);
      return;
    }
    auto& stream = play_.stream_tasks[play.stream];
    place_.push_back(static_cast<std::uint32_t>(stream.size()));
    stream.push_back(id);
    ++play_.gpu_tasks;
    if (task.kind == TaskKind::kernels) play.payload += first_sequence_;
    if (task.kind == TaskKind::collective) add_collective(id, task, play);
    if (task.blocks_host) {
      play.blocks_host = true;
      play_.synchronisations.push_back({id, false, id + 1});
    }
    play_.tasks.push_back(play);
  }

  void add_dependencies(const Task& task, PlayTask& play) {
    const std::size_t begin = play_.dependencies.size();
    for (const TaskId before : program_.dependencies(task)) {
      const PlayTask& other = play_.tasks[before.index()];
      if (other.kind == TaskKind::host) continue;
      require(play_.dependencies, begin, {other.stream, place_[before.index()]});
    }
    // Host work in the middle of a GPU's stream waits for what is ahead of it there.
    const auto& stream = play_.stream_tasks[play.stream];
    if (task.kind == TaskKind::host && !stream.empty()) {
      require(play_.dependencies, begin, {play.stream, static_cast<std::uint32_t>(stream.size() - 1)});
    }
    play.dependencies_begin = static_cast<std::uint32_t>(begin);
    play.dependencies_end = static_cast<std::uint32_t>(play_.dependencies.size());
  }

  void add_collective(std::uint32_t id, const Task& task, PlayTask& play) {
    const CollectiveCall& call = program_.collective(task);
    auto& tasks = play_.collective_tasks[call.group.index()];
    if (!tasks.empty()) {
      ORRERY_CHECK(play_.tasks[tasks.front()].stream == play.stream, "the collectives of a group are on one stream",
                   program_.streams()[task.stream.index()].name, id);
    }
    play.group_kind = static_cast<std::uint16_t>(call.group.index());
    play.ordinal = static_cast<std::uint32_t>(tasks.size());
    if (task.payload >= call_of_.size()) call_of_.resize(task.payload + 1, kUnknown);
    if (call_of_[task.payload] == kUnknown) call_of_[task.payload] = intern(calls_[call.group.index()], call);
    play.payload = call_of_[task.payload];
    tasks.push_back(id);
  }

  static constexpr std::uint32_t kUnknown = 0xffffffff;

  struct Launches {
    Duration first{};
    Duration all{};
  };

  const Program& program_;
  const HostCosts& costs_;
  std::uint32_t first_sequence_;
  CallTable& calls_;
  PlayProgram play_;
  std::vector<Launches> launches_;      // [sequences of the program]
  std::vector<std::uint32_t> place_;    // [tasks] in its stream, host work not counted
  std::vector<std::uint32_t> call_of_;  // [collectives of the program] index in the call table
};

}  // namespace

std::vector<Duration> HostCosts::launched(const KernelSequence& sequence, std::span<const Kernel> kernels) const {
  std::vector<Duration> launched;
  launched.reserve(sequence.size());
  Duration sum{};
  Duration most{};
  for (const KernelId id : sequence) {
    const Duration cost = of_kernel(kernels[id.index()]);
    most = std::max(most, cost);
    sum = saturating_add(sum, cost);
    launched.push_back(sum);
  }
  if (graphs) std::fill(launched.begin(), launched.end(), most);
  return launched;
}

Duration HostCosts::of(const Program& program, const Task& task) const {
  switch (task.kind) {
    case TaskKind::kernels:
      break;
    case TaskKind::collective:
    case TaskKind::send:
    case TaskKind::receive:
      switch (task.issue) {
        case Issue::alone:
          return collective_launch;
        case Issue::opens_call:
          return launch;
        case Issue::within_call:
          return std::min(collective_launch, driver_launch);
      }
      break;
    case TaskKind::copy:
      return launch;
    case TaskKind::host:
      return program.host_work(task);
  }
  return {};
}

PlayProgram prepare(const Program& program, std::span<const Kernel> kernels, const HostCosts& costs,
                    std::uint32_t first_sequence, CallTable& calls) {
  return Preparation(program, kernels, costs, first_sequence, calls).run();
}

}  // namespace orrery
