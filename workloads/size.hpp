// How much a step is to simulate, known before any of it is built.
#pragma once

#include <cstdint>

#include "workloads/model.hpp"
#include "workloads/plan.hpp"

namespace orrery {

struct StepSize {
  double micro_batches = 0;  // per replica
  double tasks = 0;          // of all programs: what memory is needed for
  double played = 0;         // of all ranks: what time is needed for
  double pieces = 0;         // that a rank's state is gathered or updated in, once a step
};

// Bounds beyond which a step is refused rather than begun. A task of a program takes up to 100 bytes, so the first is
// some 2 GB; a rank takes about 10 KB beside them (an 8,192-GPU run of a small model: 80 MB), so the second is some
// 3 GB; and a core plays out about two million tasks a second (GPT-3 175B on 1,024 GPUs: 31 million in 12 s), so the
// third is about three hours.
inline constexpr double kProgramTasksMost = 2e7;
inline constexpr std::int64_t kRanksMost = 262'144;
inline constexpr double kPlayedTasksMost = 2e10;
// A gather over 8 ranks takes 0.3 ms: some five minutes.
inline constexpr double kPiecesMost = 1e6;

// About, within a factor of three: programs grow with micro-batches and layers, and what else comes once a step is
// left out of account. `variants`: programs for each pipeline stage. The plan's degrees are at least one and divide
// what they must (check_plan).
[[nodiscard]] StepSize estimate_size(const ModelSpec& model, const TrainingSpec& training,
                                     const ParallelismSpec& parallelism, std::int64_t chunks, std::int64_t ranks,
                                     std::int64_t variants = 1);

}  // namespace orrery
