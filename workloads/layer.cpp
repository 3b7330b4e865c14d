#include "workloads/layer.hpp"

#include <utility>
#include <vector>

#include "workloads/operators/operators.hpp"

namespace orrery {

namespace {

// One product for all three where the framework fuses (Megatron) or the model's own code does (GPT, BLOOM, MPT);
// Llama-like code without fusion has three.
std::vector<ColumnPart> attention_inputs(const OperatorShape& shape) {
  const std::int64_t d = shape.model.head_dim;
  const std::int64_t q = shape.heads() * d;
  const std::int64_t kv = shape.kv_heads() * d;
  if (shape.fused || shape.model.position != PositionKind::rotary) return {{"qkv", q + 2 * kv}};
  return {{"query", q}, {"key", kv}, {"value", kv}};
}

std::vector<ColumnPart> mlp_inputs(const OperatorShape& shape) {
  if (!shape.model.gated_mlp) return {{"mlp_up", shape.ffn()}};
  if (shape.fused) return {{"mlp_gate_up", 2 * shape.ffn()}};
  return {{"mlp_gate", shape.ffn()}, {"mlp_up", shape.ffn()}};
}

}  // namespace

Block transformer_layer(KernelPool& pool, const OperatorShape& shape, Recompute recompute, bool has_experts) {
  const ModelSpec& model = shape.model;
  BlockBuilder block(pool, "layer");
  block.begin_module("attention");
  norm(block, shape, "attention_norm", true, true);
  if (model.latent()) {
    latent_attention_inputs(block, shape);
  } else {
    column_parallel(block, shape, attention_inputs(shape), model.hidden, model.attention_bias);
    if (model.qk_norm) head_norms(block, shape);
    rotary(block, shape);
  }
  attention_core(block, shape);
  row_parallel(block, shape, "attention_output", shape.heads() * model.value_dim(), model.hidden);
  bias_dropout_add(block, shape, "attention_output", model.attention_bias);
  block.begin_module("mlp");
  norm(block, shape, "mlp_norm", true, false);
  if (has_experts) {
    expert_mlp(block, shape);
  } else {
    column_parallel(block, shape, mlp_inputs(shape), model.hidden, model.mlp_bias);
    activation(block, shape);
    row_parallel(block, shape, "mlp_down", shape.ffn(), model.hidden);
  }
  bias_dropout_add(block, shape, "mlp_down", model.mlp_bias);
  return std::move(block).build(recompute);
}

Block embedding_block(KernelPool& pool, const OperatorShape& shape) {
  BlockBuilder block(pool, "embedding");
  embedding(block, shape);
  return std::move(block).build(Recompute::none);
}

Block head_block(KernelPool& pool, const OperatorShape& shape, bool separate_weight) {
  BlockBuilder block(pool, "head");
  head_and_loss(block, shape, separate_weight);
  Block built = std::move(block).build(Recompute::none);
  for (ParameterTensor& p : built.parameters) {
    p.tied = shape.model.tied_embeddings && p.name == "logits.weight";
    p.table = p.tied;
  }
  return built;
}

}  // namespace orrery
