// The way out: projection to logits, and cross-entropy over a vocabulary that is split over the tensor-parallel ranks
// (megatron/core/tensor_parallel/cross_entropy.py: the row maximum, the target's logit and the sum of exponentials are
// each all-reduced; fusions/fused_cross_entropy.py sends the last two together).
//
// Logits are cast to fp32, and the softmax stays for the backward pass. Kernels are counted as passes over the logits:
// 52 bytes per logit unfused, 40 fused, forward and backward; Liger-Kernel's published timings of Megatron's and
// PyTorch's losses give 56 and 48 at 85 % of memory bandwidth.
#include "workloads/operators/operators.hpp"
#include "workloads/operators/tensor_overlap.hpp"

namespace orrery {

void cross_entropy_loss(BlockBuilder& block, const OperatorShape& shape) {
  const std::int64_t tokens = shape.tokens();
  const std::int64_t columns = shape.vocabulary_shard();
  const auto e = static_cast<double>(shape.element());
  const bool split = shape.tensor > 1;
  Fragment f = block.fragment();
  const auto whole = [&](const char* name, double bytes, double flops) {
    return streaming(std::string("loss.") + name, KernelKind::cross_entropy, shape, tokens, columns, {bytes, flops});
  };
  const auto reduce = [&](std::int64_t bytes_per_token, const char* label) {
    if (split) f.forward({CollectiveOp::all_reduce, shape.tensor_group, Bytes(tokens * bytes_per_token)}, label);
  };
  f.save(Bytes(tokens * columns * 4), MemoryTag::logits);
  const bool casts = shape.element() != 4;
  if (casts) f.forward_workspace(Bytes(tokens * columns * shape.element()), MemoryTag::logits);
  if (casts) f.forward(whole("cast", e + 4, 0));
  f.forward(whole("maximum", 4, 1));
  reduce(4, "reduce maximum");
  if (shape.fused) {
    f.forward(whole("exponential", 8, 4));
    reduce(8, "reduce loss");
  } else {
    f.forward(whole("subtract", 8, 1));
    reduce(4, "reduce target");
    f.forward(whole("exponential", 8, 3)).forward(whole("sum", 4, 1));
    reduce(4, "reduce denominator");
  }
  f.forward(whole("normalise", 8, 1));

  f.backward(whole("backward", 8, 1));
  if (casts) {
    f.backward_workspace(Bytes(tokens * columns * shape.element()), MemoryTag::logits);
    f.backward(whole("backward_cast", e + 4, 0));
  }
  block.add(std::move(f));
}

void logits(BlockBuilder& block, const OperatorShape& shape, bool separate_weight) {
  norm(block, shape, "final_norm", false, true);
  OperatorShape plain = without_overlap(shape);  // logits stay in 16 bits, and their weights whole
  plain.fp8 = {};
  plain.sparsity = {};
  plain.lora = {};
  const ColumnPart part{"logits", shape.vocabulary_shard()};
  column_parallel(block, plain, std::span(&part, 1), shape.model.hidden, false, separate_weight);
}

void head_and_loss(BlockBuilder& block, const OperatorShape& shape, bool separate_weight) {
  logits(block, shape, separate_weight);
  cross_entropy_loss(block, shape);
}

}  // namespace orrery
