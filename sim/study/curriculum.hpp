// Training with sequences that grow (sequence-length curriculum).
//
// As DeepSpeed has it (runtime/data_pipeline/curriculum_scheduler.py; Li, Zhang and He 2022, "The Stability-Efficiency
// Dilemma"): sequences are cut to a length that changes with the step, and the batch stays at as many sequences, so
// that early steps are shorter and see fewer tokens. A simulated step is one of the last part, at the full length; the
// others are simulated with theirs and the same micro-batch, and the whole training is as many steps of each as its
// share says.
#pragma once

#include <vector>

#include "sim/results/summary.hpp"
#include "workloads/plan.hpp"

namespace orrery {

// Adds to `summary` (of the last part) what the whole schedule comes to: remarks with the step of each part, and the
// training's steps and time. `steps`: summaries of all parts but the last, in order.
void add_curriculum(Summary& summary, const std::vector<CurriculumStage>& stages, const std::vector<Summary>& steps);

}  // namespace orrery
