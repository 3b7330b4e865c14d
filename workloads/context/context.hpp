// How context-parallel ranks, each with its part of every sequence, attend to the rest of it.
//
// Everything but attention works on tokens one by one and sees a shorter sequence. Attention needs all keys and values
// that precede a query; how they get there is what the rows of this table differ in. The traffic is that of the
// implementations in Transformer Engine (transformer_engine/pytorch/attention/dot_product_attention/
// context_parallel.py), which Megatron-LM chooses from by --cp-comm-type.
//
// Causal masks make later tokens more work. With zig_zag the sequence is cut into 2 x degree chunks of c tokens, and
// rank r has chunks r and 2 x degree - 1 - r, which evens the work out (Megatron-LM's get_batch_on_this_cp_rank). Ranks
// then compute equally many scores in rectangles of different shapes; all are taken to do what the one in the middle
// does. Without zig_zag rank r has the r-th part, and each rank has a program of its own.
#pragma once

#include <cstdint>
#include <string_view>

#include "workloads/operators/block.hpp"
#include "workloads/operators/shape.hpp"
#include "workloads/registry.hpp"

namespace orrery {

struct ContextRow {
  RegistryRow row;
  // The fragments of attention between the projections.
  void (*add_core)(BlockBuilder& block, const OperatorShape& shape) = nullptr;
  bool splits_heads = false;  // the degree divides the heads of a tensor-parallel rank
  bool zig_zags = false;      // has the option
};

[[nodiscard]] const ContextRow* find_context(std::string_view name);

void add_ring_attention(BlockBuilder& block, const OperatorShape& shape);
void add_gathered_attention(BlockBuilder& block, const OperatorShape& shape);
void add_ulysses_attention(BlockBuilder& block, const OperatorShape& shape);

}  // namespace orrery
