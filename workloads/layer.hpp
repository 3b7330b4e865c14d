// The blocks that a decoder transformer is a chain of.
#pragma once

#include "workloads/operators/block.hpp"
#include "workloads/operators/shape.hpp"

namespace orrery {

// Attention and MLP, or experts in the MLP's place, each with its norm and residual addition.
[[nodiscard]] Block transformer_layer(KernelPool& pool, const OperatorShape& shape, Recompute recompute,
                                      bool has_experts = false, const BlockTraining& training = {});

[[nodiscard]] Block embedding_block(KernelPool& pool, const OperatorShape& shape, const BlockTraining& training = {});

// Final norm, logits, loss. `separate_weight` as in head_and_loss.
[[nodiscard]] Block head_block(KernelPool& pool, const OperatorShape& shape, bool separate_weight,
                               const BlockTraining& training = {});

// The head of a student: the same, with the divergence from the teacher's logits, which it frees.
[[nodiscard]] Block student_head_block(KernelPool& pool, const OperatorShape& shape, bool separate_weight,
                                       const BlockTraining& training);

// The head of a teacher: final norm and logits, which stay allocated.
[[nodiscard]] Block teacher_head_block(KernelPool& pool, const OperatorShape& shape, bool separate_weight);

}  // namespace orrery
