// Attention between the projections: fused (flash: one kernel, nothing quadratic is kept) or plain (scores, softmax,
// context as kernels of their own, and the square matrices kept for the backward pass).
//
// Plain attention computes the whole square. What plain attention
// keeps is counted as by Korthikanti et al. 2022 (section 4.1): queries, keys, values, softmax output, dropout mask,
// dropout output.
#include "workloads/operators/attention.hpp"

#include "workloads/context/context.hpp"
#include "workloads/operators/operators.hpp"

namespace orrery {

namespace {

void add_flash(BlockBuilder& block, const OperatorShape& shape) {
  const AttentionSizes z = attention_sizes(shape);
  const AttentionPiece whole{z.batch, z.kv_batch, z.s, z.s, shape.model.causal()};
  Fragment f = block.fragment();
  f.recomputed_selectively();
  f.save(Bytes(4 * z.batch * z.s));
  if (shape.fp8.on) f.save(Bytes(z.out_bytes));  // the projection behind it keeps a copy in fp8
  f.forward(attention_kernel(shape, whole, false));
  f.backward(attention_row_sums(shape, shape.tokens(), shape.heads() * z.value_dim));
  f.backward(attention_kernel(shape, whole, true));
  f.backward_workspace(Bytes(z.operand_bytes()));
  block.add(std::move(f));
}

// One streaming pass over the score matrices.
Kernel pass(const std::string& name, const OperatorShape& shape, const AttentionSizes& z, KernelKind kind,
            double bytes_per_cell, double flops) {
  return streaming("attention." + name, kind, shape, z.batch * z.s, z.s, {bytes_per_cell, flops});
}

// Where Megatron's one kernel for scale, mask and softmax can be used (megatron/core/fusions/fused_softmax.py,
// is_kernel_available): a warp takes four rows of heads at a time.
bool fuses_softmax(const OperatorShape& shape, const AttentionSizes& z) {
  return shape.fused && z.batch % 4 == 0 && z.s % 4 == 0 && z.s > 16 && z.s <= 4096;
}

// Scale, (bias), mask, softmax and dropout, and back. Where that is not one kernel, Megatron's softmax is in fp32
// (attention_softmax_in_fp32; forward_torch_softmax casts to it and back), plain PyTorch's in the compute format.
void add_softmax(Fragment& f, const OperatorShape& shape, const AttentionSizes& z) {
  const auto e = static_cast<double>(shape.element());
  using enum KernelKind;
  if (!fuses_softmax(shape, z)) {
    const bool casts = shape.fused && shape.element() != 4;
    const double wide = casts ? 4 : e;
    if (casts) f.forward(pass("cast", shape, z, elementwise, e + 4, 0));
    f.forward(pass("scale", shape, z, elementwise, 2 * wide, 1));
    if (shape.model.position == PositionKind::alibi) f.forward(pass("alibi", shape, z, elementwise, 3 * wide, 1));
    if (shape.model.causal()) f.forward(pass("mask", shape, z, elementwise, 2 * wide + 1, 1));
    f.forward(pass("softmax.forward", shape, z, softmax, 2 * wide, 5));
    if (casts) f.forward(pass("cast_back", shape, z, elementwise, e + 4, 0));
  } else {
    f.forward(pass("softmax.forward", shape, z, softmax, 2 * e, 5));
  }
  if (shape.drops()) f.forward(pass("dropout.forward", shape, z, softmax, 2 * e + 1, 2));
}

void add_softmax_backward(Fragment& f, const OperatorShape& shape, const AttentionSizes& z) {
  const auto e = static_cast<double>(shape.element());
  using enum KernelKind;
  if (shape.drops()) f.backward(pass("dropout.backward", shape, z, softmax, 2 * e + 1, 2));
  if (fuses_softmax(shape, z)) {
    f.backward(pass("softmax.backward", shape, z, softmax, 3 * e, 4));
    return;
  }
  const bool casts = shape.fused && shape.element() != 4;
  const double wide = casts ? 4 : e;
  if (casts) f.backward(pass("cast_back.backward", shape, z, elementwise, e + 4, 0));
  f.backward(pass("softmax.backward", shape, z, softmax, 3 * wide, 4));
  if (shape.model.causal()) f.backward(pass("mask.backward", shape, z, elementwise, 2 * wide + 1, 1));
  f.backward(pass("scale.backward", shape, z, elementwise, 2 * wide, 1));
  if (casts) f.backward(pass("cast.backward", shape, z, elementwise, e + 4, 0));
}

void add_plain(BlockBuilder& block, const OperatorShape& shape) {
  const AttentionSizes z = attention_sizes(shape);
  const std::int64_t element = shape.element();
  const auto e = static_cast<double>(element);
  const std::int64_t square = z.batch * z.s * z.s;  // elements of the score matrices
  const std::int64_t d = z.key_dim;
  const bool grouped = shape.kv_heads() != shape.heads();
  Fragment f = block.fragment();
  f.recomputed_selectively();
  f.save(Bytes(square * element));                           // softmax output
  if (shape.drops()) f.save(Bytes(square * (1 + element)));  // mask and dropout output
  f.forward_workspace(Bytes(square * element));              // scores
  f.backward_workspace(Bytes(2 * square * element));         // gradients of probabilities and of scores
  f.backward_workspace(Bytes(z.operand_bytes()));            // gradients of queries, keys, values
  const auto expand = [&](const char* name) {  // keys and values repeated for each group of query heads, or summed back
    return streaming(std::string("attention.") + name, KernelKind::elementwise, shape, shape.tokens(),
                     2 * (shape.heads() + shape.kv_heads()) * d, {e, 0});
  };
  const auto transpose = [&](const char* name) {
    return streaming(std::string("attention.") + name, KernelKind::elementwise, shape, shape.tokens(),
                     shape.heads() * d, {2 * e, 0});
  };
  if (grouped) {
    f.forward(expand("repeat_kv"));
    f.save(Bytes(2 * z.q_bytes));
  }
  f.forward(gemm("attention.scores.forward", shape, z.s, z.s, d, z.batch));
  add_softmax(f, shape, z);
  f.forward(gemm("attention.context.forward", shape, z.s, d, z.s, z.batch));
  f.forward(transpose("context_transpose"));

  f.backward(transpose("context_transpose.backward"));
  f.backward(gemm("attention.context.probability_gradient", shape, z.s, z.s, d, z.batch));
  f.backward(gemm("attention.context.value_gradient", shape, z.s, d, z.s, z.batch));
  add_softmax_backward(f, shape, z);
  f.backward(gemm("attention.scores.query_gradient", shape, z.s, d, z.s, z.batch));
  f.backward(gemm("attention.scores.key_gradient", shape, z.s, d, z.s, z.batch));
  if (grouped) f.backward(expand("repeat_kv.backward"));
  block.add(std::move(f));
}

}  // namespace

AttentionSizes attention_sizes(const OperatorShape& shape) {
  AttentionSizes z;
  z.batch = shape.heads() * shape.micro_batch;
  z.kv_batch = shape.kv_heads() * shape.micro_batch;
  z.s = shape.sequence;
  z.key_dim = shape.model.key_dim();
  z.value_dim = shape.model.value_dim();
  z.q_bytes = z.batch * z.s * z.key_dim * shape.element();
  z.k_bytes = z.kv_batch * z.s * z.key_dim * shape.element();
  z.v_bytes = z.kv_batch * z.s * z.value_dim * shape.element();
  z.out_bytes = z.batch * z.s * z.value_dim * shape.element();
  return z;
}

Kernel attention_kernel(const OperatorShape& shape, const AttentionPiece& piece, bool backward) {
  const std::int64_t key = shape.model.key_dim();
  const std::int64_t value = shape.model.value_dim();
  Kernel k;
  k.name = backward ? "attention.backward" : "attention.forward";
  k.kind = backward ? KernelKind::attention_backward : KernelKind::attention_forward;
  k.precision = shape.storage.compute;
  k.m = piece.queries;
  k.n = piece.keys;
  k.k = (key + value) / 2;
  k.batch = piece.batch;
  k.causal = piece.causal;
  const double rectangle =
      static_cast<double>(piece.batch) * static_cast<double>(piece.queries) * static_cast<double>(piece.keys);
  // Widths that the products run over: scores, context; backward the scores again, and four gradients.
  const std::int64_t widths = backward ? 3 * key + 2 * value : key + value;
  k.flops = Flops(rectangle * static_cast<double>(widths) * (piece.causal ? 1 : 2));  // 2 per cell
  const std::int64_t element = shape.element();
  const std::int64_t operands =
      element * (piece.batch * piece.queries * (key + value) + piece.kv_batch * piece.keys * (key + value));
  const std::int64_t statistics = 4 * piece.batch * piece.queries;  // log of the softmax's denominator, fp32
  // Backward reads the operands, the output and its gradient, and writes three gradients.
  k.bytes = Bytes(backward ? 2 * operands + statistics : operands + statistics);
  return k;
}

Kernel attention_row_sums(const OperatorShape& shape, std::int64_t rows, std::int64_t columns) {
  return streaming("attention.backward_rows", KernelKind::elementwise, shape, rows, columns,
                   {2.0 * static_cast<double>(shape.element()), 2});
}

void rotary(BlockBuilder& block, const OperatorShape& shape) {
  if (shape.model.position != PositionKind::rotary) return;
  const auto e = static_cast<double>(shape.element());
  const std::int64_t columns = (shape.heads() + shape.kv_heads()) * shape.model.head_dim;
  Fragment f = block.fragment();
  const auto whole = [&](const char* name, double passes) {
    return streaming(std::string("rotary.") + name, KernelKind::elementwise, shape, shape.tokens(), columns,
                     {passes * e, 2});
  };
  if (shape.fused) {
    f.forward(whole("forward", 2)).backward(whole("backward", 2));
  } else {  // halves negated and swapped, two products, one sum; autograd mirrors them
    f.forward(whole("negate", 1)).forward(whole("concatenate", 2)).forward(whole("cosine", 2));
    f.forward(whole("sine", 2)).forward(whole("add", 3));
    f.backward(whole("cosine.backward", 2)).backward(whole("sine.backward", 2)).backward(whole("slice.backward", 2));
    f.backward(whole("negate.backward", 1)).backward(whole("add.backward", 3));
  }
  block.add(std::move(f));
}

void attention_core(BlockBuilder& block, const OperatorShape& shape) {
  // Queries, keys and values are kept whether the core is recomputed or not.
  const AttentionSizes z = attention_sizes(shape);
  Fragment inputs = block.fragment();
  inputs.save(Bytes(z.operand_bytes()));
  if (shape.fp8.on && shape.context.degree > 1) inputs.save(Bytes(z.out_bytes));  // the same of split sequences
  block.add(std::move(inputs));
  if (shape.context.degree > 1) {
    shape.context.row->add_core(block, shape);
  } else if (shape.attention == AttentionKind::flash) {
    add_flash(block, shape);
  } else {
    add_plain(block, shape);
  }
}

}  // namespace orrery
