// The slow twin of the executor: works the rules of sim/graph/program.hpp out task by task, by recursion, without
// events, for machines on which nothing contends (no SMs or memory taken by communication, kernels on the compute
// stream only).
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>
#include <vector>

#include "executor_fixtures.hpp"
#include "sim/exec/kernel_time.hpp"

namespace orrery::test {

class ExecutionOracle {
 public:
  ExecutionOracle(const Workload& workload, const ExecutionOptions& options, const SimpleTrafficSettings& traffic,
                  const GpuSpec& gpu)
      : workload_(workload), options_(options), traffic_(traffic), gpu_(gpu) {
    for (std::size_t r = 0; r < workload.ranks(); ++r) {
      memory_.emplace_back(program(r).tasks().size());
      std::map<std::int32_t, std::uint32_t> collectives;
      std::map<std::tuple<TaskKind, RankId, std::int32_t>, std::uint32_t> transfers;
      for (std::size_t t = 0; t < program(r).tasks().size(); ++t) {
        const Task& task = program(r).tasks()[t];
        if (task.kind == TaskKind::collective) {
          const GroupKindId kind = program(r).collective(task).group;
          const CommunicatorId on = workload.communicator_of[kind.index()][r];
          collective_[{on, collectives[kind.value()]++}].emplace_back(r, t);
        }
        if (task.kind != TaskKind::send && task.kind != TaskKind::receive) continue;
        const TransferCall& call = program(r).transfer(task);
        const RankId peer = workload.peer_kinds[call.peer.index()].of[r];
        const std::uint32_t order = transfers[{task.kind, peer, call.tag}]++;
        const bool send = task.kind == TaskKind::send;
        transfer_[{send ? RankId(r) : peer, send ? peer : RankId(r), call.tag, order}].emplace_back(r, t);
      }
    }
    for (const auto& [key, sides] : collective_) note_partners(sides);
    for (const auto& [key, sides] : transfer_) note_partners(sides);
  }

  // When the task ends.
  Instant end(std::size_t r, std::size_t t) {
    std::optional<Instant>& known = memory_[r][t].end;
    if (!known) known = work_out_end(r, t);
    return *known;
  }

  Duration step_time() {
    Instant last{};
    for (std::size_t r = 0; r < workload_.ranks(); ++r) {
      for (std::size_t t = 0; t < program(r).tasks().size(); ++t) last = std::max({last, end(r, t), host_after(r, t)});
    }
    return last - Instant{};
  }

 private:
  struct Known {
    std::optional<Instant> end;
    std::optional<Instant> host_after;
    std::vector<std::pair<std::size_t, std::size_t>> partners;  // all sides of its communication
  };

  [[nodiscard]] const Program& program(std::size_t r) const { return workload_.programs[workload_.role_of[r].index()]; }

  void note_partners(const std::vector<std::pair<std::size_t, std::size_t>>& sides) {
    for (const auto& [r, t] : sides) memory_[r][t].partners = sides;
  }

  // What must have ended before it: its dependencies and the task before it on its stream.
  Instant after_others(std::size_t r, std::size_t t) {
    const Task& task = program(r).tasks()[t];
    Instant ready{};
    for (const TaskId before : program(r).dependencies(task)) ready = std::max(ready, end(r, before.index()));
    const std::uint32_t place = program(r).place_in_stream(TaskId(t));
    if (place > 0) ready = std::max(ready, end(r, program(r).on_stream(task.stream)[place - 1].index()));
    return ready;
  }

  // When the host begins to issue the task.
  Instant host_before(std::size_t r, std::size_t t) { return t == 0 ? Instant{} : host_after(r, t - 1); }

  // When the host goes on behind it.
  Instant host_after(std::size_t r, std::size_t t) {
    std::optional<Instant>& known = memory_[r][t].host_after;
    if (known) return *known;
    const Task& task = program(r).tasks()[t];
    known = task.kind == TaskKind::host ? end(r, t) : issued(r, t);
    if (task.blocks_host) known = std::max(*known, end(r, t));
    return *known;
  }

  Instant issued(std::size_t r, std::size_t t) {
    const Task& task = program(r).tasks()[t];
    switch (task.kind) {
      case TaskKind::kernels: {
        Instant launched = host_before(r, t);
        for (std::size_t i = 0; i < program(r).sequence(task).size(); ++i) launched += launch_of(program(r), task, i);
        return launched;
      }
      case TaskKind::copy:
        return host_before(r, t) + options_.launch;
      case TaskKind::host:
        return host_before(r, t);
      default:
        if (task.issue == Issue::opens_call) return host_before(r, t) + options_.launch;
        if (task.issue == Issue::alone) return host_before(r, t) + options_.collective_launch;
        return host_before(r, t) + std::min(options_.collective_launch, options_.driver_launch);
    }
  }

  // What the host needs for the kernel with this index in the task's sequence: with graphs, the first pays for all.
  [[nodiscard]] Duration launch_of(const Program& program, const Task& task, std::size_t index) const {
    const auto cost = [&](KernelId kernel) {
      return workload_.kernels[kernel.index()].within_call ? std::min(options_.launch, options_.driver_launch)
                                                           : options_.launch;
    };
    const KernelSequence& sequence = program.sequence(task);
    if (!options_.graphs) return cost(sequence[index]);
    Duration most{};
    for (const KernelId kernel : sequence) most = std::max(most, cost(kernel));
    return index == 0 ? most : Duration{};
  }

  Instant work_out_end(std::size_t r, std::size_t t) {
    const Task& task = program(r).tasks()[t];
    if (task.kind == TaskKind::host) {
      return std::max(host_before(r, t), after_others(r, t)) + program(r).host_work(task);
    }
    if (task.kind == TaskKind::kernels) {
      Instant cursor = after_others(r, t);
      Instant launched = host_before(r, t);
      std::size_t index = 0;
      for (const KernelId kernel : program(r).sequence(task)) {
        launched += launch_of(program(r), task, index++);
        cursor = std::max(cursor, launched) + time_alone(workload_.kernels[kernel.index()], gpu_);
      }
      return std::max(cursor, host_before(r, t));
    }
    Instant start{};
    for (const auto& [rank, other] : memory_[r][t].partners) {
      start = std::max({start, after_others(rank, other), issued(rank, other)});
    }
    const bool collective = task.kind == TaskKind::collective;
    const Bytes bytes = collective ? program(r).collective(task).bytes : program(r).transfer(task).bytes;
    if (collective && memory_[r][t].partners.size() == 1) return start;
    return start + traffic_.latency + transfer_time(bytes, traffic_.rate);
  }

  const Workload& workload_;
  const ExecutionOptions& options_;
  SimpleTrafficSettings traffic_;
  GpuSpec gpu_;
  std::vector<std::vector<Known>> memory_;  // [ranks][tasks]
  std::map<std::pair<CommunicatorId, std::uint32_t>, std::vector<std::pair<std::size_t, std::size_t>>> collective_;
  std::map<std::tuple<RankId, RankId, std::int32_t, std::uint32_t>, std::vector<std::pair<std::size_t, std::size_t>>>
      transfer_;
};

}  // namespace orrery::test
