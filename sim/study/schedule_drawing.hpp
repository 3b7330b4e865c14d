// The pipeline schedule of a scenario as the data of a drawing: which pass of which micro-batch each stage runs when,
// on paper and in a run.
#pragma once

#include <string>
#include <vector>

#include "scenarios/scenario.hpp"
#include "sim/base/problem.hpp"
#include "sim/study/simulate.hpp"
#include "workloads/schedules/schedule.hpp"

namespace orrery {

// The schedule that the scenario's plan asks for. A scenario from load_scenario always has one;
// its micro-batch must be a number.
[[nodiscard]] Result<Schedule> schedule_of(const Scenario& scenario);

// When the kernels of a slot ran on one rank of its stage.
struct SlotSpan {
  Instant begin{};
  Instant end{};
};

// [stages][slots], of the recorded rank of each stage. Where a slot has no kernels, both are the end of the one before.
[[nodiscard]] std::vector<std::vector<SlotSpan>> slots_in(const Simulation& simulation);

// JSON: "name", "schedule", "stages", "micro_batches", "chunks", and two drawings, each with "unit", "step",
// "idle_share" (of the stages' time in the step, or from each stage's first pass to its last: "idle_share_within") and
// "slots"
// ([stages][slots] of {pass, micro_batch, chunk, paired, begin, end}): "ideal", where a forward pass of a chunk and
// each half of its backward pass take 1 and transfers nothing, and "run", in seconds of the simulated step.
[[nodiscard]] std::string schedule_json(const Scenario& scenario, const Schedule& schedule,
                                        const Simulation& simulation);

}  // namespace orrery
