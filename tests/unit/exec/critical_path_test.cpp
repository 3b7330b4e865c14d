// The critical path of programs whose path is plain from the rules of execution; tests/fuzz/path_laws.hpp has what
// holds for all.
#include "sim/results/critical_path.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "executor_fixtures.hpp"
#include "sim/results/step_profile.hpp"
#include "tests/fuzz/path_laws.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

// "0.2 kernels 10, 1.0 transferring 20": class, task, what, microseconds. A communication is told as that side of it
// from which the path came back to it: the one that goes on.
std::string path_of(const RunResult& run, const Workload& workload) {
  for (const std::string& law : fuzz::broken_path_laws(run, workload)) FAIL_CHECK(law);
  constexpr std::string_view kNames[] = {"kernels", "latency", "transferring", "copying", "launching", "host"};
  std::string text;
  for (const PathSegment& s : critical_path(run, workload)) {
    text +=
        fmt::format("{}{}.{} {} {}", text.empty() ? "" : ", ", s.rank_class, s.task.value(),
                    kNames[static_cast<std::size_t>(s.activity)], static_cast<double>((s.end - s.begin).count()) / 1e6);
  }
  return text;
}

}  // namespace

TEST_CASE("the path goes to the rank that came last to a collective, and follows what held that one up") {
  // Rank 0 computes 10 us, rank 1 30 us; both then sum up 1 MB at 100 GB/s (10 us), and rank 0 computes 5 us more than
  // rank 1. The step: 30 us of rank 1, the sum, 7 us of rank 0.
  Scene scene(2);
  for (std::size_t r = 0; r < 2; ++r) {
    const TaskId before = scene.kernels(r, {computing(r == 0 ? 10_us : 30_us)});
    const TaskId sum = scene.collective(r, 1_MB, {.stream = "data", .after = {before}});
    scene.kernels(r, {computing(r == 0 ? 7_us : 2_us)}, {.after = {sum}});
  }
  const Workload workload = scene.workload();
  const RunResult result = run(workload, recording(workload));
  CHECK(result.step_time == 47_us);
  CHECK(path_of(result, workload) == "1.0 kernels 30, 0.1 transferring 10, 0.2 kernels 7");
}

TEST_CASE("the path goes from a receiver that waited to its sender, and the other way") {
  // Rank 0 computes 20 us and sends 1 MB (10 us); rank 1 waits, then computes 5 us.
  Scene scene(2);
  const TaskId made = scene.kernels(0, {computing(20_us)});
  scene.send(0, Scene::kNext, 1_MB, {.stream = "out", .after = {made}});
  const TaskId got = scene.receive(1, Scene::kPrevious, 1_MB, {.stream = "in"});
  scene.kernels(1, {computing(5_us)}, {.after = {got}});
  const Workload workload = scene.workload();
  const RunResult result = run(workload, recording(workload));
  CHECK(path_of(result, workload) == "0.0 kernels 20, 1.0 transferring 10, 1.1 kernels 5");

  // Rank 1 computes for 40 us before it receives; rank 0 has been waiting for it, and ends last.
  Scene late(2);
  const TaskId sent = late.send(0, Scene::kNext, 1_MB, {.stream = "out"});
  late.kernels(0, {computing(3_us)}, {.after = {sent}});
  const TaskId busy = late.kernels(1, {computing(40_us)});
  late.receive(1, Scene::kPrevious, 1_MB, {.stream = "in", .after = {busy}});
  const Workload other = late.workload();
  CHECK(path_of(run(other, recording(other)), other) == "1.0 kernels 40, 0.0 transferring 10, 0.1 kernels 3");
}

TEST_CASE("kernels that wait for their launches put the host on the path, down to the last that did") {
  // Launches take 5 us. The first sequence's kernels take 1 us each: kernel i begins at 5 (i + 1). The second's are
  // launched at 20 and 25 us and take 30 us each: the first waits for its launch, the second for the first.
  Scene scene(1);
  scene.kernels(0, std::vector<Kernel>(3, computing(1_us)));
  scene.kernels(0, std::vector<Kernel>(2, computing(30_us)));
  const Workload workload = scene.workload();
  ExecutionOptions options = recording(workload);
  options.launch = 5_us;
  const RunResult result = run(workload, options);
  CHECK(result.step_time == 80_us);
  CHECK(result.ranks[0].tasks[0].late_launch == at(15_us));
  CHECK(result.ranks[0].tasks[1].late_launch == at(20_us));
  CHECK(path_of(result, workload) == "0.0 launching 15, 0.1 launching 5, 0.1 kernels 60");
}

TEST_CASE("a launch that comes late in the middle of a sequence is where the path leaves it") {
  // Launches take 5 us; kernels take 12, 1 and 1 us. The first waits for its launch at 5 and ends at 17, by when all
  // are launched: the path leaves at its begin. With 12, 1, 1, 1, 1: the fourth is launched at 20, and the third has
  // ended at 19; the fifth is launched at 25.
  for (const int more : {2, 4}) {
    std::vector<Kernel> kernels{computing(12_us)};
    for (int i = 0; i < more; ++i) kernels.push_back(computing(1_us));
    Scene scene(1);
    scene.kernels(0, kernels);
    const Workload workload = scene.workload();
    ExecutionOptions options = recording(workload);
    options.launch = 5_us;
    const RunResult result = run(workload, options);
    CHECK(path_of(result, workload) ==
          (more == 2 ? "0.0 launching 5, 0.0 kernels 14" : "0.0 launching 25, 0.0 kernels 1"));
  }
}

TEST_CASE("a host that a task blocks leads the path to that task") {
  // The copy of 25 MB takes 1 ms and 2 us of latency, and the host waits for it; then it works for 50 us, launches for
  // 5 us, and the kernel runs for 10.
  Scene scene(1);
  scene.copy(0, 25_MB, {.stream = "load", .blocks_host = true});
  scene.host(0, 50_us);
  scene.kernels(0, {computing(10_us)});
  const Workload workload = scene.workload();
  ExecutionOptions options = recording(workload);
  options.launch = 5_us;
  const RunResult result = run(workload, options);
  const double copy =
      static_cast<double>((result.ranks[0].tasks[0].end - result.ranks[0].tasks[0].begin).count()) / 1e6;
  CHECK(path_of(result, workload) ==
        fmt::format("0.0 launching 5, 0.0 copying {}, 0.1 host 50, 0.2 launching 5, 0.2 kernels 10", copy));
}

TEST_CASE("host work that depends on the GPU leads the path to what it waited for") {
  Scene scene(1);
  const TaskId early = scene.kernels(0, {computing(30_us)});
  scene.host(0, 4_us, {.stream = "host", .after = {early}});
  scene.kernels(0, {computing(10_us)}, {"side"});
  const Workload workload = scene.workload();
  CHECK(path_of(run(workload, recording(workload)), workload) == "0.0 kernels 30, 0.1 host 4, 0.2 kernels 10");
}

TEST_CASE("kernels that have the GPU hold up those of other streams") {
  // "side" comes first in the program and has the GPU for 10 us.
  Scene scene(1);
  scene.kernels(0, {computing(10_us)}, {"side"});
  scene.kernels(0, {computing(20_us)});
  const Workload workload = scene.workload();
  CHECK(path_of(run(workload, recording(workload)), workload) == "0.0 kernels 10, 0.1 kernels 20");
}

TEST_CASE("what the path has of communication is what no kernels hide") {
  // 4 MB take 40 us beside 25 us of kernels of another sequence; then 5 us of kernels that wait for both. The path
  // follows the transfer, but 25 us of it are told as compute.
  Scene scene(2);
  for (std::size_t r = 0; r < 2; ++r) {
    const TaskId sum = scene.collective(r, 4_MB, {.stream = "data", .label = "sum"});
    scene.kernels(r, {computing(25_us)}, {.label = "beside"});
    scene.kernels(r, {computing(5_us)}, {.after = {sum}, .label = "after"});
  }
  const Workload workload = scene.workload();
  const RunResult result = run(workload, recording(workload));
  CHECK(path_of(result, workload) == "0.0 transferring 40, 0.2 kernels 5");
  const StepProfile profile = profile_of(result, workload, critical_path(result, workload));
  const auto share = [&](const std::string& label) {
    for (const auto& [kind, found] : profile) {
      if (kind.label == label) return found;
    }
    return WorkShare{};
  };
  CHECK(share("sum").path == 15_us);
  CHECK(share("sum").busy_s == doctest::Approx(40e-6));
  CHECK(share("sum").bytes == 4e6);  // an all-reduce over two: each sends half of the buffer twice
  CHECK(share("sum").count == 1);
  CHECK(share("beside").path == 25_us);
  CHECK(share("after").path == 5_us);
  CHECK(share("after").busy_s == doctest::Approx(5e-6));
  CHECK(share("after").kernels == 1);
}
