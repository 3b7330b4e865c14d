// Published training steps as rows of a table, and each as a scenario.
//
// A row has a model's shape, a cluster and a plan in the columns of tests/validation/README.md, and the step time that
// was measured. What a table says in its own words (a network and what a node's NICs carry together, a framework and
// its release, a strategy) becomes a catalogue name here; what it does not say (recomputation, dropout, position
// encoding) is what the framework does by default, and is told as an assumption of the row. A row that asks for what is
// not simulated has a reason in place of a scenario.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "scenarios/csv_table.hpp"
#include "scenarios/scenario.hpp"
#include "sim/base/problem.hpp"

namespace orrery {

// Something else that a row may mean where its source does not say, as settings of its scenario.
struct OtherReading {
  std::string what;  // "recompute: full"
  std::vector<Override> set;
};

struct MeasuredRun {
  std::string id;
  std::string group;  // of runs that are reported together: "VT one node"
  std::string source;
  std::string model;
  std::string scenario;                  // YAML; empty where it cannot be simulated
  std::string cannot;                    // why not
  std::vector<std::string> assumptions;  // "recompute: none"
  std::vector<OtherReading> others;      // what is as plausible as what was assumed
  double step_time_s = 0;
  std::optional<double> peak_memory_gib;
  std::string suspect;  // why the row itself looks wrong; empty: it does not
  std::string plan;     // what two rows of one plan have in common
  std::string cluster;  // and batch, in words
  std::string setting;  // what rows have in common that differ in their plan alone
  int line = 0;
};

// Problems: columns that are missing, and values that are no numbers or no words of their column, each with its place.
[[nodiscard]] Result<std::vector<MeasuredRun>> measured_runs(const CsvTable& table);

}  // namespace orrery
