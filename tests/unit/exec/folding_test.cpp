// Folded runs are the same as unfolded ones: on random small clusters and programs, to the picosecond and byte.
#include <doctest/doctest.h>

#include <vector>

#include "sim/base/random.hpp"
#include "tests/fuzz/small_case.hpp"
#include "tests/support/same_run.hpp"

using namespace orrery;

namespace {

std::optional<fuzz::SmallCase> random_case(std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<std::uint8_t> bytes(100 + seed % 500);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
  return fuzz::draw_small_case(bytes);
}

}  // namespace

TEST_CASE("random programs on random clusters run folded as unfolded") {
  constexpr int kCases = 600;
  int folded = 0;
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    CAPTURE(seed);
    const auto drawn = random_case(seed);
    if (!drawn) continue;
    ExecutionOptions options = drawn->options;
    for (const TrafficFidelity fidelity : {TrafficFidelity::message, TrafficFidelity::coupled}) {
      CAPTURE(static_cast<int>(fidelity));
      options.traffic.fidelity = fidelity;
      options.fold = false;
      const Result<RunResult> all = execute(drawn->topology, drawn->workload, drawn->placement, options);
      options.fold = true;
      const Result<RunResult> classes = execute(drawn->topology, drawn->workload, drawn->placement, options);
      REQUIRE(all.ok());
      REQUIRE(classes.ok());
      for (const std::string& difference : test::differences(*all, *classes)) FAIL_CHECK(difference);
      if (classes->ranks.size() < all->ranks.size()) ++folded;
    }
  }
  MESSAGE(folded);
  CHECK(folded > 50);
}
