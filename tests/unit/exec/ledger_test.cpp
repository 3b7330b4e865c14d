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
  // When the host begins to issue it: after the first launch.
  CHECK(peak.when == at(4_us));
  const auto& samples = result.ranks[0].memory_over_time;
  REQUIRE(samples.size() == 5);
  CHECK(samples[0].allocated == 101_MiB);
  CHECK(samples[1].allocated == 121_MiB);
  // While the second task is issued it holds the peak; what it frees is gone when the host has issued it.
  CHECK(samples[2].allocated == 151_MiB);
  CHECK(samples[2].when == at(4_us));
  CHECK(samples[3].allocated == 131_MiB);
  CHECK(samples[3].when == at(8_us));
  CHECK(samples[4].allocated == 101_MiB);
  CHECK(samples[4].when == at(8_us));
}

TEST_CASE("memory follows the host: behind a synchronisation it is touched later") {
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
