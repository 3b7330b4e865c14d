// A validation as a table on a terminal, and as CSV.
#pragma once

#include <string>

#include "sim/study/validation/validation.hpp"

namespace orrery {

// Errors by source, with and without suspect rows; memory where it was measured; why rows could not be simulated.
// `rows`: a line for each row too. Ends with a newline.
[[nodiscard]] std::string validation_text(const Validation& validation, bool rows);

// A line per row: id, source, measured and predicted times and memory, errors, what was assumed, why not.
[[nodiscard]] std::string validation_csv(const Validation& validation);

}  // namespace orrery
