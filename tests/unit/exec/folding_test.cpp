// Folded runs are the same as unfolded ones: on random small clusters and programs, to the picosecond and byte.
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/exec/executor/executor.hpp"
#include "sim/exec/folding/fold.hpp"
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

namespace {

// Whether folding without a rule shows: in a process of its own, as a broken partition may also fail a check.
bool shows(FoldingRule ignored) {
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    std::signal(SIGABRT, SIG_DFL);
    std::fclose(stderr);  // the check's own words
    // Seeds at which rules once showed, then whichever.
    constexpr std::array<std::uint64_t, 6> kKnown{1, 51, 246, 720, 4251, 4328};
    for (std::uint64_t i = 0; i < 6000; ++i) {
      const std::uint64_t seed = i < kKnown.size() ? kKnown[i] : i - kKnown.size();
      const auto drawn = random_case(seed);
      if (!drawn) continue;
      ExecutionOptions options = drawn->options;
      const Result<RunResult> all = execute(drawn->topology, drawn->workload, drawn->placement, options);
      const Hardware hardware(drawn->topology, options.slow_gpus, options.slow_links);
      const auto communicators = communicator_cache(hardware, options.traffic);
      Folded stage = fold({drawn->workload, drawn->placement.gpu_of, hardware, *communicators, options.traffic.fidelity,
                           options.kernel_jitter != 0, ignored});
      const Result<RunResult> broken =
          play(drawn->workload, hardware, stage.partition, std::move(stage.resources), options,
               [&](Machine& machine, TrafficListener& listener) {
                 return std::make_unique<Traffic>(machine, options.traffic, listener, communicators);
               });
      if (!broken || !test::differences(*all, *broken).empty()) _exit(1);
    }
    _exit(0);
  }
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

}  // namespace

TEST_CASE("each rule of folding is needed: without it, some run comes out otherwise") {
  for (std::size_t rule = 0; rule < kFoldingRules; ++rule) {
    CAPTURE(rule);
    CHECK(shows(static_cast<FoldingRule>(rule)));
  }
}
