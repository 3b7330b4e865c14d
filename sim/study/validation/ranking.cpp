#include "sim/study/validation/ranking.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "sim/base/check.hpp"

namespace orrery {

namespace {

// [values] from 0; equal values share the mean of their places.
std::vector<double> ranks_of(std::span<const double> values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return std::pair(values[a], a) < std::pair(values[b], b); });
  std::vector<double> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first + 1;
    while (end < order.size() && values[order[end]] == values[order[first]]) ++end;
    for (std::size_t i = first; i < end; ++i) ranks[order[i]] = static_cast<double>(first + end - 1) / 2;
    first = end;
  }
  return ranks;
}

// The rows of one plan.
struct PlanTimes {
  std::string id;
  double measured_s = 0;  // sums
  double predicted_s = 0;
  int rows = 0;
};

std::string words_for(const ValidatedRun& run) {
  const std::string& cluster = run.measured.cluster;
  return run.measured.model.empty() ? cluster : fmt::format("{}, {}", run.measured.model, cluster);
}

PlanSweep sweep_of(const ValidatedRun& first, const std::map<std::string, PlanTimes>& plans) {
  std::vector<double> measured;
  std::vector<double> predicted;
  std::vector<std::string> ids;
  for (const auto& [plan, times] : plans) {
    measured.push_back(times.measured_s / times.rows);
    predicted.push_back(times.predicted_s / times.rows);
    ids.push_back(times.id);
  }
  const auto best = static_cast<std::size_t>(std::min_element(measured.begin(), measured.end()) - measured.begin());
  const auto chosen =
      static_cast<std::size_t>(std::min_element(predicted.begin(), predicted.end()) - predicted.begin());
  return {.group = first.measured.group,
          .name = words_for(first),
          .plans = static_cast<int>(plans.size()),
          .spearman = spearman(measured, predicted),
          .loss = measured[chosen] / measured[best] - 1,
          .chosen_id = ids[chosen],
          .best_id = ids[best]};
}

RankingSummary summary_of(const std::string& group, const std::vector<const PlanSweep*>& sweeps) {
  RankingSummary sum;
  sum.group = group;
  sum.sweeps = static_cast<int>(sweeps.size());
  sum.least_spearman = 1;
  int correlated = 0;
  for (const PlanSweep* sweep : sweeps) {
    sum.plans += sweep->plans;
    sum.loss += sweep->loss;
    sum.most_loss = std::max(sum.most_loss, sweep->loss);
    if (sweep->loss <= kGoodChoice) ++sum.found;
    if (!sweep->spearman) continue;
    ++correlated;
    sum.spearman += *sweep->spearman;
    sum.least_spearman = std::min(sum.least_spearman, *sweep->spearman);
    if (*sweep->spearman >= kGoodRanking) ++sum.ranked;
  }
  sum.loss /= sum.sweeps;
  if (correlated > 0) sum.spearman /= correlated;
  return sum;
}

}  // namespace

std::optional<double> spearman(std::span<const double> a, std::span<const double> b) {
  ORRERY_CHECK(a.size() == b.size(), "ranks are compared in pairs");
  const std::vector<double> x = ranks_of(a);
  const std::vector<double> y = ranks_of(b);
  const double mean = (static_cast<double>(a.size()) - 1) / 2;
  double xx = 0;
  double yy = 0;
  double xy = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
    xy += (x[i] - mean) * (y[i] - mean);
  }
  if (xx == 0 || yy == 0) return std::nullopt;
  return xy / std::sqrt(xx * yy);
}

std::vector<PlanSweep> plan_sweeps(const Validation& validation, int least_plans) {
  struct Rows {
    const ValidatedRun* first = nullptr;
    std::map<std::string, PlanTimes> plans;
  };
  std::vector<std::string> order;
  std::map<std::string, Rows> settings;
  for (const ValidatedRun& run : validation.runs) {
    if (!run.step_time_s || !run.measured.suspect.empty()) continue;
    const std::string key = run.measured.group + "|" + run.measured.setting;
    Rows& rows = settings[key];
    if (rows.first == nullptr) {
      rows.first = &run;
      order.push_back(key);
    }
    PlanTimes& times = rows.plans[run.measured.plan];
    if (times.rows++ == 0) times.id = run.measured.id;
    times.measured_s += run.measured.step_time_s;
    times.predicted_s += *run.step_time_s;
  }
  std::vector<PlanSweep> sweeps;
  for (const std::string& key : order) {
    const Rows& rows = settings.at(key);
    if (static_cast<int>(rows.plans.size()) >= least_plans) sweeps.push_back(sweep_of(*rows.first, rows.plans));
  }
  std::stable_sort(sweeps.begin(), sweeps.end(),
                   [](const PlanSweep& a, const PlanSweep& b) { return a.group < b.group; });
  return sweeps;
}

std::vector<RankingSummary> ranking_by_group(std::span<const PlanSweep> sweeps) {
  std::map<std::string, std::vector<const PlanSweep*>> groups;
  std::vector<const PlanSweep*> all;
  for (const PlanSweep& sweep : sweeps) {
    groups[sweep.group].push_back(&sweep);
    all.push_back(&sweep);
  }
  std::vector<RankingSummary> sums;
  for (const auto& [group, of_group] : groups) sums.push_back(summary_of(group, of_group));
  if (groups.size() > 1) sums.push_back(summary_of("all sweeps", all));
  return sums;
}

}  // namespace orrery
