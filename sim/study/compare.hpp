// A scenario and named variants of it, simulated side by side, and why their times differ.
//
// Runs are independent and simulated on all cores; everything that is told stands in the order of the file. Each run is
// recorded as a whole (of a folded run: one rank of each class), its critical path is walked and summed up by kinds of
// work, and the recording is dropped: what is kept of a run is its summary and its profile.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "scenarios/load.hpp"
#include "scenarios/scenario.hpp"
#include "sim/base/problem.hpp"
#include "sim/results/difference.hpp"
#include "sim/results/step_profile.hpp"
#include "sim/results/summary.hpp"

namespace orrery {

struct CompareRun {
  std::string name;
  std::vector<Override> set;
  std::optional<Summary> summary;  // absent when it cannot be run
  StepProfile profile;
  std::string error;  // why it cannot
};

struct Comparison {
  std::string scenario;
  std::vector<CompareRun> runs;           // the base, then its variants
  std::vector<Explanation> explanations;  // of each variant that ran, where the base did
  Problems file_problems;                 // result files that could not be written

  [[nodiscard]] std::size_t failures() const;
};

struct CompareOptions {
  int threads = 0;                                          // 0: as many as the machine has cores
  bool fold = true;                                         // see SimulationOptions
  std::string out = {};                                     // folder for files; empty: none
  std::function<void(std::size_t finished)> progress = {};  // called from one thread at a time; may be empty
};

// The comparison that a scenario file asks for in its `compare:` block. Problems: those of the file, or that it names
// no variants.
[[nodiscard]] Result<Comparison> compare_file(const std::string& path, const LoadOptions& load,
                                              const CompareOptions& options);

// One scenario as a run of a comparison. `set` is told, not applied.
[[nodiscard]] CompareRun compared(const Result<Scenario>& scenario, const Variant& variant, bool fold);

}  // namespace orrery
