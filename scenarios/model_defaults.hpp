// What a model's sizes are where nothing says otherwise, for all ways to describe one: inline, by size, and in a
// Hugging Face file that leaves them to its library's defaults.
#pragma once

#include <cstdint>

#include "workloads/model.hpp"

namespace orrery {

inline constexpr std::int64_t kDefaultVocabulary = 50257;  // GPT-2's byte pairs (openai/gpt-2)
inline constexpr std::int64_t kDefaultPositions = 2048;    // GPT-3's context (Brown et al. 2020, section 2.1)

// Sizes that are zero follow from the others: as many key and value heads as heads, heads that share the hidden size,
// an MLP four times as wide, experts as wide as an MLP; then the defaults above.
inline void fill_in_sizes(ModelSpec& model) {
  if (model.kv_heads == 0) model.kv_heads = model.heads;
  if (model.head_dim == 0 && model.heads > 0) model.head_dim = model.hidden / model.heads;
  if (model.ffn_hidden == 0) model.ffn_hidden = 4 * model.hidden;
  if (model.experts > 0 && model.expert_ffn_hidden == 0) model.expert_ffn_hidden = model.ffn_hidden;
  if (model.images()) return;  // they have no vocabulary
  if (model.vocabulary == 0) model.vocabulary = kDefaultVocabulary;
  if (model.positions == 0) model.positions = kDefaultPositions;
}

}  // namespace orrery
