// Memory: sizes as the caching allocator hands them out, peaks and when they are reached.
#include "sim/exec/executor/memory_ledger.hpp"

#include <doctest/doctest.h>

#include "executor_fixtures.hpp"

using namespace orrery;
using namespace orrery::test;

TEST_CASE("requests are rounded up to 512 bytes") {
  CHECK(allocated_size(0_B) == 0_B);
  CHECK(allocated_size(1_B) == 512_B);
  CHECK(allocated_size(512_B) == 512_B);
  CHECK(allocated_size(513_B) == 1024_B);
  CHECK(allocated_size(1_MiB) == 1_MiB);
}

TEST_CASE("requests below 10 MiB are cut to size from a larger segment") {
  CHECK(allocated_size(3_MiB + 1_B) == 3_MiB + 512_B);
  CHECK(allocated_size(10_MiB - 512_B) == 10_MiB - 512_B);
}

TEST_CASE("larger requests keep a remainder of up to 1 MiB of their segment of whole 2 MiB") {
  CHECK(allocated_size(10_MiB) == 10_MiB);
  CHECK(allocated_size(10_MiB + 1_B) == 10_MiB + 512_B);    // 12 MiB segment, nearly 2 MiB cut off
  CHECK(allocated_size(11_MiB - 512_B) == 11_MiB - 512_B);  // 1 MiB + 512 B cut off
  CHECK(allocated_size(11_MiB) == 12_MiB);                  // 1 MiB is not more than 1 MiB
  CHECK(allocated_size(12_MiB - 1_B) == 12_MiB);
}

TEST_CASE("the peak knows its tags, its task and its moment") {
  Scene scene(1);
  scene.resident(0, {100_MiB, MemoryTag::weights});
  scene.resident(0, {1_MiB, MemoryTag::framework});
  scene.kernels(0, {computing(10_us)}, {.memory = {{20_MiB, MemoryTag::activations}}});
  scene.kernels(0, {computing(10_us)},
                {.memory = {{30_MiB, MemoryTag::activations}, {Bytes(-(20 << 20)), MemoryTag::activations}}});
  scene.kernels(0, {computing(10_us)}, {.memory = {{Bytes(-(30 << 20)), MemoryTag::activations}}});
  const Workload workload = scene.workload();
  ExecutionOptions options = recording(workload);
  options.launch = 4_us;
  const RunResult result = run(workload, options);
  const MemoryPeak& peak = result.ranks[0].memory;
  // Within the second task, before it frees: 100 + 1 + 20 + 30.
  CHECK(peak.peak == 151_MiB);
  CHECK(peak.by_tag[static_cast<std::size_t>(MemoryTag::weights)] == 100_MiB);
  CHECK(peak.by_tag[static_cast<std::size_t>(MemoryTag::activations)] == 50_MiB);
  CHECK(peak.by_tag[static_cast<std::size_t>(MemoryTag::framework)] == 1_MiB);
  CHECK(peak.task == TaskId(1));
  // When it begins on the GPU, where the first task runs from 4 to 14 us; its host is done with issuing it at 8 us.
  CHECK(peak.when == at(14_us));
  const auto& samples = result.ranks[0].memory_over_time;
  REQUIRE(samples.size() == 5);
  CHECK(samples[0].allocated == 101_MiB);
  CHECK(samples[1].allocated == 121_MiB);
  CHECK(samples[1].when == at(4_us));
  // The second task holds the peak while it runs, and what it frees is gone at its end, as with the third.
  CHECK(samples[2].allocated == 151_MiB);
  CHECK(samples[2].when == at(14_us));
  CHECK(samples[3].allocated == 131_MiB);
  CHECK(samples[3].when == at(24_us));
  CHECK(samples[4].allocated == 101_MiB);
  CHECK(samples[4].when == at(34_us));
}

TEST_CASE("memory follows the GPU in the order of the program, host work and other streams included") {
  // In program order: a collective takes 1 MiB and lasts 10 us; kernels of 100 us on another stream give it back; a
  // collective after those takes 2 MiB; host work, long before that on the clock, takes 4 MiB and gives them back.
  for (const bool recorded : {true, false}) {
    CAPTURE(recorded);
    Scene scene(1);
    const MemoryTag tag = MemoryTag::workspace;
    scene.copy(0, Bytes(250'000), {.stream = "copy", .memory = {{1_MiB, tag}}});
    const TaskId computed = scene.kernels(0, {computing(100_us)}, {.memory = {{Bytes(-(1 << 20)), tag}}});
    scene.copy(0, Bytes(250'000), {.stream = "copy", .after = {computed}, .memory = {{2_MiB, tag}}});
    scene.host(0, 1_us, {.stream = "host", .memory = {{4_MiB, tag}, {Bytes(-(4 << 20)), tag}}});
    const Workload workload = scene.workload();
    const RunResult result = run(workload, recorded ? recording(workload) : ExecutionOptions{});
    CHECK(result.ranks[0].memory.peak == 6_MiB);
    CHECK(result.ranks[0].memory.when == at(100_us));
    if (!recorded) continue;
    const auto& samples = result.ranks[0].memory_over_time;
    REQUIRE(samples.size() == 6);
    const std::vector<std::pair<Bytes, Duration>> expected{{0_B, 0_us},     {1_MiB, 0_us},   {0_B, 100_us},
                                                           {2_MiB, 100_us}, {6_MiB, 100_us}, {2_MiB, 100_us}};
    for (std::size_t i = 0; i < samples.size(); ++i) {
      CAPTURE(i);
      CHECK(samples[i].allocated == expected[i].first);
      CHECK(samples[i].when == at(expected[i].second));
    }
  }
}

TEST_CASE("behind a synchronisation memory is touched later") {
  Scene scene(1);
  scene.kernels(0, {computing(100_us)}, {.blocks_host = true});
  scene.kernels(0, {computing(10_us)}, {.memory = {{20_MiB, MemoryTag::workspace}}});
  const RunResult result = run(scene.workload(), {});
  CHECK(result.ranks[0].memory.when == at(100_us));
}

TEST_CASE("what is resident may be the peak") {
  Scene scene(1);
  scene.resident(0, {10_MiB, MemoryTag::weights});
  const RunResult result = run(scene.workload(), {});
  CHECK(result.ranks[0].memory.peak == 10_MiB);
  CHECK(!result.ranks[0].memory.task.valid());
}

TEST_CASE("a tag never holds less than nothing") {
  Scene scene(1);
  // Counted together 1,000 B take 1,024; freed one by one, 500 B take 512 each.
  scene.kernels(0, {}, {.memory = {{700_B, MemoryTag::logits}}});
  scene.kernels(0, {}, {.memory = {{Bytes(-600), MemoryTag::logits}, {Bytes(-100), MemoryTag::logits}}});
  const Workload workload = scene.workload();
  const MemoryLedger ledger(workload.programs[0]);
  CHECK(ledger.steps().back().allocated == 0_B);
  CHECK(ledger.peak() == 1024_B);
}
