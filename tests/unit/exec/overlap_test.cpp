// Kernels beside communication: SMs and memory bandwidth that it takes, and carrying on where a kernel was.
#include <doctest/doctest.h>

#include "executor_fixtures.hpp"
#include "sim/base/random.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

// Two ranks with a collective of `bytes` at the start, rank 1 arriving `late`; both run `kernels` beside it.
Workload beside_collective(const std::vector<Kernel>& kernels, Bytes bytes, Duration late = {}) {
  Scene scene(2);
  scene.host(1, late);
  for (std::size_t r = 0; r < 2; ++r) {
    scene.collective(r, bytes, {"data"});
    scene.kernels(r, kernels);
  }
  return scene.workload();
}

Duration end_of_kernels(const RunResult& result, std::size_t rank = 0) {
  return result.ranks[rank].tasks.back().end - Instant{};
}

}  // namespace

TEST_CASE("communication takes SMs from kernels while it runs") {
  // 20 of 100 SMs for 500 us (50 MB at 100 GB/s): the kernel of 1 ms does 500 x 0.8 = 400 us of its work meanwhile, and
  // the remaining 600 us at full speed.
  const Workload workload = beside_collective({computing(1_ms)}, 50_MB);
  const RunResult result = run(workload, recording(workload), {.multiprocessors = 20});
  CHECK(end_of_kernels(result) == 1100_us);
  CHECK(result.ranks[0].times.compute == 1100_us);
}

TEST_CASE("an early member holds its SMs while it waits for the others") {
  // Rank 0 waits 250 us and then moves bytes for 250 us: in both it is short of 20 SMs.
  const Workload workload = beside_collective({computing(1_ms)}, 25_MB, 250_us);
  const RunResult result = run(workload, recording(workload), {.multiprocessors = 20});
  CHECK(end_of_kernels(result) == 1100_us);
}

TEST_CASE("transfers of one communicator that are open together share a kernel: the largest counts, not the sum") {
  // Four transfers of rank 0 that nobody answers for 250 us, on a stream each, then 250 us of bytes: 20 SMs, as with
  // one.
  Scene scene(2);
  scene.host(1, 250_us);
  for (int i = 0; i < 4; ++i) {
    const On stream{fmt::format("transfer{}", i)};
    if (i < 2) {
      scene.send(0, Scene::kNext, 25_MB, stream, i);
      scene.receive(1, Scene::kPrevious, 25_MB, stream, i);
    } else {
      scene.receive(0, Scene::kNext, 25_MB, stream, i);
      scene.send(1, Scene::kPrevious, 25_MB, stream, i);
    }
  }
  scene.kernels(0, {computing(1_ms)});
  const Workload workload = scene.workload();
  const RunResult result = run(workload, recording(workload), {.multiprocessors = 20});
  CHECK(end_of_kernels(result) == 1100_us);
}

TEST_CASE("kernels of different communicators hold SMs side by side, up to half of the GPU") {
  // A collective of all and a transfer, 500 us each: twice 20 SMs, so 300 us of work are done by then, or twice 40, of
  // which 50 are held: 250 us.
  const auto kernels_end = [](int blocks) {
    Scene scene(2);
    for (std::size_t r = 0; r < 2; ++r) scene.collective(r, 50_MB, {"data"});
    scene.send(0, Scene::kNext, 50_MB, {"send"});
    scene.receive(1, Scene::kPrevious, 50_MB, {"receive"});
    scene.kernels(0, {computing(1_ms)});
    const Workload workload = scene.workload();
    return end_of_kernels(run(workload, recording(workload), {.multiprocessors = blocks}));
  };
  CHECK(kernels_end(20) - 1200_us <= 1_ps);  // 10 / 6 ms are no whole number of picoseconds
  CHECK(kernels_end(20) >= 1200_us);
  CHECK(kernels_end(40) == 1250_us);
}

TEST_CASE("communication takes memory bandwidth from kernels while bytes move") {
  // The kernel asks for 800 of 1000 GB/s and would need 1 ms for 800 MB. For 500 us (200 MB at 400 GB/s) it gets 600:
  // 300 MB. The rest takes 500 MB / 800 GB/s = 625 us.
  const Workload workload = beside_collective({streaming(800_MB)}, 200_MB);
  const RunResult result = run(workload, recording(workload), {.rate = 400_GBps, .memory_count = 1});
  CHECK(end_of_kernels(result) == 1125_us);
}

TEST_CASE("a kernel of which memory is not the limit is not slowed down by traffic that fits beside it") {
  // 100 MB in 1 ms of arithmetic are 100 GB/s; with 400 GB/s of traffic twice over memory there is room to spare.
  const Workload workload = beside_collective({computing(1_ms, 100_MB)}, 200_MB);
  const RunResult result = run(workload, recording(workload), {.rate = 400_GBps, .memory_count = 2});
  CHECK(end_of_kernels(result) == 1_ms);
}

TEST_CASE("traffic is slowed down by kernels too") {
  // Traffic that crosses memory twice at up to 400 GB/s asks for 800 of 1000; so does the kernel. Max-min: equal rates
  // r with r + 2r = 1000: 333 GB/s each. The collective's 100 MB take 300 us, in which the kernel does 100 MB too; its
  // other 700 MB take 875 us.
  const Workload workload = beside_collective({streaming(800_MB)}, 100_MB);
  const RunResult result = run(workload, recording(workload), {.rate = 400_GBps, .memory_count = 2});
  CHECK(result.ranks[0].tasks[0].end - Instant{} >= 300_us);
  CHECK(result.ranks[0].tasks[0].end - Instant{} <= 300_us + 10_ps);
  CHECK(end_of_kernels(result) >= 1175_us);
  CHECK(end_of_kernels(result) <= 1175_us + 10_ps);
}

TEST_CASE("a latency-bound communication holds its SMs as long") {
  const Workload workload = beside_collective({computing(100_us)}, 0_B);
  const RunResult result = run(workload, recording(workload), {.latency = 50_us, .multiprocessors = 50});
  // 50 us at half speed do 25 us of work; 75 us are left.
  CHECK(end_of_kernels(result) == 125_us);
}

TEST_CASE("a sequence as one task and as one task per kernel end at the same picosecond") {
  RandomStream random(1);
  for (int round = 0; round < 20; ++round) {
    std::vector<Kernel> kernels;
    const auto count = 1 + random.below(12);
    for (std::uint64_t k = 0; k < count; ++k) {
      kernels.push_back(computing(Duration(static_cast<std::int64_t>(1 + random.below(100'000'000))),
                                  Bytes(static_cast<std::int64_t>(random.below(50'000'000)))));
    }
    Scene whole(1);
    Scene pieces(1);
    whole.kernels(0, kernels);
    for (const Kernel& kernel : kernels) pieces.kernels(0, {kernel});
    CHECK(run(whole.workload(), {}).step_time == run(pieces.workload(), {}).step_time);
  }
}

TEST_CASE("cutting a sequence where nothing changes for it does not move its end") {
  // Streaming kernels need half the SMs only, so that posting and ending communication that takes 10 SMs cuts the
  // sequence without changing its pace. Rank 1 never computes, and answers after random times.
  RandomStream random(7);
  for (int round = 0; round < 20; ++round) {
    Scene cut(2);
    Scene whole(2);
    std::vector<Kernel> kernels;
    for (int k = 0; k < 6; ++k)
      kernels.push_back(streaming(Bytes(static_cast<std::int64_t>(random.below(90'000'000)))));
    const TaskId all = cut.kernels(0, kernels);
    whole.kernels(0, kernels);
    for (int i = 0; i < 5; ++i) {
      cut.collective(0, 0_B, {"data"});
      cut.host(1, Duration(static_cast<std::int64_t>(random.below(100'000'000))));
      cut.collective(1, 0_B, {.stream = "data", .blocks_host = true});
    }
    const Workload with = cut.workload();
    const Workload without = whole.workload();
    for (const Duration launch : {0_us, 20_us}) {
      ExecutionOptions options = recording(with);
      options.launch = launch;
      const RunResult a = run(with, options, {.multiprocessors = 10});
      const RunResult b = run(without, options);
      CHECK(a.ranks[0].tasks[all.index()].end == b.ranks[0].tasks[0].end);
    }
  }
}

TEST_CASE("playing kernels one by one beside harmless traffic is within the stated rounding of computing them") {
  // Traffic that moves bytes but crosses no memory and takes no SMs: each kernel becomes a flow, and each beginning and
  // end of traffic cuts one. Stated: 2 ps a kernel, and one byte at the kernel's rate for each cut, here at least
  // 10 GB/s: 100 ps.
  RandomStream random(11);
  for (int round = 0; round < 20; ++round) {
    Scene cut(2);
    Scene whole(2);
    std::vector<Kernel> kernels;
    for (int k = 0; k < 8; ++k) {
      const auto microseconds = static_cast<std::int64_t>(10 + random.below(100));
      const auto gigabytes_per_second = static_cast<std::int64_t>(10 + random.below(900));
      kernels.push_back(
          computing(Duration(microseconds * 1'000'000), Bytes(microseconds * gigabytes_per_second * 1000)));
    }
    const TaskId all = cut.kernels(0, kernels);
    whole.kernels(0, kernels);
    constexpr int kCollectives = 4;
    for (int i = 0; i < kCollectives; ++i) {
      const Bytes bytes(static_cast<std::int64_t>(random.below(5'000'000)));
      cut.collective(0, bytes, {"data"});
      cut.host(1, Duration(static_cast<std::int64_t>(random.below(100'000'000))));
      cut.collective(1, bytes, {.stream = "data", .blocks_host = true});
    }
    const Workload with = cut.workload();
    const Workload without = whole.workload();
    ExecutionOptions options = recording(with);
    options.launch = 3_us;
    const RunResult a = run(with, options);
    const RunResult b = run(without, options);
    const Duration longer = a.ranks[0].tasks[all.index()].end - b.ranks[0].tasks[0].end;
    CHECK(longer >= 0_ps);
    CHECK(longer <= 2_ps * 8 + 100_ps * 2 * kCollectives);
  }
}
