// Steps that do not fit into simulated time are refused, whatever it is that takes so long.
#include <doctest/doctest.h>

#include "executor_fixtures.hpp"
#include "simple_traffic.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

constexpr Duration kDay = std::chrono::hours(24);

Problems problems_of(const ClusterSpec& cluster, const Workload& workload, const ExecutionOptions& options,
                     const SimpleTrafficSettings& traffic = {}) {
  const auto topology = Topology::build(cluster);
  REQUIRE(topology.ok());
  const auto result = play(*topology, workload, place_in_order(workload), options, simple_traffic(traffic));
  return result.ok() ? Problems{} : result.problems();
}

void check_refused(const Problems& problems, const std::string& key) {
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].message == "a step longer than 26 days cannot be simulated");
  CHECK(problems[0].key == key);
}

Workload kernels_of(const std::vector<Kernel>& kernels, bool a_task_each) {
  Scene scene(1);
  if (!a_task_each) {
    scene.kernels(0, kernels);
  } else {
    for (const Kernel& kernel : kernels) scene.kernels(0, {kernel});
  }
  return scene.workload();
}

Workload one_collective(Bytes bytes) {
  Scene scene(2);
  for (std::size_t r = 0; r < 2; ++r) scene.collective(r, bytes, {"data"});
  return scene.workload();
}

}  // namespace

TEST_CASE("what is longer than the longest step is cut to just beyond it") {
  CHECK(to_seconds(kLongestStep) / 86400 == doctest::Approx(26.69).epsilon(1e-3));
  CHECK(bounded(kLongestStep) == kLongestStep);
  CHECK(bounded(kLongestStep + Duration(1)) == kTooLong);
  CHECK(bounded(Duration::max()) == kTooLong);
}

TEST_CASE(
    "kernels of 26 days are played, longer ones are refused: as one sequence, as many, and beside communication") {
  for (const bool a_task_each : {false, true}) {
    CAPTURE(a_task_each);
    CHECK(problems_of(plain_cluster(1), kernels_of({computing(13 * kDay), computing(13 * kDay)}, a_task_each), {})
              .empty());
    // Sums of up to 2,000 days, many times what 64 bits hold.
    for (const int count : {2, 3, 5, 9, 100}) {
      CAPTURE(count);
      const std::vector<Kernel> kernels(static_cast<std::size_t>(count), computing(20 * kDay));
      for (const double jitter : {0.0, 0.05}) {
        ExecutionOptions options;
        options.kernel_jitter = jitter;
        check_refused(problems_of(plain_cluster(1), kernels_of(kernels, a_task_each), options), "model");
      }
    }
    check_refused(problems_of(plain_cluster(1), kernels_of({computing(100 * kDay)}, a_task_each), {}), "model");
  }
  // Bytes move all the time, so that kernels are played one by one.
  for (const Kernel& kernel : {computing(20 * kDay), streaming(Bytes(std::int64_t{1} << 60))}) {
    Scene scene(2);
    for (std::size_t r = 0; r < 2; ++r) {
      scene.collective(r, Bytes(std::int64_t{1} << 62), {"data"});
      scene.kernels(r, {kernel, kernel, kernel});
    }
    check_refused(problems_of(plain_cluster(2), scene.workload(), {}, {.rate = 10_GBps, .memory_count = 1}), "model");
  }
}

TEST_CASE("a host whose launches or work last longer than the longest step is refused") {
  ExecutionOptions options;
  for (const Duration launch : {kDay, 100 * kDay}) {
    options.launch = launch;
    for (const int count : {27, 1000}) {
      const std::vector<Kernel> kernels(static_cast<std::size_t>(count), computing(1_us));
      for (const bool a_task_each : {false, true}) {
        check_refused(problems_of(plain_cluster(1), kernels_of(kernels, a_task_each), options), "training.framework");
      }
    }
  }
  Scene scene(1);
  for (int i = 0; i < 3; ++i) scene.host(0, 100 * kDay);
  check_refused(problems_of(plain_cluster(1), scene.workload(), {}), "training.framework");
  // Each stretch of the host's fits, the waits between them do not.
  Scene waits(1);
  for (int i = 0; i < 9; ++i) {
    const TaskId work = waits.kernels(0, {computing(5 * kDay)});
    waits.host(0, kDay, {"host", {work}});
  }
  CHECK(problems_of(plain_cluster(1), waits.workload(), {}).size() == 1);
}

TEST_CASE("communication that would take longer than the longest step is refused, be it one that never ends") {
  for (const double rate : {1.0, 1e-3, 1e-6}) {
    const SimpleTrafficSettings traffic{.rate = BytesPerSecond(rate)};
    check_refused(problems_of(plain_cluster(2), one_collective(1_GB), {}, traffic), "cluster");
  }
  // As flows.
  for (const double rate : {1.0, 0.0}) {
    const SimpleTrafficSettings traffic{.rate = BytesPerSecond(rate), .memory_count = 1};
    check_refused(problems_of(plain_cluster(2), one_collective(1_GB), {}, traffic), "cluster");
  }
  check_refused(problems_of(plain_cluster(2), one_collective(1_MB), {}, {.latency = 100 * kDay}), "cluster");
  Scene copies(1);
  copies.copy(0, Bytes(std::int64_t{1} << 62), {"copy"});
  check_refused(problems_of(plain_cluster(1), copies.workload(), {}), "cluster");
}
