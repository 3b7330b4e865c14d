// What the links of a machine did in a run, for the report.
#pragma once

#include "sim/exec/machine.hpp"
#include "sim/results/run_result.hpp"

namespace orrery {

// Fills in bytes and utilization by kind of link, and the busiest links. `duration`: over which utilization is meant.
// O(links + classes log classes).
void report_link_use(const Machine& machine, Duration duration, RunResult& result);

}  // namespace orrery
