#include "sim/study/validation/errors.hpp"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/base/check.hpp"

namespace orrery {

namespace {

ErrorSummary summary_of(const std::string& group, const std::vector<const NamedError*>& errors) {
  ErrorSummary sum;
  sum.group = group;
  std::vector<double> sizes;
  double logs = 0;
  for (const NamedError* row : errors) {
    if (row->failed) ++sum.failed;
    if (!row->error) continue;
    const double error = *row->error;
    sizes.push_back(std::abs(error));
    sum.bias += error;
    logs += std::abs(std::log1p(error));
    if (std::abs(error) > std::abs(sum.worst)) {
      sum.worst = error;
      sum.worst_id = row->id;
    }
  }
  sum.rows = static_cast<int>(sizes.size());
  if (sizes.empty()) return sum;
  sum.bias /= sum.rows;
  sum.geometric = std::expm1(logs / sum.rows);
  std::sort(sizes.begin(), sizes.end());
  for (const double size : sizes) sum.mean += size;
  sum.mean /= sum.rows;
  sum.median = quantile(sizes, 0.5);
  return sum;
}

}  // namespace

std::vector<ErrorSummary> summed_up(std::span<const NamedError> errors) {
  std::vector<std::string> order;
  std::map<std::string, std::vector<const NamedError*>> groups;
  for (const NamedError& error : errors) {
    auto& rows = groups[error.group];
    if (rows.empty()) order.push_back(error.group);
    rows.push_back(&error);
  }
  std::vector<ErrorSummary> sums;
  for (const std::string& group : order) sums.push_back(summary_of(group, groups.at(group)));
  return sums;
}

double mean_over(std::span<const ErrorSummary> groups, double ErrorSummary::*of) {
  double sum = 0;
  int count = 0;
  for (const ErrorSummary& group : groups) {
    if (group.rows == 0) continue;
    sum += group.*of;
    ++count;
  }
  return count > 0 ? sum / count : 0;
}

double quantile(std::span<const double> sorted, double share) {
  ORRERY_CHECK(!sorted.empty(), "a quantile of nothing was asked for");
  const double at = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  return sorted[below] + (at - static_cast<double>(below)) * (sorted[above] - sorted[below]);
}

}  // namespace orrery
