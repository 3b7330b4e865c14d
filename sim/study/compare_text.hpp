// A comparison for people: a table with a column a run, and a paragraph for each variant.
#pragma once

#include <string>

#include "sim/study/compare.hpp"

namespace orrery {

// What is said of the base, and why each variant takes longer or less; runs that cannot be run, with their problems.
// Lines of at most 100 columns.
[[nodiscard]] std::string explanation_text(const Comparison& comparison);

// The table: rows that no run has anything in are left out, and where runs are too many for 100 columns they stand
// below one another, the base first in each part. Then the explanation.
[[nodiscard]] std::string comparison_text(const Comparison& comparison);

}  // namespace orrery
