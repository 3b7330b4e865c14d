// Metrics over time, by hand.
#include "sim/results/metrics.hpp"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/results/made_run.hpp"

using namespace orrery;
using namespace orrery::literals;

namespace {

std::vector<double> values_of(const std::vector<MetricFamily>& families, const std::string& name) {
  const auto found = std::find_if(families.begin(), families.end(), [&](const auto& f) { return f.name == name; });
  REQUIRE(found != families.end());
  std::vector<double> values;
  for (const MetricPoint& point : found->series.at(0).points) values.push_back(point.value);
  return values;
}

}  // namespace

TEST_CASE("gaps between kernels are not utilization, and compute beside communication counts once") {
  // Kernels from 0 to 80 ms of which 60 are gaps: a quarter. A collective from 50 to 100 ms, whose kernel runs all the
  // time. In bins of 50 ms: any kernel 25 % and then 100 %; compute kernels 25 % and (30 ms / 4) / 50 ms = 15 %.
  RunResult run = made::run();
  run.ranks[0].tasks = {{TaskId(0), made::at(0_ms), made::at(0_ms), made::at(80_ms), 60_ms},
                        {TaskId(1), made::at(50_ms), made::at(60_ms), made::at(100_ms)}};
  const auto families = metrics_over_time(run, made::workload(), 2);
  const std::vector<double> any = values_of(families, "gpu_utilization");
  const std::vector<double> compute = values_of(families, "gpu_compute_utilization");
  REQUIRE(any.size() == 2);
  REQUIRE(compute.size() == 2);
  CHECK(any[0] == doctest::Approx(0.25));
  CHECK(any[1] == doctest::Approx(1));
  CHECK(compute[0] == doctest::Approx(0.25));
  CHECK(compute[1] == doctest::Approx(0.15));
}

TEST_CASE("compute around and between communication adds to utilization what lies outside") {
  // Kernels without gaps from 0 to 100 ms; two collectives inside. Every moment counts once.
  RunResult run = made::run();
  run.ranks[0].tasks = {{TaskId(0), made::at(0_ms), made::at(0_ms), made::at(100_ms), 50_ms},
                        {TaskId(1), made::at(10_ms), made::at(10_ms), made::at(20_ms)},
                        {TaskId(2), made::at(15_ms), made::at(15_ms), made::at(40_ms)}};
  const std::vector<double> any = values_of(metrics_over_time(run, made::workload(), 1), "gpu_utilization");
  CHECK(any.at(0) == doctest::Approx(0.3 + 0.7 * 0.5));
}
