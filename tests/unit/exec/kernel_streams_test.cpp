// Kernels of several streams of one GPU, and when they begin.
#include <doctest/doctest.h>

#include "executor_fixtures.hpp"

using namespace orrery;
using namespace orrery::test;

TEST_CASE("kernels that wait for their launch leave the GPU to earlier ones that become ready") {
  Scene scene(2);
  for (std::size_t r = 0; r < 2; ++r) {
    // 1 MB at 100 GB/s: 0 to 10 us.
    const TaskId reduced = scene.collective(r, 1_MB, {"data"});
    scene.kernels(r, {computing(20_us)}, {.after = {reduced}});
    scene.host(r, 50_us);
    scene.kernels(r, {computing(5_us)}, {.stream = "side"});
  }
  const Workload workload = scene.workload();
  const RunResult result = run(workload, recording(workload));
  const std::vector<TaskRecord>& tasks = result.ranks[0].tasks;
  // The last kernel is ready from the start, and the first that is, but is launched after 50 us of host work.
  CHECK(tasks[1].begin == at(10_us));
  CHECK(tasks[1].end == at(30_us));
  CHECK(tasks[3].begin == at(50_us));
  CHECK(result.step_time == 55_us);
  CHECK(result.ranks[0].times.compute == 25_us);
}

TEST_CASE("an empty sequence begins when the host comes by") {
  Scene scene(1);
  scene.host(0, 20_us);
  scene.kernels(0, {}, {.stream = "side"});
  const Workload workload = scene.workload();
  const RunResult result = run(workload, recording(workload));
  CHECK(result.ranks[0].tasks[1].begin == at(20_us));
  CHECK(result.ranks[0].tasks[1].end == at(20_us));
}

TEST_CASE("kernels of an urgent stream go next once they are launched, and not before") {
  for (const Duration late : {1_us, 15_us}) {
    Scene scene(1);
    for (int i = 0; i < 3; ++i) scene.kernels(0, {computing(10_us)});
    scene.host(0, late);
    scene.kernels(0, {computing(2_us)}, {.stream = "urgent"});
    const Workload workload = scene.workload();
    const RunResult result = run(workload, recording(workload));
    // After the kernel that runs when it is launched: the first (to 10 us) or the second (to 20 us).
    CHECK(result.ranks[0].tasks[4].begin == at(late < 10_us ? 10_us : 20_us));
    CHECK(result.step_time == 32_us);
  }
}
