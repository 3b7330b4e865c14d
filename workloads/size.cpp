#include "workloads/size.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "workloads/options.hpp"
#include "workloads/sharding/strategy.hpp"

namespace orrery {

namespace {

// Tasks of one pass of one micro-batch through one layer: between two collectives, kernels are one task. Counted in
// programs of GPT-3 175B (tensor 8: 13.4, with sequence parallelism) and of small models without tensor parallelism.
constexpr double kPerLayer = 2;
constexpr double kPerLayerTensor = 13;
constexpr double kPerContextRank = 3;  // ring attention: a send, a receive and the kernels between two of them
constexpr double kPerExpertLayer = 9;  // journeys and what stands between them
constexpr double kPerSlot = 6;         // of one pass through a stage's chunk: its copies, receives and sends

// Options that are sizes of pieces, in elements: of the whole that replicas share, or of a rank's part.
constexpr std::string_view kOfWhole = "allgather_bucket_size";
constexpr std::string_view kOfPart = "sub_group_size";

double pieces_of(const ModelSpec& model, const ParallelismSpec& parallelism, const ShardingRow& sharding,
                 double replicas) {
  const double whole =
      static_cast<double>(parameters(model)) / static_cast<double>(parallelism.tensor * parallelism.pipeline);
  double pieces = 0;
  for (const OptionDoc& option : sharding.row.options) {
    if (option.name != kOfWhole && option.name != kOfPart) continue;
    const double elements = option.name == kOfPart ? whole / replicas : whole;
    pieces += elements / static_cast<double>(integer_option(parallelism.sharding, sharding.row, option.name));
  }
  return pieces;
}

}  // namespace

StepSize estimate_size(const ModelSpec& model, const TrainingSpec& training, const ParallelismSpec& parallelism,
                       std::int64_t chunks, std::int64_t ranks, std::int64_t variants) {
  const auto stages = static_cast<double>(parallelism.pipeline);
  const auto shard = static_cast<double>(parallelism.tensor * parallelism.pipeline * parallelism.context);
  const double replicas = static_cast<double>(ranks) / shard;
  double per_layer = parallelism.tensor > 1 ? kPerLayerTensor : kPerLayer;
  const ShardingRow* sharding = find_sharding(parallelism.sharding.kind);
  if (sharding != nullptr) per_layer += sharding->tasks_per_layer;
  if (parallelism.context > 1) per_layer += kPerContextRank * static_cast<double>(parallelism.context);
  if (model.experts > 0) per_layer += kPerExpertLayer;
  const auto layers = static_cast<double>(model.layers);
  StepSize size;
  if (sharding != nullptr) size.pieces = pieces_of(model, parallelism, *sharding, replicas);
  size.micro_batches =
      static_cast<double>(training.global_batch) / (replicas * static_cast<double>(training.micro_batch));
  // Forward and backward.
  const double of_stages =
      2 * size.micro_batches * (layers * per_layer + stages * static_cast<double>(chunks) * kPerSlot);
  size.tasks = of_stages * static_cast<double>(variants);
  size.played = of_stages / stages * static_cast<double>(ranks);
  return size;
}

}  // namespace orrery
