// The way out: projection to logits, and the loss (loss.cpp).
#include "workloads/operators/operators.hpp"
#include "workloads/operators/tensor_overlap.hpp"

namespace orrery {

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
