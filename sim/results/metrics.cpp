#include "sim/results/metrics.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>

#include "sim/base/check.hpp"

namespace orrery {

namespace {

struct Interval {
  Duration begin{};
  Duration end{};
};

// The bins that a step is cut into. Bin i is [i, i + 1) x step / bins.
class Bins {
 public:
  Bins(Duration step, int count) : step_(step), count_(count) {
    ORRERY_CHECK(step > Duration::zero() && count > 0, "bins of a step", step.count(), count);
  }

  [[nodiscard]] std::size_t count() const { return static_cast<std::size_t>(count_); }
  // A step lasts below 2^53 ps in practice; a bin edge that is off by a picosecond moves no point of a plot.
  [[nodiscard]] double edge(std::size_t bin) const {
    return static_cast<double>(step_.count()) * static_cast<double>(bin) / count_;
  }
  [[nodiscard]] double end_s(std::size_t bin) const { return edge(bin + 1) / kPicosecondsPerSecond; }
  [[nodiscard]] std::size_t at(Duration time) const {
    const double place = static_cast<double>(time.count()) / static_cast<double>(step_.count()) * count_;
    return std::min(static_cast<std::size_t>(std::max(place, 0.0)), count() - 1);
  }

  // Share of each bin that the intervals cover; they are disjoint and ascend.
  [[nodiscard]] std::vector<double> covered(const std::vector<Interval>& intervals) const {
    std::vector<double> share(count(), 0.0);
    for (const Interval& interval : intervals) cover(interval, 1, share);
    for (double& value : share) value = std::min(value, 1.0);
    return share;
  }

  // Adds to each bin the share of it that the interval covers, times `weight`.
  void cover(const Interval& interval, double weight, std::vector<double>& share) const {
    const auto begin = static_cast<double>(interval.begin.count());
    const auto end = static_cast<double>(interval.end.count());
    for (std::size_t bin = at(interval.begin); bin < count() && edge(bin) < end; ++bin) {
      share[bin] += weight * std::max(0.0, std::min(end, edge(bin + 1)) - std::max(begin, edge(bin))) / edge(1);
    }
  }

 private:
  Duration step_;
  int count_;
};

// The union of intervals, as disjoint ones in order.
std::vector<Interval> merged(std::vector<Interval> intervals) {
  std::sort(intervals.begin(), intervals.end(), [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  std::vector<Interval> result;
  for (const Interval& interval : intervals) {
    if (result.empty() || interval.begin > result.back().end) {
      result.push_back(interval);
    } else {
      result.back().end = std::max(result.back().end, interval.end);
    }
  }
  return result;
}

std::vector<MetricPoint> points_of(const Bins& bins, const std::vector<double>& values) {
  std::vector<MetricPoint> points;
  points.reserve(values.size());
  for (std::size_t bin = 0; bin < values.size(); ++bin) points.push_back({bins.end_s(bin), values[bin]});
  return points;
}

std::string rank_label(const RankResult& rank) { return fmt::format("{}", rank.rank.value()); }

bool is_communication(TaskKind kind) {
  return kind == TaskKind::collective || kind == TaskKind::send || kind == TaskKind::receive;
}

// Kernels run for `busy` of an interval, where in it is not recorded: evenly.
struct KernelInterval {
  Interval interval;
  double busy = 0;  // share
};

// The parts of the interval in which none of the others is; they are disjoint and ascend.
std::vector<Interval> outside(Interval interval, const std::vector<Interval>& others) {
  std::vector<Interval> parts;
  auto other = std::lower_bound(others.begin(), others.end(), interval.begin,
                                [](const Interval& a, Duration begin) { return a.end < begin; });
  for (; other != others.end() && other->begin < interval.end; ++other) {
    if (other->begin > interval.begin) parts.push_back({interval.begin, other->begin});
    interval.begin = std::max(interval.begin, other->end);
  }
  if (interval.begin < interval.end) parts.push_back(interval);
  return parts;
}

// Communication kernels run from end to end; what compute kernels do beside them adds nothing. Kernel sequences take
// turns, so their intervals are disjoint.
MetricSeries utilization(const Bins& bins, const RankResult& rank, const Program& program, bool communication) {
  std::vector<Interval> communicating;
  std::vector<KernelInterval> kernels;
  for (const TaskRecord& record : rank.tasks) {
    const TaskKind kind = program.tasks()[record.task.index()].kind;
    const Interval interval{record.begin.time_since_epoch(), record.end.time_since_epoch()};
    if (kind == TaskKind::kernels && interval.begin < interval.end) {
      const auto length = static_cast<double>((interval.end - interval.begin).count());
      kernels.push_back({interval, 1 - static_cast<double>(record.gaps.count()) / length});
    }
    if (communication && is_communication(kind)) communicating.push_back(interval);
  }
  communicating = merged(std::move(communicating));
  std::vector<double> share = bins.covered(communicating);
  for (const KernelInterval& kernel : kernels) {
    for (const Interval& part : outside(kernel.interval, communicating)) bins.cover(part, kernel.busy, share);
  }
  for (double& value : share) value = std::min(value, 1.0);
  return {{{"rank", rank_label(rank)}}, points_of(bins, share)};
}

MetricSeries memory_usage(const Bins& bins, const RankResult& rank) {
  std::vector<double> largest(bins.count(), 0.0);
  double allocated = 0;
  std::size_t bin = 0;
  for (const MemorySample& sample : rank.memory_over_time) {
    const std::size_t next = bins.at(sample.when.time_since_epoch());
    while (bin < next) largest[++bin] = allocated;  // what was allocated lasts into the bins that follow
    allocated = static_cast<double>(sample.allocated.count());
    largest[bin] = std::max(largest[bin], allocated);
  }
  while (bin + 1 < bins.count()) largest[++bin] = allocated;
  return {{{"rank", rank_label(rank)}}, points_of(bins, largest)};
}

// NCCL's names for the operations, in metric names.
constexpr std::array<std::string_view, kCollectiveOps> kNcclNames{"allreduce", "reducescatter", "allgather",
                                                                  "broadcast", "reduce",        "alltoall"};
constexpr std::string_view kSendReceive = "sendrecv";

struct BinMean {
  double sum = 0;
  int count = 0;
};
using MeansByBin = std::map<std::size_t, BinMean>;
// [operation][group]
using OperationTimes = std::map<std::string, std::map<std::string, MeansByBin>>;

OperationTimes operation_times(const Bins& bins, const RankResult& rank, const Program& program,
                               const Workload& workload) {
  OperationTimes times;
  for (const TaskRecord& record : rank.tasks) {
    const Task& task = program.tasks()[record.task.index()];
    if (!is_communication(task.kind)) continue;
    const bool collective = task.kind == TaskKind::collective;
    const std::string_view operation =
        collective ? kNcclNames[static_cast<std::size_t>(program.collective(task).op)] : kSendReceive;
    const std::string& group = collective ? workload.group_kinds[program.collective(task).group.index()].name
                                          : workload.peer_kinds[program.transfer(task).peer.index()].name;
    BinMean& mean = times[std::string(operation)][group][bins.at(record.end.time_since_epoch())];
    mean.sum += to_seconds(record.end - record.begin) * 1e3;
    ++mean.count;
  }
  return times;
}

void add_operation_times(std::vector<MetricFamily>& families, const Bins& bins, const RunResult& run,
                         const Workload& workload) {
  std::map<std::string, MetricFamily> by_operation;
  for (const RankResult& rank : run.ranks) {
    if (rank.tasks.empty()) continue;
    const OperationTimes times = operation_times(bins, rank, workload.programs[rank.role.index()], workload);
    for (const auto& [operation, groups] : times) {
      MetricFamily& family = by_operation[operation];
      family.name = fmt::format("nccl_{}_time_ms", operation);
      family.help =
          fmt::format("Mean time of the {} operations that ended in the interval, waiting included.", operation);
      for (const auto& [group, means] : groups) {
        MetricSeries& series = family.series.emplace_back();
        series.labels = {{"rank", rank_label(rank)}, {"group", group}};
        for (const auto& [bin, mean] : means) series.points.push_back({bins.end_s(bin), mean.sum / mean.count});
      }
    }
  }
  for (auto& [operation, family] : by_operation) families.push_back(std::move(family));
}

void add_link_utilization(std::vector<MetricFamily>& families, const RunResult& run) {
  MetricFamily family{"link_utilization", "", "Mean use of link capacity over the step.", {}};
  const double end_s = to_seconds(run.step_time);
  for (const auto& [kind, use] : run.utilization_by_link_kind) {
    family.series.push_back({{{"link_kind", kind}}, {{end_s, use}}});
  }
  for (const LinkUse& link : run.busiest_links) {
    family.series.push_back({{{"link_kind", link.kind}, {"link", link.name}}, {{end_s, link.utilization}}});
  }
  if (!family.series.empty()) families.push_back(std::move(family));
}

// Label values may hold anything: OpenMetrics escapes backslash, quote and newline.
std::string escaped(const std::string& value) {
  std::string result;
  for (const char c : value) {
    if (c == '\\' || c == '"') result += '\\';
    result += c == '\n' ? std::string("\\n") : std::string(1, c);
  }
  return result;
}

}  // namespace

std::vector<MetricFamily> metrics_over_time(const RunResult& run, const Workload& workload, int bin_count) {
  const Bins bins(run.step_time, bin_count);
  MetricFamily any{"gpu_utilization", "", "Share of the interval in which any kernel ran on the GPU.", {}};
  MetricFamily compute{"gpu_compute_utilization", "", "Share of the interval in which a compute kernel ran.", {}};
  MetricFamily memory{"gpu_memory_usage_bytes", "bytes", "Largest amount of GPU memory allocated.", {}};
  for (const RankResult& rank : run.ranks) {
    if (!rank.tasks.empty()) {
      const Program& program = workload.programs[rank.role.index()];
      any.series.push_back(utilization(bins, rank, program, true));
      compute.series.push_back(utilization(bins, rank, program, false));
    }
    if (!rank.memory_over_time.empty()) memory.series.push_back(memory_usage(bins, rank));
  }
  std::vector<MetricFamily> families;
  for (MetricFamily* family : {&any, &compute}) {
    if (!family->series.empty()) families.push_back(std::move(*family));
  }
  add_operation_times(families, bins, run, workload);
  if (!memory.series.empty()) families.push_back(std::move(memory));
  add_link_utilization(families, run);
  return families;
}

std::string metrics_csv(const std::vector<MetricFamily>& families) {
  std::string text = "time_s,metric,labels,value\n";
  for (const MetricFamily& family : families) {
    for (const MetricSeries& series : family.series) {
      std::string labels;
      for (const auto& [name, value] : series.labels)
        labels += fmt::format("{}{}={}", labels.empty() ? "" : ";", name, value);
      for (const MetricPoint& point : series.points) {
        fmt::format_to(std::back_inserter(text), "{},{},{},{}\n", point.time_s, family.name, labels, point.value);
      }
    }
  }
  return text;
}

std::string metrics_openmetrics(const std::vector<MetricFamily>& families) {
  std::string text;
  const auto out = std::back_inserter(text);
  for (const MetricFamily& family : families) {
    fmt::format_to(out, "# TYPE {} gauge\n", family.name);
    if (!family.unit.empty()) fmt::format_to(out, "# UNIT {} {}\n", family.name, family.unit);
    fmt::format_to(out, "# HELP {} {}\n", family.name, family.help);
    for (const MetricSeries& series : family.series) {
      std::string labels;
      for (const auto& [name, value] : series.labels) {
        labels += fmt::format("{}{}=\"{}\"", labels.empty() ? "" : ",", name, escaped(value));
      }
      for (const MetricPoint& point : series.points) {
        fmt::format_to(out, "{}{{{}}} {} {}\n", family.name, labels, point.value, point.time_s);
      }
    }
  }
  text += "# EOF\n";
  return text;
}

}  // namespace orrery
