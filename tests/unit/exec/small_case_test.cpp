// The laws of an execution on random small cases (tests/fuzz), and on those that once broke one.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "tests/fuzz/execution_laws.hpp"

using namespace orrery;

namespace {

std::vector<std::uint8_t> random_bytes(std::uint64_t seed, std::size_t count) {
  RandomStream random(seed);
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
  return bytes;
}

// Whether the bytes make a case at all; its laws are checked.
bool check(const std::vector<std::uint8_t>& bytes) {
  const auto drawn = fuzz::draw_small_case(bytes);
  if (!drawn) return false;
  for (const std::string& law : fuzz::broken_laws(*drawn)) FAIL_CHECK(law);
  return true;
}

}  // namespace

TEST_CASE("random small cases break no law of an execution") {
  constexpr int kCases = 400;
  int played = 0;
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    CAPTURE(seed);
    if (check(random_bytes(seed, 100 + seed % 500))) ++played;
  }
  // Some clusters are none: no NIC, sockets that nothing joins.
  CHECK(played > kCases / 2);
}

TEST_CASE("a result that is not that of the case breaks laws") {
  // Every choice is the first: one GPU, no tasks. So take a case with some, whichever.
  const auto drawn = fuzz::draw_small_case(random_bytes(3, 400));
  REQUIRE(drawn);
  const Result<RunResult> result = execute(drawn->topology, drawn->workload, drawn->placement, drawn->options);
  REQUIRE(result.ok());
  REQUIRE(result->ranks[0].tasks.size() > 1);
  CHECK(fuzz::broken_schedule_laws(*drawn, *result).empty());
  const auto breaks = [&](auto&& change) {
    RunResult changed = *result;
    change(changed);
    return !fuzz::broken_schedule_laws(*drawn, changed).empty();
  };
  CHECK(breaks([](RunResult& run) { run.step_time += Duration(1); }));
  CHECK(breaks([](RunResult& run) { run.ranks[0].times.other += Duration(1); }));
  CHECK(breaks([](RunResult& run) { run.ranks[0].memory.peak += Bytes(1); }));
  CHECK(breaks([](RunResult& run) { run.ranks[0].memory_over_time.back().allocated += Bytes(1); }));
  CHECK(breaks([](RunResult& run) { run.ranks[0].tasks[1].begin += Duration(1); }));
  CHECK(breaks([](RunResult& run) { run.ranks[0].tasks[0].end -= run.ranks[0].tasks[0].end - Instant{}; }));
}
