// Models and plans that the tests of this folder share.
#pragma once

#include <utility>
#include <vector>

#include "workloads/image_model.hpp"
#include "workloads/model.hpp"
#include "workloads/plan.hpp"

namespace orrery::testing {

// A GPT of any size: learned positions, biases, LayerNorm, tied table, four times wider MLP.
inline ModelSpec gpt(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t vocabulary = 51200,
                     std::int64_t positions = 2048) {
  ModelSpec m;
  m.name = "gpt";
  m.layers = layers;
  m.hidden = hidden;
  m.heads = heads;
  m.kv_heads = heads;
  m.head_dim = hidden / heads;
  m.ffn_hidden = 4 * hidden;
  m.vocabulary = vocabulary;
  m.positions = positions;
  m.position = PositionKind::learned;
  m.norm = NormKind::layer_norm;
  m.tied_embeddings = true;
  m.attention_bias = true;
  m.mlp_bias = true;
  return m;
}

// A Llama of any size: rotary positions, RMSNorm, SwiGLU, grouped-query attention, no biases, two tables.
inline ModelSpec llama(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t kv_heads,
                       std::int64_t ffn_hidden, std::int64_t vocabulary = 32000) {
  ModelSpec m;
  m.name = "llama";
  m.layers = layers;
  m.hidden = hidden;
  m.heads = heads;
  m.kv_heads = kv_heads;
  m.head_dim = hidden / heads;
  m.ffn_hidden = ffn_hidden;
  m.gated_mlp = true;
  m.vocabulary = vocabulary;
  m.positions = 4096;
  return m;
}

// A vision transformer of any size: a class token, biases, LayerNorm, four times wider MLP.
inline ModelSpec vit(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t image_size = 32,
                     std::int64_t patch = 8) {
  ModelSpec m;
  m.name = "vit";
  m.kind = ModelKind::vit;
  m.layers = layers;
  m.hidden = hidden;
  m.heads = heads;
  m.kv_heads = heads;
  m.head_dim = hidden / heads;
  m.ffn_hidden = 4 * hidden;
  m.position = PositionKind::none;
  m.norm = NormKind::layer_norm;
  m.attention_bias = true;
  m.mlp_bias = true;
  m.image_size = image_size;
  m.patch = patch;
  m.classes = 40;
  return m;
}

inline ModelSpec resnet(std::vector<std::int64_t> blocks, std::int64_t width, std::int64_t image_size = 32) {
  ModelSpec m;
  m.name = "resnet";
  m.kind = ModelKind::resnet;
  for (const std::int64_t n : blocks) m.layers += n;
  m.blocks = std::move(blocks);
  m.width = width;
  m.image_size = image_size;
  m.classes = 40;
  return m;
}

inline TrainingSpec training(std::int64_t sequence_length, std::int64_t global_batch, std::int64_t micro_batch = 1) {
  TrainingSpec t;
  t.sequence_length = sequence_length;
  t.global_batch = global_batch;
  t.micro_batch = micro_batch;
  return t;
}

inline ParallelismSpec parallel(std::int64_t tensor, std::int64_t pipeline = 1, bool sequence_parallel = false) {
  ParallelismSpec p;
  p.tensor = tensor;
  p.pipeline = pipeline;
  p.sequence_parallel = sequence_parallel;
  return p;
}

}  // namespace orrery::testing
