#include "sim/results/step_profile.hpp"

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/base/int128.hpp"
#include "sim/graph/peer_name.hpp"

namespace orrery {

namespace {

// What a GPU has to send at least, in a group of n: a reduction as a scatter and a gather, which no algorithm undercuts
// (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009).
double bytes_sent(CollectiveOp op, Bytes buffer, std::size_t members) {
  if (members <= 1) return 0;
  const double share = static_cast<double>(members - 1) / static_cast<double>(members);
  const auto bytes = static_cast<double>(buffer.count());
  switch (op) {
    case CollectiveOp::all_reduce:
      return 2 * share * bytes;
    case CollectiveOp::reduce_scatter:
    case CollectiveOp::all_gather:
    case CollectiveOp::all_to_all:
    case CollectiveOp::broadcast:
    case CollectiveOp::reduce:
      return share * bytes;
  }
  return 0;
}

// How long kernels run between two moments.
class KernelTimes {
 public:
  KernelTimes(const RankResult& rank, const Program& program) : records_(rank.tasks) {
    for (std::uint32_t t = 0; t < rank.tasks.size(); ++t) {
      const TaskRecord& record = rank.tasks[t];
      if (program.tasks()[t].kind == TaskKind::kernels && record.begin < record.end) order_.push_back(t);
    }
    std::sort(order_.begin(), order_.end(),
              [&](std::uint32_t a, std::uint32_t b) { return records_[a].begin < records_[b].begin; });
  }

  // Calls use(task, time) for the kernels that run in [begin, end). Where in a sequence its gaps are is not recorded:
  // evenly.
  template <class Use>
  void within(Instant begin, Instant end, Use&& use) const {
    auto found = std::lower_bound(order_.begin(), order_.end(), begin,
                                  [&](std::uint32_t t, Instant when) { return records_[t].end <= when; });
    for (; found != order_.end() && records_[*found].begin < end; ++found) {
      const TaskRecord& record = records_[*found];
      const Duration part = std::min(end, record.end) - std::max(begin, record.begin);
      const Int128 gaps = static_cast<Int128>(part.count()) * record.gaps.count() / (record.end - record.begin).count();
      use(*found, part - Duration(static_cast<std::int64_t>(gaps)));
    }
  }

 private:
  std::span<const TaskRecord> records_;
  std::vector<std::uint32_t> order_;  // by begin and, as kernels take turns, by end
};

bool is_pass(Phase phase) {
  return phase == Phase::forward || phase == Phase::backward || phase == Phase::weight_gradient ||
         phase == Phase::optimizer;
}

// [tasks] The pass that each belongs to: see WorkKind::during.
std::vector<Phase> passes_of(const Program& program) {
  const auto tasks = program.tasks();
  std::vector<Phase> passes(tasks.size());
  Phase last = Phase::other;
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    if (tasks[t].kind == TaskKind::kernels && is_pass(tasks[t].phase)) last = tasks[t].phase;
    passes[t] = tasks[t].phase == Phase::gradient_reduction ? last : tasks[t].phase;
  }
  Phase next = Phase::other;
  for (std::size_t t = tasks.size(); t-- > 0;) {
    if (tasks[t].kind == TaskKind::kernels && is_pass(tasks[t].phase)) next = tasks[t].phase;
    if (tasks[t].phase == Phase::parameter_gather) passes[t] = next;
  }
  return passes;
}

class Profile {
 public:
  Profile(const RunResult& run, const Workload& workload)
      : run_(run), workload_(workload), kernels_(run.ranks.size()) {}

  StepProfile of(std::span<const PathSegment> path) && {
    for (const PathSegment& segment : path) add_path(segment);
    for (std::uint32_t r = 0; r < run_.ranks.size(); ++r) add_rank(run_.ranks[r]);
    const auto ranks = static_cast<double>(run_.class_of.size());
    StepProfile profile;
    for (auto& [kind, found] : found_) {
      WorkShare& share = found.share;
      share.busy_s = static_cast<double>(found.busy) / ranks / kPicosecondsPerSecond;
      for (double* sum : {&share.count, &share.bytes, &share.flops, &share.kernels}) *sum /= ranks;
      profile.emplace(kind, share);
    }
    return profile;
  }

 private:
  struct Found {
    WorkShare share;  // sums over GPUs, except for the path's
    Int128 busy = 0;  // picoseconds of all GPUs
  };

  [[nodiscard]] const Program& program(const RankResult& rank) const { return workload_.programs[rank.role.index()]; }

  // The entry of a task's kind. They are remembered by task of the role's program: names are put together once.
  Found& entry(const RankResult& rank, std::uint32_t t, bool launching) {
    std::vector<std::array<Found*, 2>>& known = entries_[rank.role];
    known.resize(program(rank).tasks().size());
    Found*& found = known[t][launching ? 1 : 0];
    if (found == nullptr) found = &found_[launching ? launching_of(program(rank).tasks()[t]) : kind_of(rank, t)];
    return *found;
  }

  static WorkKind launching_of(const Task& task) { return {Work::launching, task.phase, task.phase, {}, {}, {}}; }

  WorkKind kind_of(const RankResult& rank, std::uint32_t t) {
    const Task& task = program(rank).tasks()[t];
    const std::string label(program(rank).label(task));
    switch (task.kind) {
      case TaskKind::kernels:
        return {Work::compute, task.phase, task.phase, {}, {}, label};
      case TaskKind::copy:
        return {Work::copying, task.phase, task.phase, {}, {}, label};
      case TaskKind::host:
        return {Work::host_work, task.phase, task.phase, {}, {}, label};
      case TaskKind::send:
      case TaskKind::receive:
        return {Work::communication,
                task.phase,
                task.phase,
                std::string(direction_dropped(workload_.peer_kinds[program(rank).transfer(task).peer.index()].name)),
                "transfer",
                {}};
      case TaskKind::collective:
        break;
    }
    const CollectiveCall& call = program(rank).collective(task);
    std::vector<Phase>& passes = passes_[rank.role];
    if (passes.empty()) passes = passes_of(program(rank));
    return {Work::communication,           task.phase, passes[t], workload_.group_kinds[call.group.index()].name,
            std::string(name_of(call.op)), label};
  }

  void add_path(const PathSegment& segment) {
    const RankResult& rank = run_.ranks[segment.rank_class];
    const auto t = static_cast<std::uint32_t>(segment.task.index());
    const Duration whole = segment.end - segment.begin;
    if (segment.activity == PathActivity::kernels) {
      entry(rank, t, false).share.path += whole;
      return;
    }
    std::unique_ptr<KernelTimes>& kernels = kernels_[segment.rank_class];
    if (!kernels) kernels = std::make_unique<KernelTimes>(rank, program(rank));
    Duration hidden{};
    kernels->within(segment.begin, segment.end, [&](std::uint32_t other, Duration time) {
      entry(rank, other, false).share.path += time;
      hidden += time;
    });
    WorkShare& share = entry(rank, t, segment.activity == PathActivity::launching).share;
    share.path += whole - hidden;
    if (segment.activity == PathActivity::latency) share.path_latency += whole - hidden;
  }

  void add_rank(const RankResult& rank) {
    const auto weight = static_cast<double>(rank.multiplicity);
    for (std::uint32_t t = 0; t < rank.tasks.size(); ++t) {
      const Task& task = program(rank).tasks()[t];
      const TaskRecord& record = rank.tasks[t];
      if (task.kind != TaskKind::host) book(entry(rank, t, true), rank, record.issued - record.issue_begin);
      if (task.kind == TaskKind::send) continue;  // its receiver counts it
      Found& found = entry(rank, t, false);
      book(found, rank, busy_time(task, record));
      found.share.count += weight;
      add_amounts(found.share, rank, task, weight);
    }
  }

  static void book(Found& found, const RankResult& rank, Duration time) {
    found.busy += static_cast<Int128>(time.count()) * rank.multiplicity;
  }

  static Duration busy_time(const Task& task, const TaskRecord& record) {
    return task.kind == TaskKind::kernels ? record.end - record.begin - record.gaps : record.end - record.active;
  }

  void add_amounts(WorkShare& share, const RankResult& rank, const Task& task, double weight) const {
    switch (task.kind) {
      case TaskKind::kernels:
        for (const KernelId id : program(rank).sequence(task)) {
          const Kernel& kernel = workload_.kernels[id.index()];
          share.flops += weight * kernel.flops.count();
          share.bytes += weight * static_cast<double>(kernel.bytes.count());
          share.kernels += weight;
        }
        return;
      case TaskKind::collective: {
        const CollectiveCall& call = program(rank).collective(task);
        const CommunicatorId group = workload_.communicator_of[call.group.index()][rank.rank.index()];
        share.bytes += weight * bytes_sent(call.op, call.bytes, workload_.communicators[group.index()].ranks.size());
        return;
      }
      case TaskKind::receive:
        share.bytes += weight * static_cast<double>(program(rank).transfer(task).bytes.count());
        return;
      case TaskKind::copy:
        share.bytes += weight * static_cast<double>(program(rank).copy(task).bytes.count());
        return;
      case TaskKind::send:
      case TaskKind::host:
        return;
    }
  }

  const RunResult& run_;
  const Workload& workload_;
  std::vector<std::unique_ptr<KernelTimes>> kernels_;             // [rank classes] made when asked for
  std::map<WorkKind, Found> found_;                               // entries stay where they are
  std::map<RoleId, std::vector<Phase>> passes_;                   // [roles][tasks] of those with communication
  std::map<RoleId, std::vector<std::array<Found*, 2>>> entries_;  // [roles][tasks]: itself, its launching
};

}  // namespace

StepProfile profile_of(const RunResult& run, const Workload& workload, std::span<const PathSegment> path) {
  return Profile(run, workload).of(path);
}

}  // namespace orrery
