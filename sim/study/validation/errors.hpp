// Errors of predictions, summed up by group.
//
// An error is signed and relative: predicted / measured - 1. Groups (sources, logs, tables) are of very different
// sizes, so the overall figure is the mean over groups and not over rows. The geometric mean is of the ratio between
// the larger and the smaller of predicted and measured: a time that is twice or half of what was measured counts alike
// in it, where the mean of absolute errors says 100 % and 50 %.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace orrery {

struct NamedError {
  std::string group;
  std::string id;
  std::optional<double> error;  // absent: nothing to compare
  bool failed = false;          // nothing was predicted
};

struct ErrorSummary {
  std::string group;
  int rows = 0;          // that have an error
  int failed = 0;        // of which nothing was predicted
  double mean = 0;       // of absolute errors
  double median = 0;     // of absolute errors
  double geometric = 0;  // exp(mean |ln(1 + error)|) - 1
  double worst = 0;      // signed, the largest in size
  std::string worst_id;
  double bias = 0;  // mean of signed errors
};

// By group in the order of first appearance. Errors are above -1. O(rows log rows).
[[nodiscard]] std::vector<ErrorSummary> summed_up(std::span<const NamedError> errors);

// The mean over groups of what `of` says of each that has rows.
[[nodiscard]] double mean_over(std::span<const ErrorSummary> groups, double ErrorSummary::*of);

// The value below which the fraction `share` (0 to 1) of the values lies, between neighbours in proportion. `sorted` is
// in ascending order and not empty.
[[nodiscard]] double quantile(std::span<const double> sorted, double share);

}  // namespace orrery
