// Multi-head latent attention (DeepSeek-V2, Liu et al. 2024, section 2.1) as Megatron-LM trains it
// (megatron/core/transformer/multi_latent_attention.py, class MLASelfAttention): queries, and keys with values, are
// projected down to a low rank by weights that every tensor-parallel rank holds, normalised, and projected up to the
// rank's heads. A part of every key is rotated and shared by all heads; keys are put together head by head, so that
// attention itself is ordinary attention with keys wider than values.
#include <string>
#include <utility>

#include "workloads/operators/operators.hpp"

namespace orrery {

namespace {

// An RMSNorm of so many columns: the residual stream's norm at another width.
void rank_norm(BlockBuilder& block, const OperatorShape& shape, const std::string& name, std::int64_t columns) {
  OperatorShape narrow = shape;
  narrow.model.hidden = columns;
  norm(block, narrow, name, false, false);
}

void add_rotation(BlockBuilder& block, const OperatorShape& shape) {
  const ModelSpec& m = shape.model;
  const auto e = static_cast<double>(shape.element());
  Fragment f = block.fragment();
  const auto pass = [&](const char* name, std::int64_t columns, double passes) {
    return streaming(std::string("latent.") + name, KernelKind::elementwise, shape, shape.tokens(), columns,
                     {passes * e, 1});
  };
  const std::int64_t rotated = (shape.heads() + 1) * m.qk_rope_head_dim;
  const std::int64_t keys = shape.heads() * m.key_dim();
  f.forward(pass("rotate", rotated, 2)).forward(pass("join_keys", keys, 2));
  f.backward(pass("join_keys.backward", keys, 2)).backward(pass("rotate.backward", rotated, 2));
  block.add(std::move(f));
}

}  // namespace

void latent_attention_inputs(BlockBuilder& block, const OperatorShape& shape) {
  const ModelSpec& m = shape.model;
  const ColumnPart queries{"query_up", shape.heads() * m.key_dim()};
  if (m.q_lora_rank > 0) {
    replicated_linear(block, shape, "query_down", m.hidden, m.q_lora_rank, true);
    rank_norm(block, shape, "query_norm", m.q_lora_rank);
    column_parallel(block, shape, std::span(&queries, 1), m.q_lora_rank, false);
  } else {
    column_parallel(block, shape, std::span(&queries, 1), m.hidden, false);
  }
  replicated_linear(block, shape, "key_value_down", m.hidden, m.kv_lora_rank + m.qk_rope_head_dim, false);
  rank_norm(block, shape, "key_value_norm", m.kv_lora_rank);
  const ColumnPart keys_values{"key_value_up", shape.heads() * (m.qk_nope_head_dim + m.v_head_dim)};
  column_parallel(block, shape, std::span(&keys_values, 1), m.kv_lora_rank, false);
  add_rotation(block, shape);
}

}  // namespace orrery
