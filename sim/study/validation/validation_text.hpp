// A validation as a table on a terminal, and as CSV.
#pragma once

#include <string>

#include "sim/study/validation/validation.hpp"

namespace orrery {

// Errors by source, with and without suspect rows; memory where it was measured; how well plans are ranked; where other
// readings of rows were simulated, how many times they explain; why rows could not be simulated. `rows`: a line for
// each row and each sweep of plans too. Ends with a newline.
[[nodiscard]] std::string validation_text(const Validation& validation, bool rows);

// A line per row: id, source, measured and predicted times and memory, errors, what was assumed, why not.
[[nodiscard]] std::string validation_csv(const Validation& validation);

// A line per sweep of plans.
[[nodiscard]] std::string ranking_csv(const Validation& validation);

// The errors by source, doubtful rows left out, as the table of README.md in Markdown, best source first. Ends
// with a newline.
[[nodiscard]] std::string validation_markdown(const Validation& validation);

}  // namespace orrery
