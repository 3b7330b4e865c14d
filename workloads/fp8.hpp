// Training in fp8: how operands are scaled, and what may be combined with it.
//
// As NVIDIA's Transformer Engine (TE) does it (transformer_engine/common/recipe/__init__.py, pytorch/module/linear.py,
// layernorm_linear.py, grouped_linear.py, pytorch/fp8.py). The products of the layers' linear operators run in fp8, all
// three of them: forward, gradient of the input, gradient of the weight. Their operands are quantised from 16 bits just
// before; results are in 16 bits, gradients of weights in the format they are added up in. Everything else stays as in
// bf16: norms, attention between the projections, router, embedding, head and loss, the stream between layers, and
// the weights and gradients that replicas share. What is kept of an operator's input for its weight's gradient is in
// fp8. With sequence parallelism, inputs and gradients are gathered in fp8 too, by user buffers as well
// (operators/tensor_overlap.hpp).
//
// On Hopper, fp8 products take both operands along the summed dimension only, so that every operand is also written
// transposed (`transposes`); what has been gathered is transposed afterwards. Weights are quantised with the first
// micro-batch of a step and kept, both ways (is_first_microbatch); Megatron-LM asks for that.
//
// Delayed scaling: one scale a tensor, from the largest values of earlier steps. After each forward and each backward
// pass the largest values of all tensors (three of an operator forward, two backward) are reduced over a group
// (FP8GlobalStateManager.reduce_and_update_fp8_tensors: one all-reduce, not overlapped), and new scales follow.
// Megatron-LM's group is all of a pipeline stage, or its tensor group with --tp-only-amax-red.
//
// Current scaling (Float8CurrentScaling; torchao's tensorwise scaling): a scale of each tensor's own largest value, so
// that it is read twice. Nothing is reduced.
//
// Weights that are split (FSDP, ZeRO-3) are quantised after each gather, forward and backward, and not kept in between
// (torchao, float8_linear.py: matmul_with_hp_or_float8_args casts in both passes); or they come in fp8
// (float8_all_gather), and are transposed for the backward pass. TE by itself would keep the copies of all layers from
// forward to backward.
//
// Block scaling (Float8BlockScaling; DeepSeek-V3, section 3.3): scales of the values at hand, for 1 x 128 elements of
// activations and gradients and for 128 x 128 of weights; both ways are quantised at once. Nothing is reduced.
//
// Left out: norms and activations that write fp8 themselves (TE fuses some of them), bias gradients inside the cast,
// weights and parameter gathers in fp8, dispatch to experts in fp8, attention in fp8, MXFP8.
#pragma once

#include <cstdint>
#include <string_view>

#include "sim/base/problem.hpp"
#include "workloads/model.hpp"
#include "workloads/operators/shape.hpp"
#include "workloads/plan.hpp"
#include "workloads/registry.hpp"

namespace orrery {

// Over whom the largest values are reduced.
enum class AmaxGroup : std::uint8_t { none, tensor, stage };

// The choice must be checked.
[[nodiscard]] Fp8Shape fp8_shape(const TrainingSpec& training);
[[nodiscard]] AmaxGroup amax_group(const TrainingSpec& training);

// Of weights that are split, and gathered for each pass (`in_fp8`: as bytes).
void fp8_of_shards(OperatorShape& shape, bool in_fp8);

// What TE refuses, and what is not simulated with fp8. Nothing where the precision is another, but then no recipe for
// fp8 may be given either.
[[nodiscard]] Problems check_fp8(const ModelSpec& model, const TrainingSpec& training,
                                 const ParallelismSpec& parallelism);

}  // namespace orrery
