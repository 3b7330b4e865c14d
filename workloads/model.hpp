// What a model is: the shape of a decoder transformer, dense or with layers of experts, or of an image model
// (workloads/image_model.hpp). Values come from workloads/models/*.yaml, a Hugging Face config.json, or inline from a
// scenario.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/problem.hpp"
#include "workloads/trainable.hpp"

namespace orrery {

enum class ModelKind : std::uint8_t {
  decoder,  // a transformer over text
  vit,      // a transformer over the patches of an image
  resnet,   // convolutions in bottleneck blocks
};
enum class NormKind : std::uint8_t { layer_norm, rms_norm };
enum class PositionKind : std::uint8_t { learned, rotary, alibi, none };

struct ModelSpec {
  std::string name;
  std::string source;
  ModelKind kind = ModelKind::decoder;

  std::int64_t layers = 0;  // transformer blocks; of a ResNet: bottleneck blocks
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

  bool qk_norm = false;  // an RMSNorm over each head's queries and keys (Qwen 3)

  // Mixture of experts. No experts: all layers are dense.
  std::int64_t experts = 0;            // routed ones, in each layer that has any
  std::int64_t top_k = 0;              // of these, that each token goes to
  std::int64_t expert_ffn_hidden = 0;  // inner width of one expert
  std::int64_t shared_experts = 0;     // that every token goes to; together one MLP, so many times as wide as an expert
  std::int64_t dense_layers = 0;       // the first so many have no experts
  std::int64_t moe_every = 1;          // behind them, layers whose number is a multiple of this have
  std::int64_t expert_groups = 1;      // experts lie in so many groups (DeepSeek: one to a node) ...
  std::int64_t groups_per_token = 1;   // ... of which each token goes to so many at most
  bool router_fp32 = false;            // scores are computed in fp32

  // Multi-head latent attention (DeepSeek-V2): queries, and keys with values, are projected down to a rank and up
  // again.
  std::int64_t kv_lora_rank = 0;      // 0: plain projections
  std::int64_t q_lora_rank = 0;       // 0: queries are projected directly
  std::int64_t qk_nope_head_dim = 0;  // of a head's query and key: the part without positions,
  std::int64_t qk_rope_head_dim = 0;  // and the rotated one, which all heads' keys share
  std::int64_t v_head_dim = 0;

  // Matrices of layers that are products of two thin ones, both trained.
  std::int64_t low_rank = 0;  // their inner width; 0: none are
  Targets low_rank_targets;

  // Layers of a group are one block, used again and again; consecutive ones (ALBERT's num_hidden_groups). 0: every
  // layer has weights of its own.
  std::int64_t layer_groups = 0;

  // Image models.
  std::int64_t image_size = 224;  // pixels a side
  std::int64_t channels = 3;
  std::int64_t classes = 1000;
  std::int64_t patch = 16;           // vit: pixels a side of what becomes one token
  bool class_token = true;           // vit: one more token, which the head reads; false: the head reads the mean
  std::vector<std::int64_t> blocks;  // resnet: bottleneck blocks of each stage
  std::int64_t width = 64;           // resnet: channels of the stem, and of the first stage's 3 x 3 convolutions

  [[nodiscard]] bool images() const { return kind != ModelKind::decoder; }
  // Whether a token attends to those before it only.
  [[nodiscard]] bool causal() const { return kind == ModelKind::decoder; }
  [[nodiscard]] bool latent() const { return kv_lora_rank > 0; }
  // Width of a head's queries and keys, and of its values.
  [[nodiscard]] std::int64_t key_dim() const { return latent() ? qk_nope_head_dim + qk_rope_head_dim : head_dim; }
  [[nodiscard]] std::int64_t value_dim() const { return latent() ? v_head_dim : head_dim; }
  [[nodiscard]] bool has_experts(std::int64_t layer) const {
    return experts > 0 && layer >= dense_layers && layer % moe_every == 0;
  }
  [[nodiscard]] std::int64_t expert_layers() const;
  // The inner width of a matrix that is a product of two, and 0 of one that is not.
  [[nodiscard]] std::int64_t rank_of(Target target) const { return low_rank_targets.has(target) ? low_rank : 0; }
  // The first layer with the same weights.
  [[nodiscard]] std::int64_t first_of_group(std::int64_t layer) const {
    if (layer_groups == 0) return layer;
    const std::int64_t each = layers / layer_groups;
    return layer / each * each;
  }
  [[nodiscard]] std::int64_t shared_ffn_hidden() const { return shared_experts * expert_ffn_hidden; }

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

// Weights of the whole model, exactly: embeddings, positions, every matrix, bias and norm, and the head once.
[[nodiscard]] std::int64_t parameters(const ModelSpec& model);

// The same without the routed experts that a token does not go to, and of layers that share weights each.
[[nodiscard]] std::int64_t active_parameters(const ModelSpec& model);

// Weights of one layer, of the embedding and of the head (a tied table is the embedding's), by part; what the part does
// not have is 0.
[[nodiscard]] std::int64_t layer_parameters(const ModelSpec& model, Part part, bool has_experts);
[[nodiscard]] std::int64_t embedding_parameters(const ModelSpec& model, Part part);
[[nodiscard]] std::int64_t head_parameters(const ModelSpec& model, Part part);

// Elements of a matrix, or of the two thin ones in its place.
[[nodiscard]] std::int64_t matrix_elements(const ModelSpec& model, Target target, std::int64_t in, std::int64_t out);

// Of the adapters beside one dense layer's matrices.
[[nodiscard]] std::int64_t adapter_elements(const ModelSpec& model, const LoraSpec& lora);

// Elements of the matrices of one layer's attention, and of an MLP of this inner width.
[[nodiscard]] std::int64_t attention_matrices(const ModelSpec& model);
[[nodiscard]] std::int64_t mlp_matrices(const ModelSpec& model, std::int64_t ffn_hidden);

// What contradicts itself in the shape; keys are relative to "model" ("model.kv_heads"). Empty when sound.
[[nodiscard]] Problems check(const ModelSpec& model);

}  // namespace orrery
