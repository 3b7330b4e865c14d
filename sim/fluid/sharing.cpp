#include "sim/fluid/sharing.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace orrery {

namespace {

constexpr std::int64_t kInfinite = kUnsaturated.count();

// Progressive filling in progress: what is left of each resource, for how many unfixed uses.
class Filling {
 public:
  explicit Filling(const SharingProblem& problem)
      : problem_(problem), left_(problem.capacity.size()), uses_(problem.capacity.size(), 0) {
    for (std::size_t l = 0; l < left_.size(); ++l) left_[l] = problem.capacity[l].count();
    for (const Crossing& crossing : problem.crossings) uses_[crossing.resource.index()] += crossing.count;
    solution_.rate.assign(problem.activity_count(), kUnsaturated);
    solution_.level.assign(left_.size(), kUnsaturated);
  }

  SharingSolution run() {
    std::vector<std::size_t> unfixed(problem_.activity_count());
    for (std::size_t f = 0; f < unfixed.size(); ++f) unfixed[f] = f;
    for (;;) {
      const std::int64_t level = least_level(unfixed);
      if (level == kInfinite) return std::move(solution_);
      for (std::size_t l = 0; l < left_.size(); ++l) {
        if (uses_[l] > 0 && left_[l] / uses_[l] == level) solution_.level[l] = Rate(level);
      }
      std::erase_if(unfixed, [&](std::size_t f) { return fix_if_reached(f, level); });
    }
  }

 private:
  [[nodiscard]] std::int64_t least_level(const std::vector<std::size_t>& unfixed) const {
    std::int64_t least = kInfinite;
    for (std::size_t l = 0; l < left_.size(); ++l) {
      if (uses_[l] > 0) least = std::min(least, left_[l] / uses_[l]);
    }
    for (const std::size_t f : unfixed) least = std::min(least, problem_.cap[f].count());
    return least;
  }

  bool fix_if_reached(std::size_t f, std::int64_t level) {
    const std::span<const Crossing> crossings = problem_.crossings_of(f);
    const bool saturated = std::any_of(crossings.begin(), crossings.end(), [&](const Crossing& crossing) {
      return solution_.level[crossing.resource.index()].count() == level;
    });
    if (!saturated && problem_.cap[f].count() != level) return false;
    solution_.rate[f] = Rate(level);
    for (const Crossing& crossing : crossings) {
      left_[crossing.resource.index()] -= level * crossing.count;
      uses_[crossing.resource.index()] -= crossing.count;
    }
    return true;
  }

  const SharingProblem& problem_;
  std::vector<std::int64_t> left_;  // [resources] capacity that fixed activities leave
  std::vector<std::int64_t> uses_;  // [resources] sum of the counts of unfixed activities
  SharingSolution solution_;
};

struct Load {
  Int128 used = 0;
  Rate largest{};
  std::int64_t uses_at_largest = 0;
};

std::vector<Load> loads_of(const SharingProblem& problem, std::span<const Rate> rates) {
  std::vector<Load> loads(problem.capacity.size());
  for (std::size_t f = 0; f < rates.size(); ++f) {
    for (const Crossing& crossing : problem.crossings_of(f)) {
      Load& load = loads[crossing.resource.index()];
      load.used += static_cast<Int128>(rates[f].count()) * crossing.count;
      if (rates[f] > load.largest) {
        load.largest = rates[f];
        load.uses_at_largest = 0;
      }
      if (rates[f] == load.largest) load.uses_at_largest += crossing.count;
    }
  }
  return loads;
}

}  // namespace

SharingSolution solve_full(const SharingProblem& problem) { return Filling(problem).run(); }

std::optional<std::string> certificate_failure(const SharingProblem& problem, std::span<const Rate> rates) {
  ORRERY_CHECK(rates.size() == problem.activity_count(), "one rate per activity", rates.size());
  const std::vector<Load> loads = loads_of(problem, rates);
  for (std::size_t l = 0; l < loads.size(); ++l) {
    if (loads[l].used > problem.capacity[l].count()) {
      return fmt::format("resource {} of capacity {} is overloaded", l, problem.capacity[l].count());
    }
  }
  for (std::size_t f = 0; f < rates.size(); ++f) {
    if (rates[f] > problem.cap[f]) return fmt::format("activity {} exceeds its cap", f);
  }
  for (std::size_t f = 0; f < rates.size(); ++f) {
    if (rates[f] == problem.cap[f]) continue;
    const std::span<const Crossing> crossings = problem.crossings_of(f);
    const bool limited = std::any_of(crossings.begin(), crossings.end(), [&](const Crossing& crossing) {
      const Load& load = loads[crossing.resource.index()];
      return load.largest == rates[f] &&
             problem.capacity[crossing.resource.index()].count() - load.used < load.uses_at_largest;
    });
    if (!limited) return fmt::format("nothing limits activity {} with rate {}", f, rates[f].count());
  }
  return std::nullopt;
}

}  // namespace orrery
