// Rules of execution, each on the smallest program that shows it.
#include "sim/exec/executor/executor.hpp"

#include <doctest/doctest.h>

#include "executor_fixtures.hpp"
#include "simple_traffic.hpp"

using namespace orrery;
using namespace orrery::test;

TEST_CASE("kernels of one stream run one after the other") {
  Scene scene(1);
  scene.kernels(0, {computing(10_us), computing(20_us)});
  scene.kernels(0, {computing(5_us)});
  const Workload workload = scene.workload();
  const RunResult result = run(workload, recording(workload));
  CHECK(result.step_time == 35_us);
  CHECK(result.ranks[0].times.compute == 35_us);
  CHECK(result.ranks[0].tasks[0].begin == at(0_us));
  CHECK(result.ranks[0].tasks[0].end == at(30_us));
  CHECK(result.ranks[0].tasks[1].begin == at(30_us));
  CHECK(result.ranks[0].tasks[1].end == at(35_us));
}

TEST_CASE("sequences of different streams take turns in program order, since kernels fill the GPU") {
  Scene scene(1);
  scene.kernels(0, {computing(10_us)}, {"side"});
  scene.kernels(0, {computing(20_us)});
  const Workload workload = scene.workload();
  const RunResult result = run(workload, recording(workload));
  CHECK(result.ranks[0].tasks[0].end == at(10_us));
  CHECK(result.ranks[0].tasks[1].end == at(30_us));
  CHECK(result.ranks[0].times.compute == 30_us);
}

TEST_CASE("a task waits for those it depends on, on other streams") {
  Scene scene(1);
  const TaskId loaded = scene.copy(0, 25_MB, {"load"});
  scene.kernels(0, {computing(10_us)});
  scene.kernels(0, {computing(10_us)}, {.after = {loaded}});
  const Workload workload = scene.workload();
  const RunResult result = run(workload, recording(workload));
  // 25 MB over PCIe at 25 GB/s: 1 ms, then the latency of the path: GPU to socket, two links of 1 us.
  const Duration latency = Topology::build(plain_cluster(1)).value().host_to_device(GpuId(0)).latency;
  CHECK(latency > 0_us);
  CHECK(result.ranks[0].tasks[0].end == at(1_ms + latency));
  CHECK(result.ranks[0].tasks[1].end == at(10_us));
  CHECK(result.ranks[0].tasks[2].end == at(1_ms + latency + 10_us));
  // The stall is what the first kernel does not hide.
  CHECK(result.ranks[0].times.data_stall == 1_ms + latency - 10_us);
  CHECK(result.ranks[0].times.compute == 20_us);
}

TEST_CASE("kernels shorter than their launches run at the pace of the launches") {
  Scene scene(1);
  scene.kernels(0, std::vector<Kernel>(10, computing(1_us)));
  const Workload workload = scene.workload();
  ExecutionOptions options = recording(workload);
  options.launch = 5_us;
  const RunResult result = run(workload, options);
  // Kernel i is launched at 5 (i + 1) us; the last of ten starts at 50 us and takes 1 us.
  CHECK(result.step_time == 51_us);
  CHECK(result.ranks[0].times.compute == 10_us);
  CHECK(result.ranks[0].times.other == 41_us);
  CHECK(result.ranks[0].tasks[0].begin == at(5_us));
}

TEST_CASE("kernels longer than their launches hide all launches but the first") {
  Scene scene(1);
  scene.kernels(0, std::vector<Kernel>(10, computing(8_us)));
  const Workload workload = scene.workload();
  ExecutionOptions options;
  options.launch = 5_us;
  const RunResult result = run(workload, options);
  CHECK(result.step_time == 85_us);
  CHECK(result.ranks[0].times.other == 5_us);
}

TEST_CASE("a captured graph costs one launch") {
  Scene scene(1);
  scene.kernels(0, std::vector<Kernel>(10, computing(1_us)));
  scene.kernels(0, std::vector<Kernel>(10, computing(1_us)));
  const Workload workload = scene.workload();
  ExecutionOptions options;
  options.launch = 5_us;
  options.graphs = true;
  const RunResult result = run(workload, options);
  // The second launch (10 us) is hidden behind the first graph (5 .. 15 us).
  CHECK(result.step_time == 25_us);
  CHECK(result.ranks[0].times.other == 5_us);
}

TEST_CASE("what belongs to the call before costs the host the driver's part alone") {
  // A ring exchange of chunks, as Transformer Engine issues it: the call opens with a receive (5 us for a way through
  // the framework), a send and the first product follow, and so on, each at 1 us. Then a kernel of the next call.
  constexpr std::size_t kRanks = 2;
  Kernel chunk = computing(1_us);
  chunk.within_call = true;
  const auto play = [&](const ExecutionOptions& wanted) {
    Scene scene(kRanks);
    for (std::size_t r = 0; r < kRanks; ++r) {
      scene.collective(r, 1000_B, {.stream = "self", .issue = Issue::opens_call}, Scene::kSelf);
      scene.collective(r, 1000_B, {.stream = "data", .issue = Issue::within_call});
      scene.kernels(r, {chunk});
      scene.kernels(r, {chunk, computing(1_us), chunk});
      scene.collective(r, 1000_B, {"data"});
    }
    const Workload workload = scene.workload();
    ExecutionOptions options = wanted;
    options.record = recording(workload).record;
    return run(workload, options);
  };
  const auto issued = [](const RunResult& result) {
    std::vector<Instant> times;
    for (const TaskRecord& record : result.ranks[1].tasks) times.push_back(record.issued);
    return times;
  };
  ExecutionOptions options;
  options.launch = 5_us;
  options.collective_launch = 3_us;
  options.driver_launch = 1_us;
  // 5; + 1; + 1; + 1 + 5 + 1; + 3.
  CHECK(issued(play(options)) == std::vector{at(5_us), at(6_us), at(7_us), at(14_us), at(17_us)});
  // Its kernels are launched at 8, 13 and 14 us and take 1 us each.
  CHECK(play(options).ranks[0].tasks[3].begin == at(8_us));
  CHECK(play(options).ranks[0].tasks[3].end == at(15_us));
  // Captured in graphs, a sequence is one launch: the driver's part where all of it belongs to a call.
  options.graphs = true;
  CHECK(issued(play(options)) == std::vector{at(5_us), at(6_us), at(7_us), at(12_us), at(15_us)});
  // The driver's part is no more than a launch of one's own, and where it is not known, as much.
  options.graphs = false;
  for (const Duration most : {10_us, Duration::max()}) {
    options.driver_launch = most;
    CHECK(issued(play(options)) == std::vector{at(5_us), at(8_us), at(13_us), at(28_us), at(31_us)});
  }
  options.driver_launch = 1_us;
  options.launch = options.collective_launch = Duration{};
  CHECK(issued(play(options)) == std::vector<Instant>(5));
}

TEST_CASE("the host issues nothing behind a task that blocks it until that has ended") {
  Scene scene(1);
  scene.kernels(0, {computing(100_us)}, {.blocks_host = true});
  scene.kernels(0, {computing(10_us)});
  const Workload workload = scene.workload();
  ExecutionOptions options = recording(workload);
  options.launch = 5_us;
  const RunResult result = run(workload, options);
  // Launched at 5, ends at 105; the next is launched 5 us later.
  CHECK(result.ranks[0].tasks[0].end == at(105_us));
  CHECK(result.ranks[0].tasks[1].begin == at(110_us));
  CHECK(result.step_time == 120_us);
  CHECK(result.ranks[0].times.other == 10_us);
}

TEST_CASE("host work delays what is issued after it, and nothing before it") {
  Scene scene(1);
  scene.kernels(0, {computing(30_us)});
  scene.host(0, 100_us);
  scene.kernels(0, {computing(10_us)});
  const Workload workload = scene.workload();
  const RunResult result = run(workload, recording(workload));
  CHECK(result.ranks[0].tasks[0].end == at(30_us));
  CHECK(result.ranks[0].tasks[1].begin == at(0_us));
  CHECK(result.ranks[0].tasks[1].end == at(100_us));
  CHECK(result.step_time == 110_us);
  CHECK(result.ranks[0].times.other == 70_us);
}

TEST_CASE("host work waits for the GPU's work that it depends on") {
  Scene scene(1);
  const TaskId first = scene.kernels(0, {computing(30_us)});
  scene.host(0, 100_us, {"host", {first}});
  scene.kernels(0, {computing(10_us)});
  const Workload workload = scene.workload();
  const RunResult result = run(workload, recording(workload));
  CHECK(result.ranks[0].tasks[1].begin == at(30_us));
  CHECK(result.ranks[0].tasks[1].end == at(130_us));
  CHECK(result.step_time == 140_us);
}

TEST_CASE("host work at the end of a program belongs to the step") {
  Scene scene(1);
  scene.kernels(0, {computing(30_us)});
  scene.host(0, 100_us);
  const Workload workload = scene.workload();
  const RunResult result = run(workload, {});
  CHECK(result.step_time == 100_us);
  CHECK(result.ranks[0].times.other == 70_us);
}

TEST_CASE("a program with nothing to do takes no time") {
  Scene scene(2);
  scene.kernels(0, {});
  const RunResult result = run(scene.workload(), {});
  CHECK(result.step_time == 0_us);
}

TEST_CASE("a collective starts when its last member arrives") {
  Scene scene(3);
  for (std::size_t r = 0; r < 3; ++r) {
    const TaskId before = scene.kernels(r, {computing(10_us * static_cast<std::int64_t>(r + 1))});
    const TaskId reduced = scene.collective(r, 1_MB, {"data", {before}});
    scene.kernels(r, {computing(1_us)}, {.after = {reduced}});
  }
  const Workload workload = scene.workload();
  const RunResult result = run(workload, recording(workload));
  // The last arrives at 30 us; 1 MB at 100 GB/s takes 10 us.
  CHECK(result.step_time == 41_us);
  for (std::size_t r = 0; r < 3; ++r) {
    const auto arrival = 10_us * static_cast<std::int64_t>(r + 1);
    CHECK(result.ranks[r].tasks[1].begin == at(arrival));
    CHECK(result.ranks[r].tasks[1].active == at(30_us));
    CHECK(result.ranks[r].tasks[1].end == at(40_us));
    // While a partner is late nothing is communicated: these run different programs, as stages of a pipeline do.
    CHECK(exposed(result.ranks[r], "data") == 10_us);
    CHECK(result.ranks[r].times.bubble == 30_us - arrival);
    CHECK(result.ranks[r].times.compute == arrival + 1_us);
  }
  CHECK(result.traffic_by_kind.at("data").messages == 3);
}

TEST_CASE("waiting for a partner is neither communication nor, between ranks of one program, a pipeline's bubble") {
  // Both ranks run 100 us of kernels and a collective of 10 us; on rank 1 the kernels take twice as long. Rank 0 waits
  // for it in the collective and, with the pipeline's channels gone, nothing here is a bubble.
  for (const bool pipeline : {true, false}) {
    CAPTURE(pipeline);
    Scene scene(2);
    for (std::size_t r = 0; r < 2; ++r) {
      const TaskId computed = scene.kernels(r, {computing(100_us)});
      scene.collective(r, 1_MB, {"data", {computed}});
    }
    Workload workload = scene.workload();
    workload.role_of[1] = workload.role_of[0];
    if (!pipeline) workload.peer_kinds.clear();
    ExecutionOptions options;
    options.slow_gpus = {{GpuId(1), 0.5}};
    const RunResult result = run(workload, options);
    CHECK(result.step_time == 210_us);
    CHECK(result.ranks[0].times.waiting == 100_us);
    CHECK(result.ranks[0].times.bubble == 0_us);
    CHECK(exposed(result.ranks[0], "data") == 10_us);
    CHECK(result.ranks[1].times.waiting == 0_us);
  }
}

TEST_CASE("a rank that is done before the others has a bubble in a pipeline, and waits without one") {
  for (const bool pipeline : {true, false}) {
    CAPTURE(pipeline);
    Scene scene(2);
    scene.kernels(0, {computing(100_us)});
    scene.kernels(1, {computing(40_us)});
    Workload workload = scene.workload();
    if (!pipeline) workload.peer_kinds.clear();
    const RunResult result = run(workload, {});
    CHECK(result.ranks[1].times.bubble == (pipeline ? 60_us : 0_us));
    CHECK(result.ranks[1].times.waiting == (pipeline ? 0_us : 60_us));
  }
}

TEST_CASE("communication behind which kernels run is not exposed") {
  Scene scene(2);
  for (std::size_t r = 0; r < 2; ++r) {
    scene.collective(r, 1_MB, {"data"});
    scene.kernels(r, {computing(50_us)});
  }
  const RunResult result = run(scene.workload(), {});
  CHECK(result.step_time == 50_us);
  CHECK(result.ranks[0].times.exposed_communication.empty());
}

TEST_CASE("communication after the last kernel is exposed, and what follows it on other ranks is a bubble") {
  Scene scene(2);
  scene.kernels(0, {computing(10_us)});
  scene.kernels(1, {computing(10_us)});
  const TaskId reduced0 = scene.collective(0, 1_MB, {"data"});
  scene.collective(1, 1_MB, {"data"});
  scene.kernels(0, {computing(5_us)}, {.after = {reduced0}});
  const RunResult result = run(scene.workload(), {});
  // 0 .. 10 kernels and, behind them, the collective; rank 0 computes until 15.
  CHECK(result.step_time == 15_us);
  CHECK(result.ranks[1].times.compute == 10_us);
  CHECK(result.ranks[1].times.bubble == 5_us);
}

TEST_CASE("a group of one costs nothing") {
  Scene scene(1);
  const TaskId before = scene.kernels(0, {computing(10_us)});
  const TaskId reduced = scene.collective(0, 1_GB, {"self", {before}}, Scene::kSelf);
  scene.kernels(0, {computing(10_us)}, {.after = {reduced}});
  const RunResult result = run(scene.workload(), {});
  CHECK(result.step_time == 20_us);
}

TEST_CASE("send and receive meet, and both end with the transfer") {
  Scene scene(2);
  const TaskId made = scene.kernels(0, {computing(30_us)});
  scene.send(0, Scene::kNext, 1_MB, {"send", {made}});
  const TaskId got = scene.receive(1, Scene::kPrevious, 1_MB, {"receive"});
  scene.kernels(1, {computing(20_us)}, {.after = {got}});
  const Workload workload = scene.workload();
  const RunResult result = run(workload, recording(workload));
  CHECK(result.step_time == 60_us);
  CHECK(result.ranks[1].tasks[0].begin == at(0_us));
  CHECK(result.ranks[1].tasks[0].active == at(30_us));
  CHECK(result.ranks[1].tasks[0].end == at(40_us));
  CHECK(result.ranks[0].tasks[1].end == at(40_us));
  // Rank 1: 30 us until its neighbour sends (bubble), 10 us of bytes (exposed), 20 us computing.
  CHECK(result.ranks[1].times.bubble == 30_us);
  CHECK(exposed(result.ranks[1], "pipeline") == 10_us);
  CHECK(result.ranks[1].times.compute == 20_us);
  // Rank 0: computes, waits for its send, has nothing left to do.
  CHECK(result.ranks[0].times.compute == 30_us);
  CHECK(exposed(result.ranks[0], "pipeline") == 10_us);
  CHECK(result.ranks[0].times.bubble == 20_us);
  CHECK(result.traffic_by_kind.at("pipeline").bytes == 1'000'000);
}

TEST_CASE("a send waits for the receive") {
  Scene scene(2);
  scene.send(0, Scene::kNext, 1_MB, {"send"});
  const TaskId busy = scene.kernels(1, {computing(30_us)});
  scene.receive(1, Scene::kPrevious, 1_MB, {"receive", {busy}});
  const Workload workload = scene.workload();
  const RunResult result = run(workload, recording(workload));
  CHECK(result.ranks[0].tasks[0].begin == at(0_us));
  CHECK(result.ranks[0].tasks[0].end == at(40_us));
  CHECK(result.ranks[0].times.bubble == 30_us);
}

TEST_CASE("transfers meet by tag, and with equal tags in order") {
  Scene scene(2);
  // Rank 0 sends 1 MB and 3 MB with tag 7 on one stream, 2 MB with tag 9 on another.
  scene.send(0, Scene::kNext, 1_MB, {"a"}, 7);
  scene.send(0, Scene::kNext, 2_MB, {"b"}, 9);
  scene.send(0, Scene::kNext, 3_MB, {"a"}, 7);
  scene.receive(1, Scene::kPrevious, 2_MB, {"x"}, 9);
  scene.receive(1, Scene::kPrevious, 1_MB, {"y"}, 7);
  scene.receive(1, Scene::kPrevious, 3_MB, {"y"}, 7);
  const Workload workload = scene.workload();
  const RunResult result = run(workload, recording(workload));
  CHECK(result.ranks[1].tasks[0].end == at(20_us));
  CHECK(result.ranks[1].tasks[1].end == at(10_us));
  CHECK(result.ranks[1].tasks[2].end == at(40_us));
}

TEST_CASE("collectives on different communicators of the same ranks do not wait for each other") {
  Scene scene(2);
  const GroupKindId other = scene.group("other", {Scene::all(2)});
  for (std::size_t r = 0; r < 2; ++r) {
    const TaskId slow = scene.kernels(r, {computing(50_us)});
    scene.collective(r, 1_MB, {"first", {slow}});
    scene.collective(r, 2_MB, {"second"}, other);
  }
  const Workload workload = scene.workload();
  const RunResult result = run(workload, recording(workload));
  CHECK(result.ranks[0].tasks[2].end == at(20_us));
  CHECK(result.ranks[0].tasks[1].end == at(60_us));
}

TEST_CASE("a communication is posted no earlier than its launch") {
  Scene scene(2);
  for (std::size_t r = 0; r < 2; ++r) scene.collective(r, 1_MB, {"data"});
  const Workload workload = scene.workload();
  ExecutionOptions options = recording(workload);
  options.collective_launch = 7_us;
  const RunResult result = run(workload, options);
  CHECK(result.ranks[0].tasks[0].begin == at(7_us));
  CHECK(result.step_time == 17_us);
  CHECK(result.ranks[0].times.other == 7_us);
}

TEST_CASE("time that the host waits for communication is exposed communication") {
  Scene scene(2);
  for (std::size_t r = 0; r < 2; ++r) {
    scene.collective(r, 1_MB, {.stream = "data", .blocks_host = true});
    scene.kernels(r, {computing(5_us)});
  }
  const RunResult result = run(scene.workload(), {});
  CHECK(result.step_time == 15_us);
  CHECK(exposed(result.ranks[0], "data") == 10_us);
  CHECK(result.ranks[0].times.other == 0_us);
}

TEST_CASE("copies share the PCIe path") {
  Scene scene(2);
  scene.copy(0, 25_MB, {"load"});
  scene.copy(1, 25_MB, {"load"});
  const Workload workload = scene.workload();
  const Topology topology = std::move(Topology::build(plain_cluster(2))).value();
  const RunResult result = run(workload, {});
  // Both GPUs hang on one PCIe switch: its link to the socket carries 50 MB at 25 GB/s.
  CHECK(result.step_time == 2_ms + topology.host_to_device(GpuId(0)).latency);
  CHECK(result.bytes_by_link_kind.at("pcie") == 100'000'000);
  REQUIRE(!result.busiest_links.empty());
  CHECK(result.busiest_links[0].bytes == 50'000'000);
}

TEST_CASE("a deadlock names the ranks that are blocked, their tasks and what they wait for") {
  Scene scene(2);
  scene.receive(0, Scene::kNext, 1_MB, {.stream = "receive", .label = "gradient of 0"}, 4);
  scene.send(0, Scene::kNext, 1_MB, {.stream = "receive"}, 5);
  scene.receive(1, Scene::kPrevious, 1_MB, {.stream = "receive", .label = "activation of 0"}, 5);
  scene.send(1, Scene::kPrevious, 1_MB, {.stream = "receive"}, 4);
  const Workload workload = scene.workload();
  const Topology topology = std::move(Topology::build(plain_cluster(2))).value();
  const auto result = play(topology, workload, place_in_order(workload), {}, simple_traffic());
  REQUIRE(!result.ok());
  const Problem problem = result.problems()[0];
  CHECK(problem.message.find("deadlock") != std::string::npos);
  CHECK(problem.message.find("2 of 2 ranks") != std::string::npos);
  CHECK(problem.note ==
        "rank 0: task 0 'gradient of 0' on stream 'receive' waits for rank 1 to send tag 4; "
        "rank 1: task 0 'activation of 0' on stream 'receive' waits for rank 0 to send tag 5");
}

TEST_CASE("a deadlock in a collective names who is missing") {
  Scene scene(3);
  scene.collective(0, 1_MB, {.stream = "data", .label = "gradients"});
  scene.collective(2, 1_MB, {.stream = "data", .label = "gradients"});
  const Workload workload = scene.workload();
  const Topology topology = std::move(Topology::build(plain_cluster(3))).value();
  const auto result = play(topology, workload, place_in_order(workload), {}, simple_traffic());
  REQUIRE(!result.ok());
  CHECK(result.problems()[0].note ==
        "rank 0: task 0 'gradients' on stream 'data' waits in all_reduce over group 'data' for rank 1; "
        "rank 2: task 0 'gradients' on stream 'data' waits in all_reduce over group 'data' for rank 1");
}

TEST_CASE("members that issue different collectives are a problem, not a crash") {
  Scene scene(2);
  scene.collective(0, 1_MB, {"data"});
  scene.collective(1, 2_MB, {"data"});
  const Workload workload = scene.workload();
  const Topology topology = std::move(Topology::build(plain_cluster(2))).value();
  const auto result = play(topology, workload, place_in_order(workload), {}, simple_traffic());
  REQUIRE(!result.ok());
  CHECK(result.problems()[0].message.find("2000000 bytes") != std::string::npos);
}

TEST_CASE("an impossible placement or option is a problem that says so") {
  Scene scene(2);
  const Workload workload = scene.workload();
  const Topology topology = std::move(Topology::build(plain_cluster(2))).value();
  const auto problems = [&](const Placement& placement, const ExecutionOptions& options) {
    return play(topology, workload, placement, options, simple_traffic()).problems().size();
  };
  CHECK(problems({{GpuId(0)}}, {}) == 1);
  CHECK(problems({{GpuId(0), GpuId(0)}}, {}) == 1);
  CHECK(problems({{GpuId(0), GpuId(2)}}, {}) == 1);
  ExecutionOptions options;
  options.slow_gpus = {{GpuId(5), 0.5}, {GpuId(0), 0.0}};
  options.kernel_jitter = -1;
  CHECK(problems({{GpuId(0), GpuId(1)}}, options) == 3);
}

TEST_CASE("a kernel in a precision that the GPU lacks is a problem") {
  Scene scene(1);
  Kernel gemm;
  gemm.name = "qkv.forward";
  gemm.kind = KernelKind::gemm;
  gemm.precision = Precision::fp8;
  gemm.m = gemm.n = gemm.k = gemm.batch = 64;
  scene.kernels(0, {gemm});
  const Workload workload = scene.workload();
  const Topology topology = std::move(Topology::build(plain_cluster(1))).value();
  const auto result = play(topology, workload, place_in_order(workload), {}, simple_traffic());
  REQUIRE(!result.ok());
  CHECK(result.problems()[0].message == "plain does not compute qkv.forward in fp8");
}
