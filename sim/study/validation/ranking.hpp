// Whether a simulation ranks plans as they were measured: what a search over plans stands on.
//
// A sweep is all rows of one source that differ in their plan alone: the same model, cluster, software, batch and
// sequence. Rows of one plan count once, with the means of their times. Of each sweep: Spearman's rank correlation of
// predicted and measured times, and how much longer than the best plan measured the plan takes, as measured, that was
// predicted to be best. Doubtful rows and those that were not simulated are left out.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/study/validation/validation.hpp"

namespace orrery {

struct PlanSweep {
  std::string group;  // of the source
  std::string name;   // what its plans have in common, in words
  int plans = 0;
  std::optional<double> spearman;  // absent: all times of one side are the same
  double loss = 0;                 // measured time of the plan predicted best / that of the best plan - 1
  std::string chosen_id;           // a row of the plan predicted best
  std::string best_id;             // a row of the plan measured best
};

struct RankingSummary {
  std::string group;
  int sweeps = 0;
  int plans = 0;
  double spearman = 0;        // the mean
  double least_spearman = 0;  // the worst
  int ranked = 0;             // sweeps of a correlation of at least kGoodRanking
  double loss = 0;            // the mean
  double most_loss = 0;       // the worst
  int found = 0;              // sweeps in which the choice costs at most kGoodChoice
};

inline constexpr double kGoodRanking = 0.95;
inline constexpr double kGoodChoice = 0.03;

// Sweeps of at least `least_plans` plans, by source, in the order of the tables. O(rows log rows).
[[nodiscard]] std::vector<PlanSweep> plan_sweeps(const Validation& validation, int least_plans = 3);

// By source, and over all sweeps as the last where there are several sources.
[[nodiscard]] std::vector<RankingSummary> ranking_by_group(std::span<const PlanSweep> sweeps);

// Spearman's rho: the correlation of ranks, equal values sharing theirs. Absent where all values of one side are equal.
// The sides have one length.
[[nodiscard]] std::optional<double> spearman(std::span<const double> a, std::span<const double> b);

}  // namespace orrery
