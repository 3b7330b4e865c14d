// How large errors may be: what was reached once is recorded, and what is worse afterwards is told.
//
// A line of the table is of one source, or of the mean over sources, and one quantity: the largest mean of absolute
// errors and the largest bias, doubtful rows left out, and the fewest rows, so that a row which can no longer be
// simulated is not taken for an improvement. Lines belong to a set: "all" rows, or a sample of so many rows a source,
// whose errors are others.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/problem.hpp"
#include "sim/study/validation/validation.hpp"

namespace orrery {

struct AccuracyBound {
  std::string set;  // "all", "sample of 8"
  std::string source;
  std::string quantity;  // "step time", "peak memory"
  int rows = 0;          // at least
  double mean = 0;       // of absolute errors, at most
  double bias = 0;       // in size, at most
};

// "all", or "sample of N".
[[nodiscard]] std::string set_of(int sample);

[[nodiscard]] Result<std::vector<AccuracyBound>> read_bounds(const std::string& path);

// A sentence for each bound of the set that the validation exceeds, and for each source that has none. The mean over
// sources is compared where every source of the set is there.
[[nodiscard]] std::vector<std::string> exceeded(const Validation& validation, std::span<const AccuracyBound> bounds,
                                                std::string_view set);

// The errors of the validation as bounds, with a margin: 0.3 points on the mean, 0.5 on the bias. A table as
// read_bounds() reads it; with the line of columns where `head`.
[[nodiscard]] std::string bounds_csv(const Validation& validation, std::string_view set, bool head);

}  // namespace orrery
