// The largest micro-batch that fits.
//
// `training.micro_batch: auto` asks for the largest divisor of a replica's batch with which the step's memory stays
// within that of every GPU. What a step takes is what its ledger says, so that each candidate is built and simulated.
// The search goes down from the largest: nothing says that memory grows with the micro-batch (a schedule with fewer
// micro-batches may keep fewer of them at once), so that no bisection is sound, and the largest candidates are the
// cheapest to simulate, having the fewest micro-batches. The first that fits is the answer, and the one before it says
// by how much the next larger one does not.
//
// The largest is seldom far from the fastest, but in a pipeline it may be: larger micro-batches are fewer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "scenarios/scenario.hpp"
#include "sim/base/problem.hpp"
#include "sim/results/summary.hpp"

namespace orrery {

struct MicroBatchChoice {
  std::int64_t micro_batch = 0;
  std::string why;  // a line for the user
};

// What the step with so many sequences a micro-batch takes.
using MemoryOfMicroBatch = std::function<Result<Summary::Memory>(std::int64_t micro_batch)>;

// Problems: those of the plan, of a candidate that cannot be simulated, or that not even the smallest fits. A GPU whose
// memory is unknown takes everything.
[[nodiscard]] Result<MicroBatchChoice> choose_micro_batch(const Scenario& scenario, const MemoryOfMicroBatch& memory);

}  // namespace orrery
