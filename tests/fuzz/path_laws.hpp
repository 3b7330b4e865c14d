// What must hold of the critical path of every run, whatever the numbers. Written from the rules at the head of
// sim/results/critical_path.hpp, not from the walk: each segment lies where its task's record says, segments follow one
// another from the step's start to its end, and where one begins, what ends just then is something that it had to wait
// for.
#pragma once

#include <string>
#include <vector>

#include "sim/graph/workload.hpp"
#include "sim/results/run_result.hpp"

namespace orrery::fuzz {

// The laws that the path breaks, with values; empty when all is well. All rank classes are recorded. Also those of the
// profile that is made from it: its shares of the path add up to the step.
[[nodiscard]] std::vector<std::string> broken_path_laws(const RunResult& run, const Workload& workload);

}  // namespace orrery::fuzz
