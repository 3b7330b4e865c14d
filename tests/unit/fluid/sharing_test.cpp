// The sharing problem without time. Each system is written as inequations; the share is derived by hand, then asserted.
#include "sim/fluid/sharing.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <vector>

#include "sim/base/random.hpp"

namespace orrery {
namespace {

using Crossings = std::vector<Crossing>;

ResourceId res(std::size_t index) { return ResourceId(index); }

struct Line {
  std::int64_t cap;
  Crossings crossings;
};

constexpr std::int64_t kNoCap = kUncapped.count();

SharingProblem problem_of(const std::vector<std::int64_t>& capacities, const std::vector<Line>& activities) {
  SharingProblem problem;
  problem.first.push_back(0);
  for (const std::int64_t capacity : capacities) problem.add_resource(Rate(capacity));
  for (const Line& line : activities) problem.add_activity(Rate(line.cap), line.crossings);
  return problem;
}

std::vector<std::int64_t> shares(const SharingProblem& problem) {
  const SharingSolution solution = solve_full(problem);
  CHECK(certificate_failure(problem, solution.rate) == std::nullopt);
  std::vector<std::int64_t> counts;
  for (const Rate rate : solution.rate) counts.push_back(rate.count());
  return counts;
}

TEST_CASE("k equal flows on a link get a k-th each, rounded down") {
  for (std::int64_t k = 1; k <= 9; ++k) {
    // k * x <= 1000
    const auto got =
        shares(problem_of({1000}, std::vector<Line>(static_cast<std::size_t>(k), {kNoCap, {{res(0), 1}}})));
    CHECK(got == std::vector<std::int64_t>(static_cast<std::size_t>(k), 1000 / k));
  }
}

TEST_CASE("a long flow across two links gets the worse share, and what it leaves goes to the short ones") {
  // a + b <= 100, a + c + d <= 90. Second link saturates first: 90 / 3 = 30 for a, c, d; then b = 100 - 30.
  CHECK(shares(problem_of({100, 90}, {{kNoCap, {{res(0), 1}, {res(1), 1}}},
                                      {kNoCap, {{res(0), 1}}},
                                      {kNoCap, {{res(1), 1}}},
                                      {kNoCap, {{res(1), 1}}}})) == std::vector<std::int64_t>{30, 70, 30, 30});
}

TEST_CASE("dumbbell: the middle link is shared by all pairs, whatever the ends could do") {
  // x1 <= 50, x2 <= 60, x3 <= 10 (own ends), x1 + x2 + x3 <= 90. First 10 for x3; then (90 - 10) / 2 = 40.
  CHECK(shares(problem_of({50, 60, 10, 90}, {{kNoCap, {{res(0), 1}, {res(3), 1}}},
                                             {kNoCap, {{res(1), 1}, {res(3), 1}}},
                                             {kNoCap, {{res(2), 1}, {res(3), 1}}}})) ==
        std::vector<std::int64_t>{40, 40, 10});
}

TEST_CASE("a cap binds like a link of its own") {
  // a + b + c <= 100 with a <= 12, b <= 60. 100 / 3 = 33 > 12: a = 12; then 88 / 2 = 44 < 60: b = c = 44.
  CHECK(shares(problem_of({100}, {{12, {{res(0), 1}}}, {60, {{res(0), 1}}}, {kNoCap, {{res(0), 1}}}})) ==
        std::vector<std::int64_t>{12, 44, 44});
  CHECK(shares(problem_of({}, {{7, {}}, {kNoCap, {}}})) == std::vector<std::int64_t>{7, kNoCap});
}

TEST_CASE("a count uses a link several times") {
  // 3a + b <= 100, a + c <= 100. 100 / 4 = 25 for a and b; c = 75.
  CHECK(shares(problem_of({100, 100},
                          {{kNoCap, {{res(0), 3}, {res(1), 1}}}, {kNoCap, {{res(0), 1}}}, {kNoCap, {{res(1), 1}}}})) ==
        std::vector<std::int64_t>{25, 25, 75});
}

TEST_CASE("links that tie saturate together, so that equals differ by no step") {
  // Two links of 100 with seven flows each, one flow common to both: 100 / 7 = 14 on both at once; 2 steps are left.
  std::vector<Line> lines(6, {kNoCap, {{res(0), 1}}});
  lines.insert(lines.end(), 6, {kNoCap, {{res(1), 1}}});
  lines.push_back({kNoCap, {{res(0), 1}, {res(1), 1}}});
  const SharingProblem problem = problem_of({100, 100}, lines);
  CHECK(shares(problem) == std::vector<std::int64_t>(13, 14));
  CHECK(solve_full(problem).level == std::vector<Rate>{Rate(14), Rate(14)});
}

TEST_CASE("a link whose flows are all limited elsewhere is not saturated") {
  // a <= 30, b <= 70 by links of their own, a + b <= C. With C = 100 the common link ties with that of b at 70; with
  // C = 101 it could give b 71.
  const std::vector<Line> lines = {{kNoCap, {{res(0), 1}, {res(2), 1}}}, {kNoCap, {{res(1), 1}, {res(2), 1}}}};
  CHECK(shares(problem_of({30, 70, 100}, lines)) == std::vector<std::int64_t>{30, 70});
  CHECK(solve_full(problem_of({30, 70, 100}, lines)).level.back() == Rate(70));
  CHECK(shares(problem_of({30, 70, 101}, lines)) == std::vector<std::int64_t>{30, 70});
  CHECK(solve_full(problem_of({30, 70, 101}, lines)).level.back() == kUnsaturated);
}

TEST_CASE("the certificate refuses what is not max-min fair") {
  const SharingProblem problem =
      problem_of({100, 90}, {{kNoCap, {{res(0), 1}, {res(1), 1}}}, {80, {{res(0), 1}}}, {kNoCap, {{res(1), 1}}}});
  const auto failure = [&](std::int64_t a, std::int64_t b, std::int64_t c) {
    return certificate_failure(problem, std::array{Rate(a), Rate(b), Rate(c)}).value_or("");
  };
  CHECK(failure(45, 55, 45) == "");
  CHECK(failure(45, 56, 45) == "resource 0 of capacity 100 is overloaded");
  CHECK(failure(45, 54, 45) == "nothing limits activity 1 with rate 54");
  CHECK(failure(40, 60, 50) == "nothing limits activity 0 with rate 40");
  CHECK(failure(10, 81, 70) == "activity 1 exceeds its cap");
}

// Random problems with few steps of capacity, so that ties abound.
SharingProblem random_problem(std::uint64_t seed) {
  RandomStream random(seed, "sharing_problem");
  const auto draw = [&](std::uint64_t least, std::uint64_t range) {
    return static_cast<std::int64_t>(least + random.below(range));
  };
  SharingProblem problem;
  problem.first.push_back(0);
  const std::size_t resources = 2 + random.below(8);
  const std::uint64_t range = random.below(2) == 0 ? 1 : 120;
  for (std::size_t r = 0; r < resources; ++r) problem.add_resource(Rate(draw(40, range)));
  for (std::uint64_t f = random.below(14); f > 0; --f) {
    Crossings crossings;
    for (std::size_t r = 0; r < resources; ++r) {
      if (random.below(3) == 0) crossings.push_back({res(r), static_cast<std::int32_t>(draw(1, 4))});
    }
    problem.add_activity(random.below(3) == 0 ? Rate(draw(0, 40)) : kUncapped, crossings);
  }
  return problem;
}

TEST_CASE("the full solver's solutions have the certificate") {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    CAPTURE(seed);
    const SharingProblem problem = random_problem(seed);
    CHECK(certificate_failure(problem, solve_full(problem).rate) == std::nullopt);
  }
}

TEST_CASE("the order of activities and resources does not matter") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    const SharingProblem problem = random_problem(seed);
    const std::size_t resources = problem.capacity.size();
    SharingProblem reversed;
    reversed.first.push_back(0);
    for (std::size_t r = resources; r-- > 0;) reversed.add_resource(problem.capacity[r]);
    for (std::size_t f = problem.activity_count(); f-- > 0;) {
      Crossings crossings(problem.crossings_of(f).begin(), problem.crossings_of(f).end());
      for (Crossing& crossing : crossings) crossing.resource = res(resources - 1 - crossing.resource.index());
      reversed.add_activity(problem.cap[f], crossings);
    }
    std::vector<Rate> rates = solve_full(reversed).rate;
    std::reverse(rates.begin(), rates.end());
    CHECK(rates == solve_full(problem).rate);
  }
}

TEST_CASE("an activity with k times the counts gets what k equal ones get") {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    CAPTURE(seed);
    const SharingProblem problem = random_problem(seed);
    if (problem.activity_count() == 0) continue;
    const std::int32_t copies = static_cast<std::int32_t>(2 + seed % 5);
    SharingProblem unfolded = problem;
    SharingProblem folded;
    folded.first.push_back(0);
    folded.capacity = problem.capacity;
    for (std::size_t f = 0; f < problem.activity_count(); ++f) {
      Crossings crossings(problem.crossings_of(f).begin(), problem.crossings_of(f).end());
      if (f == 0) {
        for (std::int32_t i = 1; i < copies; ++i) unfolded.add_activity(problem.cap[0], crossings);
        for (Crossing& crossing : crossings) crossing.count *= copies;
      }
      folded.add_activity(problem.cap[f], crossings);
    }
    std::vector<Rate> rates = solve_full(unfolded).rate;
    CHECK(std::all_of(rates.begin() + static_cast<std::ptrdiff_t>(problem.activity_count()), rates.end(),
                      [&](Rate rate) { return rate == rates[0]; }));
    rates.resize(problem.activity_count());
    CHECK(rates == solve_full(folded).rate);
  }
}

}  // namespace
}  // namespace orrery
