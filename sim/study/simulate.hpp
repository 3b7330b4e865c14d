// One scenario, simulated: the passes from a validated Scenario to its figures, top to bottom.
#pragma once

#include <functional>
#include <string_view>

#include "scenarios/load.hpp"
#include "scenarios/scenario.hpp"
#include "sim/base/problem.hpp"
#include "sim/exec/execute.hpp"
#include "sim/exec/progress.hpp"
#include "sim/graph/workload.hpp"
#include "sim/results/run_result.hpp"
#include "sim/results/summary.hpp"

namespace orrery {

struct SimulationOptions {
  bool record = false;                                  // keep the timeline of the first rank of every role
  bool record_all = false;                              // keep the timeline of every rank (folded: of every class)
  bool fold = true;                                     // play one rank for all that behave alike
  std::function<void(std::string_view)> log = nullptr;  // told what each pass made; may be empty
  ProgressFunction progress = nullptr;                  // told how far the step has been played out; may be empty
};

struct Simulation {
  Workload workload;
  RunResult run;
  Summary summary;
};

// The options with what only the layers that run a scenario know: the names of the collective algorithms.
[[nodiscard]] LoadOptions for_running(LoadOptions options);

// Builds the cluster and the step, plays it out and sums it up. Problems come from what cannot be built (a scenario
// from load_scenario always can), from steps that cannot end (a deadlock in a user's own schedule) and, where the
// micro-batch is to be found (micro_batch.hpp), from memory that holds none. Everything but
// summary.simulation.wall_s depends on the scenario alone (and summary.expectation on what was measured of runs like
// it). Calls for different scenarios may run at the same time.
[[nodiscard]] Result<Simulation> simulate(const Scenario& scenario, const SimulationOptions& options = {});

}  // namespace orrery
