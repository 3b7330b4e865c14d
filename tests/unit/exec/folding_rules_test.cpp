// Each rule of folding is needed: with one entry broken, some run comes out otherwise.
#include <doctest/doctest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <memory>
#include <utility>

#include "sim/exec/executor/executor.hpp"
#include "sim/exec/folding/fold.hpp"
#include "tests/support/same_run.hpp"
#include "tests/unit/exec/folding_cases.hpp"
#include "tests/unit/exec/folding_pairs.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

// A case with its unfolded run, to be folded with a rule broken.
class Mutant {
 public:
  explicit Mutant(const fuzz::SmallCase& drawn) : drawn_(drawn) {
    ExecutionOptions options = drawn.options;
    options.fold = false;
    all_.emplace(execute(drawn.topology, drawn.workload, drawn.placement, options));
    REQUIRE(all_->ok());
    classes_ = classes(std::nullopt);
  }

  // Whether it shows in the run: in a process of its own, as a wrong partition may also fail a check.
  [[nodiscard]] bool shows(FoldingRule broken) const {
    if (classes(broken) == classes_) return false;
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
      for (const int signal : {SIGABRT, SIGSEGV, SIGFPE}) std::signal(signal, SIG_DFL);  // doctest would report them
      std::fclose(stderr);                                                               // the check's own words
      const Result<RunResult> run = play_folded(broken);
      _exit(!run || !differences(**all_, *run).empty() ? 1 : 0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
  }

 private:
  [[nodiscard]] std::shared_ptr<CommunicatorCache> cache(const Hardware& hardware) const {
    auto made = communicator_cache(hardware, drawn_.options.traffic);
    made->know_shares(drawn_.workload.shares);
    return made;
  }

  [[nodiscard]] FoldingInput input(const Hardware& hardware, CommunicatorCache& communicators,
                                   std::optional<FoldingRule> broken) const {
    const ExecutionOptions& options = drawn_.options;
    return {drawn_.workload,          drawn_.placement.gpu_of,    hardware, communicators,
            options.traffic.fidelity, options.kernel_jitter != 0, broken};
  }

  [[nodiscard]] std::size_t classes(std::optional<FoldingRule> broken) const {
    const Hardware hardware(drawn_.topology, drawn_.options.slow_gpus, drawn_.options.slow_links);
    const auto communicators = cache(hardware);
    return refine(cluster_incidence(input(hardware, *communicators, broken)).incidence).representative.size();
  }

  [[nodiscard]] Result<RunResult> play_folded(FoldingRule broken) const {
    const ExecutionOptions& options = drawn_.options;
    const Hardware hardware(drawn_.topology, options.slow_gpus, options.slow_links);
    const auto communicators = cache(hardware);
    Folded stage = fold(input(hardware, *communicators, broken));
    return play(drawn_.workload, hardware, stage.partition, std::move(stage.resources), options,
                [&](Machine& machine, TrafficListener& listener) {
                  return std::make_unique<Traffic>(machine, options.traffic, listener, communicators);
                });
  }

  const fuzz::SmallCase& drawn_;
  std::optional<Result<RunResult>> all_;
  std::size_t classes_ = 0;
};

using enum FoldingRule;

// Where a rule is known to show.
struct Known {
  FoldingRule rule{};
  std::optional<fuzz::SmallCase> (*draw)(std::uint64_t seed) = nullptr;
  std::uint64_t seed = 0;
};

constexpr std::array kKnown{
    Known{rank_role, random_case, 8},
    Known{rank_gpu, twins, 24},
    Known{rank_slowdown, twins, 4},
    Known{rank_noise, random_case, 151},
    Known{rank_transfer_ranks, unequal_rings},
    Known{rank_copy_latency, twins, 446},
    Known{communicator_kind, twins, 0},
    Known{call_channels, twins, 2818},
    Known{call_alone, twins, 461},
    Known{call_latency, twins, 823},
    Known{channel_latency, twins, 22},
    Known{channel_bandwidth, unequal_plans},
    Known{link_kind, twins, 0},
    Known{link_bandwidth, twins, 12},
    Known{member, twins, 0},
    Known{crossing, twins, 0},
    Known{memory, twins, 1},
    Known{crossing_count, twins, 0},
    Known{crossing_phase, twins, 147},
    Known{copying, twins, 2},
    Known{copying_direction, twins, 3},
    Known{peer, twins, 22},
    Known{peer_end, twins, 22},
    Known{peer_kind, twins, 22},
    Known{part, twins, 527},
    Known{part_plan, twins, 890},
    Known{part_latency, twins, 527},
    Known{numbered, twins, 1},
    Known{numbered_by, twins, 2580},
    Known{waiting, twins, 6},
    Known{waiting_how, twins, 6},
    Known{call_totals, one_ring_and_two},
    Known{call_cap, either_first_coupled},
    Known{phase_work, two_by_three_coupled},
    Known{part_size, two_by_three_messages},
    Known{part_cap, either_first_messages},
    Known{numbered_weight, uneven_exchange},
    Known{count_phase, near_and_far_partners},
    Known{count_kind, nvlink_and_pcie},
    Known{count_bandwidth, cables, 12684},
    Known{count_uses, cables, 26},
};

// In the known case, or in any other.
bool shows(const Known& known) {
  const auto shows_in = [&](const std::optional<fuzz::SmallCase>& drawn) {
    return drawn && Mutant(*drawn).shows(known.rule);
  };
  if (shows_in(known.draw(known.seed))) return true;
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    if (shows_in(known.draw(seed))) return true;
  }
  return false;
}

}  // namespace

TEST_CASE("each rule of folding is needed: with one entry broken, some run comes out otherwise") {
  for (const Known& known : kKnown) {
    CAPTURE(static_cast<int>(known.rule));
    CHECK(shows(known));
  }
}

TEST_CASE("each rule of folding is known to show in one case") {
  for (std::size_t r = 0; r < kFoldingRules; ++r) {
    CAPTURE(r);
    const auto rule = static_cast<FoldingRule>(r);
    CHECK(std::count_if(kKnown.begin(), kKnown.end(), [&](const Known& each) { return each.rule == rule; }) == 1);
  }
}
