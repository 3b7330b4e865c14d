// Whether two results tell the same of every rank, folded or not.
#pragma once

#include <string>
#include <vector>

#include "sim/results/run_result.hpp"

namespace orrery::test {

// What differs, rank by rank: times, tasks, memory; and totals, links included. At most a dozen lines.
[[nodiscard]] std::vector<std::string> differences(const RunResult& a, const RunResult& b);

}  // namespace orrery::test
