#include "tests/fuzz/path_laws.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "sim/results/critical_path.hpp"
#include "sim/results/step_profile.hpp"

namespace orrery::fuzz {

namespace {

bool on_host(PathActivity activity) {
  return activity == PathActivity::launching || activity == PathActivity::host_work;
}

class PathLaws {
 public:
  PathLaws(const RunResult& run, const Workload& workload) : run_(run), workload_(workload) {}

  std::vector<std::string> broken() && {
    const std::vector<PathSegment> path = critical_path(run_, workload_);
    Instant end{};
    for (std::size_t i = 0; i < path.size(); ++i) {
      const PathSegment& segment = path[i];
      if (segment.begin != end || segment.end <= segment.begin)
        fail("does not begin where the one before it ends", segment);
      end = segment.end;
      if (!lies_in_its_task(segment)) fail("is not where its task is", segment);
      if (i > 0 && !had_to_wait(segment, path[i - 1])) fail("did not wait for the one before it", segment);
    }
    if (end - Instant{} != run_.step_time) {
      broken_.push_back(
          fmt::format("the path ends at {}, the step at {}", (end - Instant{}).count(), run_.step_time.count()));
    }
    if (!path.empty() && !no_cause_before(path.front())) fail("is the first, and waits for something", path.front());
    Duration sum{};
    for (const auto& [kind, share] : profile_of(run_, workload_, path)) {
      sum += share.path;
      if (share.path < Duration{} || share.path_latency > share.path)
        broken_.emplace_back("a share of the path is no part of it");
    }
    if (sum != run_.step_time) {
      broken_.push_back(
          fmt::format("shares of the path are {} in all, the step is {}", sum.count(), run_.step_time.count()));
    }
    return std::move(broken_);
  }

 private:
  void fail(const char* what, const PathSegment& s) {
    broken_.push_back(fmt::format("the segment of class {}, task {}, activity {}, from {} to {} {}", s.rank_class,
                                  s.task.value(), static_cast<int>(s.activity), s.begin.time_since_epoch().count(),
                                  s.end.time_since_epoch().count(), what));
  }
  [[nodiscard]] const Program& program(std::uint32_t r) const { return workload_.programs[run_.ranks[r].role.index()]; }
  [[nodiscard]] const Task& task(const PathSegment& s) const { return program(s.rank_class).tasks()[s.task.index()]; }
  [[nodiscard]] const TaskRecord& record(const PathSegment& s) const {
    return run_.ranks[s.rank_class].tasks[s.task.index()];
  }

  [[nodiscard]] bool lies_in_its_task(const PathSegment& s) const {
    const TaskRecord& found = record(s);
    const TaskKind kind = task(s).kind;
    const auto within = [&](Instant begin, Instant end) { return s.begin >= begin && s.end <= end; };
    switch (s.activity) {
      case PathActivity::kernels:
        return kind == TaskKind::kernels && within(found.begin, found.end);
      case PathActivity::copying:
        return kind == TaskKind::copy && within(found.begin, found.end);
      case PathActivity::latency:
      case PathActivity::transferring:
        return (kind == TaskKind::collective || kind == TaskKind::send || kind == TaskKind::receive) &&
               within(found.active, found.end);
      case PathActivity::launching:
        return kind != TaskKind::host && within(found.issue_begin, found.issued);
      case PathActivity::host_work:
        return kind == TaskKind::host && within(found.issue_begin, found.issued);
    }
    return false;
  }

  // Segments of no length are left out of the path, so that what a segment waited for may be reached through tasks that
  // took no time: it is enough that the rank was held up by something that ended then.
  [[nodiscard]] bool had_to_wait(const PathSegment& s, const PathSegment& before) const {
    if (before.end != s.begin) return false;
    if (s.rank_class == before.rank_class && s.task == before.task) return true;
    // The host goes from task to task, and from what held it up.
    if (on_host(s.activity)) {
      return s.begin == record(s).issue_begin && (!on_host(before.activity) || before.rank_class == s.rank_class);
    }
    const bool begins = s.activity == PathActivity::latency || s.activity == PathActivity::transferring
                            ? s.begin == record(s).active
                            : s.begin == record(s).begin;
    if (!begins) return false;
    // The work of the GPU before it has ended in full.
    return on_host(before.activity) || before.end == record(before).end;
  }

  [[nodiscard]] bool no_cause_before(const PathSegment& s) const { return s.begin == Instant{}; }

  const RunResult& run_;
  const Workload& workload_;
  std::vector<std::string> broken_;
};

}  // namespace

std::vector<std::string> broken_path_laws(const RunResult& run, const Workload& workload) {
  return PathLaws(run, workload).broken();
}

}  // namespace orrery::fuzz
