// What a model is: the shape of a decoder transformer. Values come from workloads/models/*.yaml, a Hugging Face
// config.json, or inline from a scenario.
#pragma once

#include <cstdint>
#include <string>

#include "sim/base/problem.hpp"

namespace orrery {

enum class NormKind : std::uint8_t { layer_norm, rms_norm };
enum class PositionKind : std::uint8_t { learned, rotary, alibi, none };

struct ModelSpec {
  std::string name;
  std::string source;

  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;    // grouped-query attention; equal to heads without it
  std::int64_t head_dim = 0;    // hidden / heads where the model does not say otherwise
  std::int64_t ffn_hidden = 0;  // inner width of the MLP
  bool gated_mlp = false;       // three matrices (SwiGLU, GeGLU) in place of two
  std::int64_t vocabulary = 0;
  std::int64_t positions = 0;  // rows of a learned position table; the longest sequence otherwise
  PositionKind position = PositionKind::rotary;
  NormKind norm = NormKind::rms_norm;
  bool norm_bias = true;         // layer_norm only: MPT has none
  bool tied_embeddings = false;  // the head shares the embedding's weights
  bool attention_bias = false;
  bool mlp_bias = false;
  bool embedding_norm = false;  // BLOOM

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

// Weights of the whole model, exactly: embeddings, positions, every matrix, bias and norm, and the head once.
[[nodiscard]] std::int64_t parameters(const ModelSpec& model);

// What contradicts itself in the shape; keys are relative to "model" ("model.kv_heads"). Empty when sound.
[[nodiscard]] Problems check(const ModelSpec& model);

}  // namespace orrery
