// Sizes and kernels of fused attention, for whoever computes it in pieces.
#pragma once

#include <cstdint>

#include "workloads/operators/block.hpp"
#include "workloads/operators/shape.hpp"

namespace orrery {

// Of one rank's own part of the sequence.
struct AttentionSizes {
  std::int64_t batch = 0;      // heads x sequences on this rank
  std::int64_t kv_batch = 0;   // the same of keys and values
  std::int64_t s = 0;          // tokens of a sequence
  std::int64_t key_dim = 0;    // width of a query or key
  std::int64_t value_dim = 0;  // width of a value
  std::int64_t q_bytes = 0;    // queries
  std::int64_t k_bytes = 0;    // keys as projected
  std::int64_t v_bytes = 0;    // values as projected
  std::int64_t out_bytes = 0;  // context

  [[nodiscard]] std::int64_t kv_bytes() const { return k_bytes + v_bytes; }
  [[nodiscard]] std::int64_t operand_bytes() const { return q_bytes + kv_bytes(); }
};
[[nodiscard]] AttentionSizes attention_sizes(const OperatorShape& shape);

// A rectangle of scores: so many queries by so many keys for each head, below the diagonal only when causal.
struct AttentionPiece {
  std::int64_t batch = 0;
  std::int64_t kv_batch = 0;
  std::int64_t queries = 0;
  std::int64_t keys = 0;
  bool causal = true;
};

// FLOPs follow FlashAttention-2 (Dao 2023): forward two products over the (causal half of the) rectangle, backward
// five, one of them the scores again.
[[nodiscard]] Kernel attention_kernel(const OperatorShape& shape, const AttentionPiece& piece, bool backward);

// Row sums of output times its gradient, which come before the backward pass, in a kernel of their own.
[[nodiscard]] Kernel attention_row_sums(const OperatorShape& shape, std::int64_t rows, std::int64_t columns);

}  // namespace orrery
