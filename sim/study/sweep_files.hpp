// A sweep's files: results.json {runs: [{name, key, set{}, summary{} | error}], growth, explanation} and results.csv.
#pragma once

#include <map>
#include <span>
#include <string>

#include "sim/study/sweep.hpp"

namespace orrery {

// Runs that have neither summary nor error (not run yet) are left out.
[[nodiscard]] std::string results_json(std::span<const SweepRun> runs, std::span<const Growth> growth);

// One row per run: name, one column per setting, the summary's figures ("step.time_s", ...), error.
[[nodiscard]] std::string results_csv(std::span<const SweepRun> runs);

// The finished points of an earlier results.json, by key. Text that is none is a Problem.
[[nodiscard]] Result<std::map<std::string, Summary>> parse_results_json(std::string_view text);

}  // namespace orrery
