// The operators of transformers (those of image models: convolution.hpp). Each adds its fragments (operators/block.hpp)
// to a block: kernels forward and backward with FLOPs, bytes and shape, what is saved between them, tensor-parallel
// collectives, parameters.
//
// Tensor parallelism is Megatron's (Shoeybi et al. 2019): column-parallel products first, row-parallel ones second, one
// all-reduce after each row-parallel product forward and one before each column-parallel product backward. Sequence
// parallelism (Korthikanti et al. 2022) turns each into a reduce-scatter and an all-gather around the split regions.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "workloads/operators/block.hpp"
#include "workloads/operators/shape.hpp"

namespace orrery {

// One product of a column-parallel operator; products of one operator share their input.
struct ColumnPart {
  std::string name;
  std::int64_t out = 0;   // on this rank
  std::int64_t rank = 0;  // a pair of thin products of this rank in its place; 0: none
};

struct ThinPair;

// [tokens, in] x [in, out / t], and adapters beside it. Saves its input, unless somebody else does. `own_weight`: false
// where the weight is another block's (tied head).
void column_parallel(BlockBuilder& block, const OperatorShape& shape, std::span<const ColumnPart> parts,
                     std::int64_t in, bool bias, bool own_weight = true, bool saves_input = true,
                     std::span<const ThinPair> adapters = {});

struct RowOptions {
  bool input_needed = false;      // its input is kept where its own weight is frozen too, for the operator that made it
  std::int64_t rank = 0;          // as of a ColumnPart
  std::int64_t adapter_rank = 0;  // of an adapter beside it; 0: none
};

// [tokens, in / t] x [in / t, out], summed over the ranks. Saves its input where its weight, or `options`, needs it.
// The bias is added by whoever follows.
void row_parallel(BlockBuilder& block, const OperatorShape& shape, const std::string& name, std::int64_t in_shard,
                  std::int64_t out, const RowOptions& options = {});

// [rows, in] x [in, out] with a weight that every tensor-parallel rank has the whole of.
void replicated_linear(BlockBuilder& block, const OperatorShape& shape, const std::string& name, std::int64_t in,
                       std::int64_t out, bool saves_input);

// LayerNorm or RMSNorm over the residual stream. `branch`: it begins a residual branch, so that its backward pass adds
// the branch's gradient to the stream's. `block_input`: what it saves is the input of its block.
void norm(BlockBuilder& block, const OperatorShape& shape, const std::string& name, bool branch, bool block_input);

// The same over each head's queries and keys.
void head_norms(BlockBuilder& block, const OperatorShape& shape);

// From the residual stream to queries, keys and values by way of their low ranks (multi-head latent attention).
void latent_attention_inputs(BlockBuilder& block, const OperatorShape& shape);

// Rotation of queries and keys (rotary positions).
void rotary(BlockBuilder& block, const OperatorShape& shape);

// From queries, keys and values to the context: the part that selective recomputation redoes.
void attention_core(BlockBuilder& block, const OperatorShape& shape);

// The activation between the products of the MLP, with the first product's bias.
void activation(BlockBuilder& block, const OperatorShape& shape);

// Router, dispatch, the experts of this rank, shared experts, and the way back: in place of the MLP.
void expert_mlp(BlockBuilder& block, const OperatorShape& shape);

// Bias of the row-parallel product before it, dropout, and addition to the residual stream.
void bias_dropout_add(BlockBuilder& block, const OperatorShape& shape, const std::string& name, bool bias);

// Token (and learned position) embedding, with dropout and BLOOM's norm.
void embedding(BlockBuilder& block, const OperatorShape& shape);

// The projection to logits and the loss over the (split) vocabulary. `separate_weight`: the head has a table of its own
// on this stage (untied, or tied across stages).
void head_and_loss(BlockBuilder& block, const OperatorShape& shape, bool separate_weight);

// The loss alone, of logits that are there.
void cross_entropy_loss(BlockBuilder& block, const OperatorShape& shape);

// Final norm and logits alone, as of a teacher.
void logits(BlockBuilder& block, const OperatorShape& shape, bool separate_weight);

// What a teacher's logits take, and the loss of a student that learns from them.
[[nodiscard]] Bytes teacher_logits_bytes(const OperatorShape& shape);
void distillation_loss(BlockBuilder& block, const OperatorShape& shape);

}  // namespace orrery
