// A Summary as a person reads it: one screen, the answer first, then where the time, the bytes and the memory go.
#pragma once

#include <string>

#include "sim/results/summary.hpp"

namespace orrery {

// Ends with a newline. An out-of-memory report comes before everything else when the step does not fit. Depends on the
// summary alone, except that the wall time (which differs from run to run) is left out.
[[nodiscard]] std::string summary_text(const Summary& summary);

}  // namespace orrery
