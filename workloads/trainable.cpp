#include "workloads/trainable.hpp"

#include <algorithm>

#include "workloads/model.hpp"

namespace orrery {

namespace {

bool trains_any(const BlockTraining& block, std::initializer_list<Part> parts) {
  return block.adapters || std::any_of(parts.begin(), parts.end(), [&](Part part) { return block.parts.has(part); });
}

constexpr std::initializer_list<Part> kOfLayer{Part::attention, Part::mlp, Part::norms};

}  // namespace

bool TrainingOfBlocks::any() const { return head.live || trains_any(head, {Part::head, Part::norms}); }

TrainingOfBlocks training_of_blocks(const ModelSpec& model, const TrainableSpec& trainable) {
  TrainingOfBlocks blocks;
  TrainedParts parts = trainable.parts;
  if (model.tied_embeddings) parts.set(Part::head, parts.has(Part::embedding));
  blocks.embedding = {.parts = parts, .live = false, .adapters = false};
  bool live = parts.has(Part::embedding) || (model.embedding_norm && parts.has(Part::norms));
  for (std::int64_t l = 0; l < model.layers; ++l) {
    const bool frozen = std::any_of(trainable.frozen_layers.begin(), trainable.frozen_layers.end(),
                                    [l](const LayerRange& range) { return range.first <= l && l <= range.last; });
    BlockTraining layer{.parts = frozen ? TrainedParts::none() : parts,
                        .live = live,
                        .adapters = !frozen && trainable.lora.rank > 0 && trainable.lora.targets.any()};
    live = live || trains_any(layer, kOfLayer);
    blocks.layers.push_back(layer);
  }
  blocks.head = {.parts = parts, .live = live, .adapters = false};
  return blocks;
}

namespace {

// Over the layers with weights of their own.
template <class Count>
std::int64_t over_layers(const ModelSpec& model, const TrainingOfBlocks& blocks, Count&& count) {
  std::int64_t sum = 0;
  for (std::int64_t l = 0; l < model.layers; ++l) {
    if (model.first_of_group(l) == l) sum += count(l, blocks.layers[static_cast<std::size_t>(l)]);
  }
  return sum;
}

}  // namespace

std::int64_t adapter_parameters(const ModelSpec& model, const TrainableSpec& trainable) {
  if (trainable.lora.rank == 0) return 0;
  const std::int64_t each = adapter_elements(model, trainable.lora);
  return over_layers(model, training_of_blocks(model, trainable),
                     [&](std::int64_t, const BlockTraining& layer) { return layer.adapters ? each : 0; });
}

std::int64_t trained_parameters(const ModelSpec& model, const TrainableSpec& trainable) {
  const TrainingOfBlocks blocks = training_of_blocks(model, trainable);
  std::int64_t sum = adapter_parameters(model, trainable);
  for (const Part part : {Part::embedding, Part::norms}) {
    if (blocks.embedding.parts.has(part)) sum += embedding_parameters(model, part);
  }
  for (const Part part : {Part::head, Part::norms}) {
    if (blocks.head.parts.has(part)) sum += head_parameters(model, part);
  }
  return sum + over_layers(model, blocks, [&](std::int64_t l, const BlockTraining& layer) {
           std::int64_t of_layer = 0;
           for (const Part part : kOfLayer) {
             if (layer.parts.has(part)) of_layer += layer_parameters(model, part, model.has_experts(l));
           }
           return of_layer;
         });
}

}  // namespace orrery
