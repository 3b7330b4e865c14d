// summary.json: the machine's form of a Summary. Units are in the names; what is unknown is absent. Keys are documented
// in sim/results/README.md; adding one is one line in each direction.
#pragma once

#include <string>
#include <string_view>

#include "sim/base/problem.hpp"
#include "sim/results/summary.hpp"

namespace orrery {

// Indented, with a newline at the end. Doubles are written so that they read back to the same bits.
[[nodiscard]] std::string summary_json(const Summary& summary);

// What summary_json wrote. A Problem where the text is not such a summary.
[[nodiscard]] Result<Summary> parse_summary_json(std::string_view text);

}  // namespace orrery
