#include "sim/study/micro_batch.hpp"

#include <fmt/format.h>

#include <optional>
#include <vector>

#include "sim/results/quantities.hpp"
#include "workloads/micro_batches.hpp"

namespace orrery {

namespace {

struct Tried {
  std::int64_t micro_batch = 0;
  Summary::Memory memory;
};

std::string needs(const Tried& tried) {
  const std::int64_t limit = tried.memory.limit_bytes.value_or(0);
  return fmt::format("{} needs {} of {} ({} too much) on rank {}", tried.micro_batch,
                     human_memory(tried.memory.peak_bytes), human_memory(limit),
                     human_memory(tried.memory.peak_bytes - limit), tried.memory.rank);
}

std::string why(std::int64_t chosen, const std::optional<Tried>& larger) {
  if (!larger) return fmt::format("micro_batch auto: {}, the whole batch of a replica", chosen);
  return fmt::format("micro_batch auto: {}, the largest that fits; {}", chosen, needs(*larger));
}

}  // namespace

Result<MicroBatchChoice> choose_micro_batch(const Scenario& scenario, const MemoryOfMicroBatch& memory) {
  const Result<std::vector<std::int64_t>> possible =
      possible_micro_batches(scenario.model, scenario.training, scenario.parallelism, scenario.gpus);
  if (!possible) return possible.problems();
  std::optional<Tried> larger;
  for (auto candidate = possible->rbegin(); candidate != possible->rend(); ++candidate) {
    const Result<Summary::Memory> of_step = memory(*candidate);
    if (!of_step) return of_step.problems();
    if (of_step->fits.value_or(true)) return MicroBatchChoice{*candidate, why(*candidate, larger)};
    larger = Tried{*candidate, *of_step};
  }
  return Problem{"training.micro_batch", fmt::format("no micro-batch fits: {}", needs(*larger)),
                 "recompute activations, split the model over more GPUs, or shard its state"};
}

}  // namespace orrery
