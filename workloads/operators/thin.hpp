// Pairs of thin products, x -> B (A x) with A [rank, in] and B [out, rank]: beside a matrix (LoRA) or in its place
// (low-rank layers). They are part of the fragment of the product that they belong to, and share its input.
//
// Tensor parallelism as PEFT has it for Megatron's layers (peft/tuners/lora/tp_layer.py, class LoraParallelLinear):
// beside a column-parallel matrix every rank has all of A and its columns of B, beside a row-parallel one its rows of A
// and all of B. Between the two, [tokens, rank] is summed, or with sequence parallelism gathered or scattered.
#pragma once

#include <cstdint>
#include <string>

#include "workloads/operators/block.hpp"
#include "workloads/operators/shape.hpp"

namespace orrery {

struct ThinPair {
  std::string name;
  std::int64_t in = 0;   // on this rank
  std::int64_t out = 0;  // on this rank
  std::int64_t rank = 0;
  bool column = true;  // A is whole and B is split; otherwise the reverse
  bool beside = true;  // its result is scaled and added to another, and it is trained whatever else is
  double dropout = 0;  // of its input
};

// Forward and backward steps, and memory. `thin_forward_add` comes when the other product's result is there,
// `thin_backward_add` when its input's gradient is. A pair in a matrix's place calls neither.
void thin_forward(Fragment& f, const OperatorShape& shape, const ThinPair& pair);
void thin_forward_add(Fragment& f, const OperatorShape& shape, const ThinPair& pair);
void thin_backward(BlockBuilder& block, Fragment& f, const OperatorShape& shape, const ThinPair& pair);
void thin_backward_add(Fragment& f, const OperatorShape& shape, const ThinPair& pair);

}  // namespace orrery
