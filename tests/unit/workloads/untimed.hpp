// A tiny executor without time: it plays a workload's rules of order (host, streams, dependencies, matching) and tells
// whether every task can end. Anything left over is a deadlock.
#pragma once

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "sim/graph/workload.hpp"

namespace orrery::testing {

class UntimedRun {
 public:
  explicit UntimedRun(const Workload& workload) : w_(workload) {
    for (std::size_t r = 0; r < w_.ranks(); ++r) {
      const Program& p = program(r);
      ranks_.push_back({std::vector<char>(p.tasks().size(), 0), std::vector<std::size_t>(p.streams().size(), 0), 0});
    }
  }

  // The first task that cannot end, or an empty string. Sweeps over the ranks until nothing moves.
  std::string deadlock() {
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < ranks_.size(); ++r) moved = advance(r) || moved;
      moved = complete_collectives() || moved;
      moved = complete_transfers() || moved;
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const auto& ended = ranks_[r].ended;
      const auto stuck = std::find(ended.begin(), ended.end(), 0);
      if (stuck == ended.end()) continue;
      const std::size_t at = static_cast<std::size_t>(stuck - ended.begin());
      return fmt::format("rank {} cannot end task {} ({}, micro-batch {})", r, at,
                         program(r).label(program(r).tasks()[at]), program(r).tasks()[at].micro_batch);
    }
    return {};
  }

 private:
  struct Rank {
    std::vector<char> ended;             // [tasks]
    std::vector<std::size_t> at_stream;  // [streams]: place of the next task
    std::size_t issued = 0;              // tasks that the host has issued
  };

  [[nodiscard]] const Program& program(std::size_t rank) const { return w_.programs[w_.role_of[rank].index()]; }

  void issue(std::size_t r) {
    const auto tasks = program(r).tasks();
    Rank& rank = ranks_[r];
    while (rank.issued < tasks.size()) {
      if (rank.issued > 0 && holds_host(r, tasks[rank.issued - 1]) && rank.ended[rank.issued - 1] == 0) return;
      ++rank.issued;
    }
  }

  // A task that blocks the host, or host work that waits for the GPU.
  [[nodiscard]] bool holds_host(std::size_t r, const Task& task) const {
    return task.blocks_host || (task.kind == TaskKind::host && !program(r).dependencies(task).empty());
  }

  // Ends what can end on its own; communication that is ready is posted.
  bool advance(std::size_t r) {
    issue(r);
    Rank& rank = ranks_[r];
    const Program& p = program(r);
    bool moved = false;
    for (std::size_t s = 0; s < p.streams().size(); ++s) {
      for (;;) {
        const auto on_stream = p.on_stream(StreamId(s));
        if (rank.at_stream[s] == on_stream.size()) break;
        const TaskId id = on_stream[rank.at_stream[s]];
        const Task& task = p.tasks()[id.index()];
        const auto after = p.dependencies(task);
        const bool ready = id.index() < rank.issued && std::all_of(after.begin(), after.end(), [&](TaskId d) {
                             return rank.ended[d.index()] != 0;
                           });
        if (!ready || post(r, id, task)) break;
        end(r, id, s);
        moved = true;
        issue(r);
      }
    }
    return moved;
  }

  void end(std::size_t r, TaskId id, std::size_t stream) {
    ranks_[r].ended[id.index()] = 1;
    ++ranks_[r].at_stream[stream];
  }

  // True when the task is communication: it is then noted as waiting.
  bool post(std::size_t r, TaskId id, const Task& task) {
    if (task.kind == TaskKind::collective) {
      const CollectiveCall& call = program(r).collective(task);
      waiting_collectives_[w_.communicator_of[call.group.index()][r].value()][r] = id;
      return true;
    }
    if (task.kind != TaskKind::send && task.kind != TaskKind::receive) return false;
    const TransferCall& call = program(r).transfer(task);
    const auto me = static_cast<std::int32_t>(r);
    const std::int32_t other = w_.peer_kinds[call.peer.index()].of[r].value();
    const bool sends = task.kind == TaskKind::send;
    auto& meeting = transfers_[sends ? std::tuple{me, other, call.tag} : std::tuple{other, me, call.tag}];
    (sends ? meeting.first : meeting.second) = id;
    return true;
  }

  bool complete_collectives() {
    bool moved = false;
    for (auto& [communicator, members] : waiting_collectives_) {
      if (members.size() < w_.communicators[static_cast<std::size_t>(communicator)].ranks.size()) continue;
      for (const auto& [r, id] : members) end(r, id, program(r).tasks()[id.index()].stream.index());
      members.clear();
      moved = true;
    }
    return moved;
  }

  bool complete_transfers() {
    bool moved = false;
    for (auto& [key, meeting] : transfers_) {
      if (!meeting.first.valid() || !meeting.second.valid()) continue;
      const auto from = static_cast<std::size_t>(std::get<0>(key));
      const auto to = static_cast<std::size_t>(std::get<1>(key));
      end(from, meeting.first, program(from).tasks()[meeting.first.index()].stream.index());
      end(to, meeting.second, program(to).tasks()[meeting.second.index()].stream.index());
      meeting = {};
      moved = true;
    }
    return moved;
  }

  const Workload& w_;
  std::vector<Rank> ranks_;
  std::map<std::int32_t, std::map<std::size_t, TaskId>> waiting_collectives_;  // by communicator
  std::map<std::tuple<std::int32_t, std::int32_t, std::int32_t>, std::pair<TaskId, TaskId>>
      transfers_;  // from, to, tag
};

}  // namespace orrery::testing
