// What holds for every program: the slow twin agrees, relations between runs, conservation.
#include <doctest/doctest.h>

#include <thread>

#include "execution_oracle.hpp"
#include "executor_fixtures.hpp"
#include "sim/base/random.hpp"
#include "sim/exec/execute.hpp"
#include "simple_traffic.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

Duration random_time(RandomStream& random, std::uint64_t microseconds) {
  return Duration(static_cast<std::int64_t>(random.below(microseconds * 1'000'000)));
}

// Kernels without traffic are played to the picosecond beside moving bytes, those with traffic within a rounding.
enum class KernelTraffic { none, random };

std::vector<Kernel> random_kernels(RandomStream& random, KernelTraffic traffic = KernelTraffic::random) {
  std::vector<Kernel> kernels(random.below(6));
  for (Kernel& kernel : kernels) {
    const bool within_call = random.below(4) == 0;
    if (traffic == KernelTraffic::none) {
      kernel = computing(random_time(random, 30));
    } else {
      const Bytes bytes(static_cast<std::int64_t>(random.below(20'000'000)));
      kernel = random.below(2) == 0 ? streaming(bytes) : computing(random_time(random, 30), bytes);
    }
    kernel.within_call = within_call;
  }
  return kernels;
}

// Rounds of: kernels of random length, host work now and then, a collective, a transfer down the line and one back;
// what waits for what is random. All times but tags and sizes, which both sides must agree on, differ from rank to
// rank.
Workload random_workload(std::uint64_t seed, std::size_t ranks, int rounds,
                         KernelTraffic kernel_traffic = KernelTraffic::random) {
  RandomStream random(seed);
  Scene scene(ranks);
  const GroupKindId more_data = scene.group("more_data", {Scene::all(ranks)});
  std::vector<TaskId> last(ranks);
  for (int round = 0; round < rounds; ++round) {
    const bool collective = random.below(2) == 0;
    const bool alone = random.below(4) == 0;
    const bool transfer = random.below(2) == 0;
    const Bytes bytes(static_cast<std::int64_t>(random.below(4'000'000)));
    const bool more = random.below(2) == 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      const TaskId computed = scene.kernels(
          r, random_kernels(random, kernel_traffic),
          {.after = {random.below(2) == 0 ? last[r] : TaskId()},
           .blocks_host = random.below(8) == 0,
           .memory = {{Bytes(static_cast<std::int64_t>(random.below(30'000'000))), MemoryTag::activations}}});
      if (random.below(4) == 0) {
        scene.host(r, random_time(random, 40), {"host", {random.below(2) == 0 ? computed : TaskId()}});
      }
      if (collective) {
        last[r] = scene.collective(r, bytes,
                                   {.stream = more ? "more_data" : "data",
                                    .after = {computed},
                                    .blocks_host = random.below(8) == 0,
                                    .issue = static_cast<Issue>(random.below(3))},
                                   more ? more_data : Scene::kData);
      }
      if (alone) last[r] = scene.collective(r, bytes, {"self", {computed}}, Scene::kSelf);
      if (!transfer) continue;
      // Receive from the left first, so that a line of ranks that depend on one another comes to an end.
      if (r > 0) last[r] = scene.receive(r, Scene::kPrevious, bytes, {"receive_next", {last[r]}}, round);
      if (r + 1 < ranks) scene.send(r, Scene::kNext, bytes, {"send_next", {computed, last[r]}}, round);
    }
  }
  return scene.workload();
}

GpuSpec gpu_with_start_up() {
  GpuSpec gpu = plain_gpu();
  gpu.kernels.memory_fixed = 3_us;
  gpu.kernels.kernel_gap = 2_us;
  return gpu;
}

ExecutionOptions eager(const Workload& workload) {
  ExecutionOptions options = recording(workload);
  options.launch = 4_us;
  options.collective_launch = 6_us;
  options.driver_launch = 1_us;
  return options;
}

const SimpleTrafficSettings kContending{.latency = 5_us, .rate = 300_GBps, .multiprocessors = 12, .memory_count = 2};

}  // namespace

TEST_CASE("every task of a random program ends when the slow twin says") {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    const std::size_t ranks = 1 + seed % 4;
    // Stated rounding of kernels with traffic: 2 ps each, and one byte for each cut, at 1 GB/s or more. Together below
    // 0.2 us, and times never depend on one another by more than the same amount.
    const bool exact = seed % 2 == 0;
    const Duration tolerance = exact ? 0_ps : 200_ns;
    const Workload workload = random_workload(seed, ranks, 12, exact ? KernelTraffic::none : KernelTraffic::random);
    ExecutionOptions options = eager(workload);
    options.graphs = seed % 3 == 0;
    const SimpleTrafficSettings traffic{.latency = 5_us};
    const GpuSpec gpu = gpu_with_start_up();
    const RunResult result = run(workload, options, traffic, gpu);
    ExecutionOracle oracle(workload, options, traffic, gpu);
    for (std::size_t r = 0; r < ranks; ++r) {
      for (std::size_t t = 0; t < result.ranks[r].tasks.size(); ++t) {
        CAPTURE(r);
        CAPTURE(t);
        const Duration later = result.ranks[r].tasks[t].end - oracle.end(r, t);
        REQUIRE(later.count() >= 0);
        REQUIRE(later.count() <= tolerance.count());
      }
    }
    CHECK((result.step_time - oracle.step_time()).count() <= tolerance.count());
  }
}

TEST_CASE("a step is no shorter than a rank's kernels alone and than memory traffic over capacity") {
  for (std::uint64_t seed = 100; seed < 130; ++seed) {
    CAPTURE(seed);
    const Workload workload = random_workload(seed, 3, 12);
    const RunResult result = run(workload, eager(workload), kContending, gpu_with_start_up());
    for (std::size_t r = 0; r < 3; ++r) {
      Duration alone{};
      std::int64_t bytes = 0;
      for (const Task& task : workload.programs[r].tasks()) {
        if (task.kind != TaskKind::kernels) continue;
        for (const KernelId id : workload.programs[r].sequence(task)) {
          alone += time_alone(workload.kernels[id.index()], gpu_with_start_up());
          bytes += workload.kernels[id.index()].bytes.count();
        }
      }
      CHECK(result.ranks[r].times.compute >= alone);
      CHECK(result.step_time >= alone);
      CHECK(result.step_time >= transfer_time(Bytes(bytes), 1000_GBps));
      Duration sum = result.ranks[r].times.compute + result.ranks[r].times.bubble + result.ranks[r].times.waiting +
                     result.ranks[r].times.data_stall + result.ranks[r].times.other;
      for (const auto& [kind, time] : result.ranks[r].times.exposed_communication) sum += time;
      CHECK(sum == result.step_time);
    }
  }
}

TEST_CASE("twice the rates and half the fixed times take half the time") {
  for (std::uint64_t seed = 200; seed < 220; ++seed) {
    CAPTURE(seed);
    // Host work is part of the program, so this one has none.
    Scene slow(3);
    RandomStream random(seed);
    for (int round = 0; round < 8; ++round) {
      const Bytes bytes(static_cast<std::int64_t>(random.below(4'000'000)));
      for (std::size_t r = 0; r < 3; ++r) {
        const TaskId computed = slow.kernels(r, random_kernels(random));
        const TaskId reduced = slow.collective(r, bytes, {"data", {computed}});
        slow.kernels(r, random_kernels(random));
        slow.kernels(r, random_kernels(random), {.after = {reduced}});
      }
    }
    const Workload workload = slow.workload();
    const GpuSpec gpu = gpu_with_start_up();
    GpuSpec fast_gpu = gpu;
    fast_gpu.vector_peak = gpu.vector_peak * 2.0;
    fast_gpu.memory_bandwidth = gpu.memory_bandwidth * 2.0;
    fast_gpu.kernels.memory_fixed = gpu.kernels.memory_fixed / 2;
    fast_gpu.kernels.kernel_gap = gpu.kernels.kernel_gap / 2;
    ExecutionOptions options = eager(workload);
    ExecutionOptions fast_options = options;
    fast_options.launch /= 2;
    fast_options.collective_launch /= 2;
    fast_options.driver_launch /= 2;
    SimpleTrafficSettings fast_traffic = kContending;
    fast_traffic.latency /= 2;
    fast_traffic.rate = kContending.rate * 2.0;
    const Duration time = run(workload, options, kContending, gpu).step_time;
    const Duration fast_time = run(workload, fast_options, fast_traffic, fast_gpu).step_time;
    // Rounding: some picoseconds for each of the few hundred kernels in a row, and a byte at each cut.
    CHECK(std::abs((fast_time * 2 - time).count()) < 10'000);
    CHECK(time > 100_us);
  }
}

TEST_CASE("which number a rank has does not matter") {
  const Workload workload = random_workload(300, 4, 12);
  const Topology topology = std::move(Topology::build(plain_cluster(4, gpu_with_start_up()))).value();
  const std::vector<std::size_t> renamed{2, 0, 3, 1};  // rank r is called renamed[r]
  Workload other = workload;
  Placement placement;
  placement.gpu_of.resize(4);
  const auto name = [&](RankId rank) { return rank.valid() ? RankId(renamed[rank.index()]) : rank; };
  for (std::size_t r = 0; r < 4; ++r) {
    other.role_of[renamed[r]] = workload.role_of[r];
    placement.gpu_of[renamed[r]] = GpuId(r);
    for (std::size_t k = 0; k < workload.group_kinds.size(); ++k) {
      other.communicator_of[k][renamed[r]] = workload.communicator_of[k][r];
    }
    for (std::size_t k = 0; k < workload.peer_kinds.size(); ++k) {
      other.peer_kinds[k].of[renamed[r]] = name(workload.peer_kinds[k].of[r]);
    }
  }
  for (Communicator& communicator : other.communicators) {
    for (RankId& rank : communicator.ranks) rank = name(rank);
  }
  const ExecutionOptions options = eager(workload);
  const RunResult a =
      std::move(play(topology, workload, place_in_order(workload), options, simple_traffic(kContending))).value();
  const RunResult b = std::move(play(topology, other, placement, options, simple_traffic(kContending))).value();
  CHECK(a.step_time == b.step_time);
  for (std::size_t r = 0; r < 4; ++r) {
    CHECK(a.ranks[r].times.compute == b.ranks[renamed[r]].times.compute);
    CHECK(a.ranks[r].times.bubble == b.ranks[renamed[r]].times.bubble);
    CHECK(a.ranks[r].times.waiting == b.ranks[renamed[r]].times.waiting);
    CHECK(a.ranks[r].times.exposed_communication == b.ranks[renamed[r]].times.exposed_communication);
    CHECK(a.ranks[r].memory.when == b.ranks[renamed[r]].memory.when);
  }
}

TEST_CASE("GPUs that nobody uses change nothing") {
  const Workload workload = random_workload(301, 4, 12);
  const RunResult a = run(workload, eager(workload), kContending, gpu_with_start_up(), 1);
  const RunResult b = run(workload, eager(workload), kContending, gpu_with_start_up(), 3);
  CHECK(a.fingerprint == b.fingerprint);
}

TEST_CASE("two runs at the same time in two threads are what each is alone") {
  const Workload first = random_workload(302, 4, 20);
  const Workload second = random_workload(303, 3, 20);
  const std::string alone1 = run(first, eager(first), kContending).fingerprint;
  const std::string alone2 = run(second, eager(second), kContending).fingerprint;
  CHECK(alone1 != alone2);
  std::string together1;
  std::string together2;
  std::thread thread([&] { together1 = run(first, eager(first), kContending).fingerprint; });
  together2 = run(second, eager(second), kContending).fingerprint;
  thread.join();
  CHECK(together1 == alone1);
  CHECK(together2 == alone2);
}

TEST_CASE("jitter comes from the seed alone") {
  const Workload workload = random_workload(304, 3, 10);
  ExecutionOptions options = eager(workload);
  const std::string without = run(workload, options, kContending).fingerprint;
  options.kernel_jitter = 0.05;
  const std::string one = run(workload, options, kContending).fingerprint;
  CHECK(run(workload, options, kContending).fingerprint == one);
  CHECK(one != without);
  options.seed = 2;
  CHECK(run(workload, options, kContending).fingerprint != one);
}

TEST_CASE("a rank's jitter does not depend on what other ranks do") {
  ExecutionOptions options;
  options.kernel_jitter = 0.1;
  const auto durations = [&](std::size_t ranks) {
    Scene scene(ranks);
    for (std::size_t r = 0; r < ranks; ++r) {
      for (int i = 0; i < 400; ++i) scene.kernels(r, {computing(100_us)});
    }
    const Workload workload = scene.workload();
    options.record = {RankId(0)};
    const RunResult result = run(workload, options);
    std::vector<Duration> all;
    for (const TaskRecord& task : result.ranks[0].tasks) all.push_back(task.end - task.begin);
    return all;
  };
  const std::vector<Duration> alone = durations(1);
  CHECK(alone == durations(3));
  // 400 draws of mean 1 and standard deviation 0.1: their mean is within 4 standard errors (0.005 each).
  double mean = 0;
  for (const Duration duration : alone) mean += to_seconds(duration) / 100e-6 / 400;
  double variance = 0;
  for (const Duration duration : alone)
    variance += (to_seconds(duration) / 100e-6 - mean) * (to_seconds(duration) / 100e-6 - mean) / 400;
  CHECK(mean == doctest::Approx(1).epsilon(0.02));
  CHECK(variance == doctest::Approx(0.01).epsilon(0.3));
}

TEST_CASE("a jittered sequence scales as a whole, launches apart") {
  Scene scene(1);
  scene.kernels(0, {computing(100_us), computing(200_us)});
  const Workload workload = scene.workload();
  ExecutionOptions options = recording(workload);
  options.kernel_jitter = 0.1;
  const Duration jittered = run(workload, options).step_time;
  options.launch = 1_us;
  const Duration launched = run(workload, options).step_time;
  CHECK(jittered != 300_us);
  CHECK(launched == jittered + 1_us);
}

TEST_CASE("a slow GPU computes and streams slower, and its partners wait") {
  Scene scene(2);
  for (std::size_t r = 0; r < 2; ++r) {
    const TaskId computed = scene.kernels(r, {computing(100_us), streaming(80_MB)});
    scene.collective(r, 1_MB, {"data", {computed}});
  }
  const Workload workload = scene.workload();
  ExecutionOptions options;
  options.slow_gpus = {{GpuId(1), 0.5}};
  const RunResult result = run(workload, options);
  // 100 us + 80 MB / 800 GB/s = 200 us; 400 us on the slow one; the collective takes 10 us.
  CHECK(result.step_time == 410_us);
  CHECK(result.ranks[0].times.compute == 200_us);
  CHECK(exposed(result.ranks[0], "data") == 10_us);
  CHECK(result.ranks[0].times.bubble == 200_us);  // their programs are two
  CHECK(exposed(result.ranks[1], "data") == 10_us);
}

TEST_CASE("a random program runs on real traffic, at both fidelities, the same each time") {
  const Workload workload = random_workload(305, 8, 10);
  const Topology topology = std::move(Topology::build(plain_cluster(4, gpu_with_start_up(), 2))).value();
  ExecutionOptions options = eager(workload);
  std::map<TrafficFidelity, Duration> times;
  for (const TrafficFidelity fidelity : {TrafficFidelity::coupled, TrafficFidelity::message}) {
    options.traffic.fidelity = fidelity;
    const auto once = execute(topology, workload, place_in_order(workload), options);
    const auto again = execute(topology, workload, place_in_order(workload), options);
    REQUIRE(once.ok());
    CHECK(once->fingerprint == again->fingerprint);
    CHECK(once->flows > 0);
    CHECK(once->traffic_by_kind.at("data").bytes > 0);
    CHECK(once->bytes_by_link_kind.at("nvlink") > 0);
    times[fidelity] = once->step_time;
  }
  const double ratio = to_seconds(times[TrafficFidelity::message]) / to_seconds(times[TrafficFidelity::coupled]);
  CHECK(ratio == doctest::Approx(1).epsilon(0.1));
}
