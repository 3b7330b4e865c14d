#include "sim/results/critical_path.hpp"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "sim/base/check.hpp"

namespace orrery {

namespace {

constexpr std::uint32_t kNone = 0xffffffff;

bool is_transfer(TaskKind kind) { return kind == TaskKind::send || kind == TaskKind::receive; }

// What a program does not say at once: which task of the GPU is before which, and the how manieth of its kind.
struct ProgramIndex {
  explicit ProgramIndex(const Program& program, std::size_t group_kinds) : collectives(group_kinds) {
    const auto tasks = program.tasks();
    std::vector<std::uint32_t> last(program.streams().size(), kNone);
    std::vector<bool> computes(program.streams().size());
    before.reserve(tasks.size());
    ordinal.reserve(tasks.size());
    for (std::uint32_t t = 0; t < tasks.size(); ++t) {
      const Task& task = tasks[t];
      std::uint32_t& latest = last[task.stream.index()];
      before.push_back(latest);
      if (task.kind != TaskKind::host) latest = t;
      if (task.kind == TaskKind::kernels) computes[task.stream.index()] = true;
      std::vector<std::uint32_t>* alike = nullptr;
      if (task.kind == TaskKind::collective) alike = &collectives[program.collective(task).group.index()];
      if (is_transfer(task.kind)) alike = &transfers[key_of(task.kind, program.transfer(task))];
      ordinal.push_back(alike == nullptr ? kNone : static_cast<std::uint32_t>(alike->size()));
      if (alike != nullptr) alike->push_back(t);
    }
    kernel_streams = std::count(computes.begin(), computes.end(), true);
  }

  // Sends or receives, peer, tag.
  using TransferKey = std::tuple<TaskKind, std::uint32_t, std::int32_t>;
  static TransferKey key_of(TaskKind kind, const TransferCall& call) {
    return {kind, static_cast<std::uint32_t>(call.peer.index()), call.tag};
  }

  std::vector<std::uint32_t> before;                    // [tasks] the GPU's task before it on its stream
  std::vector<std::uint32_t> ordinal;                   // [tasks] of communication, among its like
  std::vector<std::vector<std::uint32_t>> collectives;  // [group kinds][ordinals]
  std::map<TransferKey, std::vector<std::uint32_t>> transfers;
  std::int64_t kernel_streams = 0;
};

class Walk {
 public:
  Walk(const RunResult& run, const Workload& workload)
      : run_(run),
        workload_(workload),
        indices_(workload.programs.size()),
        kernels_(run.ranks.size()),
        classes_of_(workload.communicators.size()) {}

  std::vector<PathSegment> run() && {
    find_end();
    while (now_ > Instant{}) {
      if (on_host_) {
        leave_host_task();
      } else {
        leave_gpu_task();
      }
    }
    std::reverse(segments_.begin(), segments_.end());
    return std::move(segments_);
  }

 private:
  [[nodiscard]] const RankResult& rank() const { return run_.ranks[rank_]; }
  [[nodiscard]] const TaskRecord& record(std::uint32_t r, std::uint32_t t) const { return run_.ranks[r].tasks[t]; }
  [[nodiscard]] const Program& program(std::uint32_t r) const { return workload_.programs[run_.ranks[r].role.index()]; }
  [[nodiscard]] const Task& task(std::uint32_t r, std::uint32_t t) const { return program(r).tasks()[t]; }

  const ProgramIndex& index(std::uint32_t r) {
    std::unique_ptr<ProgramIndex>& known = indices_[run_.ranks[r].role.index()];
    if (!known) known = std::make_unique<ProgramIndex>(program(r), workload_.group_kinds.size());
    return *known;
  }

  // The task that ends last: of the lowest class, and there the last in the program.
  void find_end() {
    for (std::uint32_t r = 0; r < run_.ranks.size(); ++r) {
      ORRERY_CHECK(run_.ranks[r].tasks.size() == program(r).tasks().size(),
                   "a critical path needs all classes recorded", r, run_.ranks[r].tasks.size());
      for (std::uint32_t t = 0; t < run_.ranks[r].tasks.size(); ++t) {
        const Instant end = record(r, t).end;
        if (end < now_ || (end == now_ && r != rank_)) continue;
        now_ = end;
        rank_ = r;
        task_ = t;
      }
    }
    ORRERY_CHECK(now_ - Instant{} == run_.step_time, "the last task ends with the step",
                 now_.time_since_epoch().count(), run_.step_time.count());
    if (now_ > Instant{}) on_host_ = task(rank_, task_).kind == TaskKind::host;
  }

  // From now back to `begin` the path is at the present task.
  void go_back(PathActivity activity, Instant begin) {
    ORRERY_CHECK(begin <= now_, "the path goes back in time", rank_, task_, begin.time_since_epoch().count(),
                 now_.time_since_epoch().count());
    if (begin == now_) return;
    segments_.push_back({rank_, TaskId(std::size_t{task_}), activity, begin, now_});
    now_ = begin;
  }

  void stand_at(std::uint32_t t, bool on_host) {
    task_ = t;
    on_host_ = on_host;
  }

  // A task of the GPU that ends now: back to where it began, and on to what held it up.
  void leave_gpu_task() {
    const TaskRecord& found = record(rank_, task_);
    switch (task(rank_, task_).kind) {
      case TaskKind::kernels:
        if (found.late_launch >= found.begin) {
          go_back(PathActivity::kernels, found.late_launch);
          on_host_ = true;
          return;
        }
        go_back(PathActivity::kernels, found.begin);
        break;
      case TaskKind::copy:
        go_back(PathActivity::copying, found.begin);
        break;
      case TaskKind::collective:
      case TaskKind::send:
      case TaskKind::receive:
        go_back(PathActivity::transferring, std::min(found.end, found.active + found.latency));
        go_back(PathActivity::latency, found.active);
        if (found.begin < found.active) go_to_last_side();
        break;
      case TaskKind::host:
        ORRERY_CHECK(false, "host work is no task of the GPU", rank_, task_);
    }
    if (const auto held_up_by = ended_now()) {
      stand_at(*held_up_by, false);
    } else {
      on_host_ = true;
    }
  }

  // Of what the present task waits for, something that ends now.
  std::optional<std::uint32_t> ended_now() {
    const auto ends_now = [&](std::uint32_t t) {
      return t != kNone && task(rank_, t).kind != TaskKind::host && record(rank_, t).end == now_;
    };
    const Task& present = task(rank_, task_);
    if (const std::uint32_t before = index(rank_).before[task_]; ends_now(before)) return before;
    for (const TaskId dependency : program(rank_).dependencies(present)) {
      const auto t = static_cast<std::uint32_t>(dependency.index());
      if (ends_now(t)) return t;
    }
    if (present.kind == TaskKind::kernels && index(rank_).kernel_streams > 1) return kernels_ended_now();
    return std::nullopt;
  }

  // The kernels that had the GPU until now. Those that took no time kept nobody waiting.
  std::optional<std::uint32_t> kernels_ended_now() {
    std::vector<std::uint32_t>& order = kernels_[rank_];
    if (order.empty()) order = kernels_by_end(rank_);
    const auto found = std::lower_bound(order.begin(), order.end(), now_,
                                        [&](std::uint32_t t, Instant when) { return record(rank_, t).end < when; });
    if (found == order.end() || record(rank_, *found).end != now_) return std::nullopt;
    return *found;
  }

  std::vector<std::uint32_t> kernels_by_end(std::uint32_t r) const {
    std::vector<std::uint32_t> order;
    for (std::uint32_t t = 0; t < run_.ranks[r].tasks.size(); ++t) {
      if (task(r, t).kind == TaskKind::kernels && record(r, t).begin < record(r, t).end) order.push_back(t);
    }
    // Kernels take turns, so that no two end at once.
    std::sort(order.begin(), order.end(),
              [&](std::uint32_t a, std::uint32_t b) { return record(r, a).end < record(r, b).end; });
    return order;
  }

  // The host thread is at the present task now: back to where it began with it, and on to what it did before.
  void leave_host_task() {
    const Task& present = task(rank_, task_);
    go_back(present.kind == TaskKind::host ? PathActivity::host_work : PathActivity::launching,
            record(rank_, task_).issue_begin);
    if (now_ == Instant{}) return;
    ORRERY_CHECK(task_ > 0, "the host begins when the step does", rank_, now_.time_since_epoch().count());
    const std::uint32_t before = task_ - 1;
    const bool blocked = task(rank_, before).blocks_host && task(rank_, before).kind != TaskKind::host;
    const Instant free_again = blocked ? record(rank_, before).end : record(rank_, before).issued;
    if (free_again == now_) return stand_at(before, !blocked);
    const auto held_up_by = ended_now();
    ORRERY_CHECK(present.kind == TaskKind::host && held_up_by.has_value(), "the host stands still for the GPU only",
                 rank_, task_, now_.time_since_epoch().count());
    stand_at(*held_up_by, false);
  }

  // The present communication waited for another side: to the one that arrived now.
  void go_to_last_side() {
    const auto arrived_now = [&](std::uint32_t r, std::uint32_t t) {
      if (t == kNone || record(r, t).begin != now_ || record(r, t).active != now_) return false;
      rank_ = r;
      task_ = t;
      return true;
    };
    const Program& mine = program(rank_);
    const Task& present = task(rank_, task_);
    const std::uint32_t ordinal = index(rank_).ordinal[task_];
    const std::uint32_t from = task_;
    if (present.kind == TaskKind::collective) {
      const std::size_t group = mine.collective(present).group.index();
      for (const std::uint32_t r : classes_in(workload_.communicator_of[group][rank().rank.index()])) {
        const auto& collectives = index(r).collectives[group];
        if (ordinal < collectives.size() && arrived_now(r, collectives[ordinal])) return;
      }
    } else {
      const TransferCall& call = mine.transfer(present);
      const RankId partner = workload_.peer_kinds[call.peer.index()].of[rank().rank.index()];
      const std::uint32_t r = run_.class_of[partner.index()];
      if (arrived_now(r, other_side(partner, ordinal))) return;
    }
    ORRERY_CHECK(false, "some side of a communication arrives last", rank_, from, now_.time_since_epoch().count());
  }

  // The partner's task that meets the present transfer: of those with this tag and this rank the one at the same place,
  // or, where several streams share a tag, the one of the same times.
  std::uint32_t other_side(RankId partner, std::uint32_t ordinal) {
    const std::uint32_t r = run_.class_of[partner.index()];
    const TaskKind kind = task(rank_, task_).kind == TaskKind::send ? TaskKind::receive : TaskKind::send;
    const std::int32_t tag = program(rank_).transfer(task(rank_, task_)).tag;
    const TaskRecord& mine = record(rank_, task_);
    const auto meets = [&](std::uint32_t t) {
      return record(r, t).active == mine.active && record(r, t).end == mine.end;
    };
    for (std::size_t peer = 0; peer < workload_.peer_kinds.size(); ++peer) {
      if (workload_.peer_kinds[peer].of[partner.index()] != rank().rank) continue;
      const auto found = index(r).transfers.find({kind, static_cast<std::uint32_t>(peer), tag});
      if (found == index(r).transfers.end()) continue;
      const std::vector<std::uint32_t>& alike = found->second;
      if (ordinal < alike.size() && meets(alike[ordinal])) return alike[ordinal];
      const auto other = std::find_if(alike.begin(), alike.end(), meets);
      if (other != alike.end()) return *other;
    }
    return kNone;
  }

  const std::vector<std::uint32_t>& classes_in(CommunicatorId communicator) {
    std::vector<std::uint32_t>& classes = classes_of_[communicator.index()];
    if (classes.empty()) {
      for (const RankId member : workload_.communicators[communicator.index()].ranks) {
        classes.push_back(run_.class_of[member.index()]);
      }
      std::sort(classes.begin(), classes.end());
      classes.erase(std::unique(classes.begin(), classes.end()), classes.end());
    }
    return classes;
  }

  const RunResult& run_;
  const Workload& workload_;
  std::vector<std::unique_ptr<ProgramIndex>> indices_;  // [roles]
  std::vector<std::vector<std::uint32_t>> kernels_;     // [rank classes] by end; of programs with several such streams
  std::vector<std::vector<std::uint32_t>> classes_of_;  // [communicators]
  std::vector<PathSegment> segments_;                   // the last of the step first
  // Where the walk stands.
  Instant now_{};
  std::uint32_t rank_ = 0;
  std::uint32_t task_ = 0;
  bool on_host_ = false;  // at the host's part of the task
};

}  // namespace

std::vector<PathSegment> critical_path(const RunResult& run, const Workload& workload) {
  return Walk(run, workload).run();
}

}  // namespace orrery
