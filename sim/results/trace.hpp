// The recorded ranks' timelines in Chrome's trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing
// open: a process per rank, a row per stream, a counter for memory. Communication shows in two parts: "wait" from the
// moment it is posted until the last partner is there, then the transfer itself.
#pragma once

#include <string>

#include "sim/graph/workload.hpp"
#include "sim/results/run_result.hpp"

namespace orrery {

// One event a line. Times are microseconds with six decimals, so that no picosecond is lost. O(recorded tasks).
[[nodiscard]] std::string trace_json(const RunResult& run, const Workload& workload);

}  // namespace orrery
