// Folded runs are the same as unfolded ones: on random small clusters and programs, to the picosecond and byte.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "tests/support/same_run.hpp"
#include "tests/unit/exec/executor_fixtures.hpp"
#include "tests/unit/exec/folding_cases.hpp"
#include "tests/unit/exec/folding_pairs.hpp"

using namespace orrery;

namespace {

// Runs it folded and unfolded; whether some ranks stood for others.
bool check_same(fuzz::SmallCase& drawn) {
  drawn.options.fold = false;
  const Result<RunResult> all = execute(drawn.topology, drawn.workload, drawn.placement, drawn.options);
  drawn.options.fold = true;
  const Result<RunResult> classes = execute(drawn.topology, drawn.workload, drawn.placement, drawn.options);
  REQUIRE(all.ok());
  REQUIRE(classes.ok());
  for (const std::string& difference : test::differences(*all, *classes)) FAIL_CHECK(difference);
  return classes->ranks.size() < all->ranks.size();
}

}  // namespace

TEST_CASE("random programs on random clusters run folded as unfolded") {
  constexpr int kCases = 600;
  int played = 0;
  int folded = 0;
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    CAPTURE(seed);
    auto drawn = test::random_case(seed);
    if (!drawn) continue;
    ++played;
    for (const TrafficFidelity fidelity : {TrafficFidelity::message, TrafficFidelity::coupled}) {
      CAPTURE(static_cast<int>(fidelity));
      drawn->options.traffic.fidelity = fidelity;
      if (check_same(*drawn)) ++folded;
    }
  }
  CHECK(played > kCases / 2);
  CHECK(folded > 50);
}

namespace {

// Ranks on one node of an NVSwitch, each with a role of its own choice.
Workload workload_of(std::vector<Program> programs, const std::vector<std::size_t>& roles) {
  Workload workload;
  workload.programs = std::move(programs);
  for (const std::size_t role : roles) workload.role_of.emplace_back(role);
  return workload;
}

}  // namespace

TEST_CASE("two ranks with the same peer fold, as long as none of them sends to it") {
  // Ranks 0 and 1 both have rank 2 as their next, and nobody has a previous.
  std::vector<Program> programs;
  for (const Duration work : {Duration(3'000'000), Duration(5'000'000)}) {
    ProgramBuilder builder;
    builder.host(work, {.stream = builder.stream("compute", true)});
    programs.push_back(std::move(builder).freeze());
  }
  Workload workload = workload_of(std::move(programs), {0, 0, 1});
  workload.peer_kinds.push_back({"pipeline_next", {RankId(2), RankId(2), RankId()}});
  const Result<Topology> topology = Topology::build(test::plain_cluster(3));
  REQUIRE(topology.ok());
  ExecutionOptions options;
  const Result<RunResult> classes = execute(*topology, workload, place_in_order(workload), options);
  options.fold = false;
  const Result<RunResult> all = execute(*topology, workload, place_in_order(workload), options);
  REQUIRE(all.ok());
  REQUIRE(classes.ok());
  CHECK(test::differences(*all, *classes).empty());
  CHECK(classes->ranks.size() == 2);
}

TEST_CASE("nodes that are alike but for one thing run folded as unfolded") {
  int folded = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    auto drawn = test::twins(seed);
    if (drawn && check_same(*drawn)) ++folded;
  }
  MESSAGE(folded);
  CHECK(folded > 100);
}

// Of the same length and with as many messages and bytes in all, they once were one class, whose NVLinks carried what
// those of its first member did.
TEST_CASE("tiny collectives on two nodes of three and three of two are counted apart") {
  auto drawn = test::two_by_three_unnoticed(0);
  REQUIRE(drawn);
  CHECK(check_same(*drawn));
  const Result<RunResult> run = execute(drawn->topology, drawn->workload, drawn->placement, drawn->options);
  REQUIRE(run.ok());
  // S = 600 B. Inside nodes, two phases: each of six members sends 2 rounds of S / 3, or one of S / 2, over two
  // NVLinks.
  CHECK(run->bytes_by_link_kind.at("nvlink") == 2 * 6 * 2 * (400 + 300));
}

TEST_CASE("communicators of one size run folded as unfolded however they lie on their nodes") {
  int folded = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    CAPTURE(seed);
    auto drawn = test::layouts(seed);
    REQUIRE(drawn);
    if (check_same(*drawn)) ++folded;
  }
  MESSAGE(folded);
  CHECK(folded > 300);
}

TEST_CASE("communicators that differ in one thing only run folded as unfolded") {
  for (const auto draw : {&test::two_by_three_coupled, &test::two_by_three_messages, &test::either_first_coupled,
                          &test::either_first_messages, &test::near_and_far_partners, &test::nvlink_and_pcie,
                          &test::one_ring_and_two, &test::uneven_exchange}) {
    auto drawn = draw(0);
    REQUIRE(drawn);
    check_same(*drawn);
  }
}
