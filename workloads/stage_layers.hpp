// How the model's layers are dealt out to the virtual stages of a pipeline.
//
// Evenly, by a list (`stage_layers`), or as Megatron-LM's options have it (megatron/core/transformer/
// transformer_block.py, get_num_layers_to_build): embedding and head count as layers when the rest is divided
// (account_for_embedding_in_pipeline_split, account_for_loss_in_pipeline_split), or the first and the last pipeline
// stage have numbers of their own and the others share the rest (decoder_first_pipeline_num_layers,
// decoder_last_pipeline_num_layers). Chunks of a stage have as many layers each.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/problem.hpp"
#include "workloads/plan.hpp"

namespace orrery {

// What deals them out: `chunks` per stage; `looped`: chunk c of stage s is virtual stage c x stages + s.
struct StageGrid {
  std::int64_t stages = 1;
  std::int64_t chunks = 1;          // of one copy of the model
  std::int64_t virtual_stages = 1;  // of one copy
  bool looped = true;
};

// Layers of each virtual stage; or what is wrong, with the key and without notes. No stage but the ends is without
// layers.
[[nodiscard]] Result<std::vector<std::int64_t>> stage_layers(std::int64_t layers, const ParallelismSpec& parallelism,
                                                             const StageGrid& grid);

}  // namespace orrery
