// A step's metrics over time, under the names that operators of real clusters watch, so that a simulated step can be
// laid beside a dashboard. The step is cut into equal bins; a point stands at the end of its bin.
//
//   gpu_utilization{rank}          share of the bin in which any kernel ran, communication kernels that wait included:
//                                  what nvidia-smi calls utilization
//   gpu_compute_utilization{rank}  share of the bin in which a compute kernel ran
//   nccl_<op>_time_ms{rank,group}  mean over the operations that ended in the bin, from posting to end (waiting for
//                                  partners included, as a profiler sees it); sendrecv for point-to-point transfers
//   gpu_memory_usage_bytes{rank}   largest amount allocated during the bin
//   link_utilization{link_kind} and {link}  mean over the step: one point
//
// Only recorded ranks have series. What a run does not know (data_loader_queue_size without a data pipeline) is absent.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "sim/graph/workload.hpp"
#include "sim/results/run_result.hpp"

namespace orrery {

struct MetricPoint {
  double time_s = 0;
  double value = 0;
};

struct MetricSeries {
  std::vector<std::pair<std::string, std::string>> labels;
  std::vector<MetricPoint> points;  // times ascend
};

struct MetricFamily {
  std::string name;
  std::string unit;  // as OpenMetrics asks: the name's last word where that is a unit, otherwise empty
  std::string help;
  std::vector<MetricSeries> series;  // at least one
};

inline constexpr int kMetricBins = 200;

[[nodiscard]] std::vector<MetricFamily> metrics_over_time(const RunResult& run, const Workload& workload,
                                                          int bins = kMetricBins);

// Columns time_s, metric, labels ("rank=0;group=data"), value: one point a row.
[[nodiscard]] std::string metrics_csv(const std::vector<MetricFamily>& families);

// OpenMetrics 1.0 text; time zero is the start of the step.
[[nodiscard]] std::string metrics_openmetrics(const std::vector<MetricFamily>& families);

}  // namespace orrery
