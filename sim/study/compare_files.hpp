// A comparison's files: comparison.json, comparison.csv, comparison.txt, and runs/NAME.json, each run's summary.
#pragma once

#include <string>

#include "sim/base/problem.hpp"
#include "sim/study/compare.hpp"

namespace orrery {

// {scenario, runs: [{name, set{}, summary{}, work[] | error}], explanation{text, base, pairs[]}}. `work` is the
// critical path and what GPUs are busy with, by kinds of work; a pair has the differences that add up to the gap.
[[nodiscard]] std::string comparison_json(const Comparison& comparison);

// One row per run: name, one column per setting, the summary's figures ("step.time_s", ...), error.
[[nodiscard]] std::string comparison_csv(const Comparison& comparison);

// The file of a run's summary in runs/: its name, without what file names cannot have.
[[nodiscard]] std::string file_name_of(const std::string& run_name);

[[nodiscard]] Problems write_files(const std::string& folder, const Comparison& comparison);

}  // namespace orrery
