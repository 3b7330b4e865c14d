// Attention between the projections: fused (flash: one kernel, nothing quadratic is kept) or plain (scores, softmax,
// context as kernels of their own, and the square matrices kept for the backward pass).
//
// FLOPs of the fused kernels follow FlashAttention-2 (Dao 2023): forward two products over the (causal half of the)
// square, backward five, one of them the scores again. Plain attention computes the whole square. What plain attention
// keeps is counted as by Korthikanti et al. 2022 (section 4.1): queries, keys, values, softmax output, dropout mask,
// dropout output.
#include "workloads/operators/operators.hpp"

namespace orrery {

namespace {

struct AttentionSizes {
  std::int64_t batch;      // heads x sequences on this rank
  std::int64_t s;          // sequence length
  std::int64_t d;          // head dimension
  std::int64_t q_bytes;    // queries
  std::int64_t kv_bytes;   // keys, or values, as projected
  std::int64_t out_bytes;  // context
  std::int64_t square;     // elements of the score matrices
};

AttentionSizes sizes(const OperatorShape& shape) {
  const std::int64_t d = shape.model.head_dim;
  const std::int64_t batch = shape.heads() * shape.micro_batch;
  const std::int64_t q = shape.tokens() * shape.heads() * d * shape.element();
  const std::int64_t kv = shape.tokens() * shape.kv_heads() * d * shape.element();
  return {batch, shape.sequence, d, q, kv, q, batch * shape.sequence * shape.sequence};
}

Kernel fused_attention(const OperatorShape& shape, const AttentionSizes& z, bool backward) {
  Kernel k;
  k.name = backward ? "attention.backward" : "attention.forward";
  k.kind = backward ? KernelKind::attention_backward : KernelKind::attention_forward;
  k.precision = shape.storage.compute;
  k.m = z.s;
  k.n = z.s;
  k.k = z.d;
  k.batch = z.batch;
  k.causal = true;
  const double products = backward ? 5 : 2;
  k.flops = Flops(products * static_cast<double>(z.square) * static_cast<double>(z.d));  // 2 per cell, halved
  const std::int64_t statistics = 4 * z.batch * z.s;  // log of the softmax's denominator, fp32
  const std::int64_t operands = z.q_bytes + 2 * z.kv_bytes + z.out_bytes;
  // Backward reads the operands, the output and its gradient, and writes three gradients.
  k.bytes = Bytes(backward ? 2 * operands + statistics : operands + statistics);
  return k;
}

void add_flash(BlockBuilder& block, const OperatorShape& shape) {
  const AttentionSizes z = sizes(shape);
  Fragment f = block.fragment();
  f.recomputed_selectively();
  f.save(Bytes(4 * z.batch * z.s));
  f.forward(fused_attention(shape, z, false));
  // Row sums of output times its gradient come first, in a kernel of their own.
  f.backward(streaming("attention.backward_rows", KernelKind::elementwise, shape, shape.tokens(), shape.heads() * z.d,
                       {2.0 * static_cast<double>(shape.element()), 2}));
  f.backward(fused_attention(shape, z, true));
  f.backward_workspace(Bytes(z.q_bytes + 2 * z.kv_bytes));
  block.add(std::move(f));
}

// One streaming pass over the score matrices.
Kernel pass(const std::string& name, const OperatorShape& shape, const AttentionSizes& z, KernelKind kind,
            double bytes_per_cell, double flops) {
  return streaming("attention." + name, kind, shape, z.batch * z.s, z.s, {bytes_per_cell, flops});
}

// Scale, (bias), mask, softmax and dropout, and back. Fused, scale, mask and softmax are one kernel (Megatron's
// scaled_upper_triang_masked_softmax).
void add_softmax(Fragment& f, const OperatorShape& shape, const AttentionSizes& z) {
  const auto e = static_cast<double>(shape.element());
  using enum KernelKind;
  if (!shape.fused) {
    f.forward(pass("scale", shape, z, elementwise, 2 * e, 1));
    if (shape.model.position == PositionKind::alibi) f.forward(pass("alibi", shape, z, elementwise, 3 * e, 1));
    f.forward(pass("mask", shape, z, elementwise, 2 * e + 1, 1));
  }
  f.forward(pass("softmax.forward", shape, z, softmax, 2 * e, 5));
  if (shape.drops()) f.forward(pass("dropout.forward", shape, z, softmax, 2 * e + 1, 2));
}

void add_softmax_backward(Fragment& f, const OperatorShape& shape, const AttentionSizes& z) {
  const auto e = static_cast<double>(shape.element());
  using enum KernelKind;
  if (shape.drops()) f.backward(pass("dropout.backward", shape, z, softmax, 2 * e + 1, 2));
  f.backward(pass("softmax.backward", shape, z, softmax, 3 * e, 4));
  if (!shape.fused) {
    f.backward(pass("mask.backward", shape, z, elementwise, 2 * e + 1, 1));
    f.backward(pass("scale.backward", shape, z, elementwise, 2 * e, 1));
  }
}

void add_plain(BlockBuilder& block, const OperatorShape& shape) {
  const AttentionSizes z = sizes(shape);
  const std::int64_t element = shape.element();
  const auto e = static_cast<double>(element);
  const bool grouped = shape.kv_heads() != shape.heads();
  Fragment f = block.fragment();
  f.recomputed_selectively();
  f.save(Bytes(z.square * element));                           // softmax output
  if (shape.drops()) f.save(Bytes(z.square * (1 + element)));  // mask and dropout output
  f.forward_workspace(Bytes(z.square * element));              // scores
  f.backward_workspace(Bytes(2 * z.square * element));         // gradients of probabilities and of scores
  f.backward_workspace(Bytes(z.q_bytes + 2 * z.kv_bytes));     // gradients of queries, keys, values
  const auto expand = [&](const char* name) {  // keys and values repeated for each group of query heads, or summed back
    return streaming(std::string("attention.") + name, KernelKind::elementwise, shape, shape.tokens(),
                     2 * (shape.heads() + shape.kv_heads()) * z.d, {e, 0});
  };
  const auto transpose = [&](const char* name) {
    return streaming(std::string("attention.") + name, KernelKind::elementwise, shape, shape.tokens(),
                     shape.heads() * z.d, {2 * e, 0});
  };
  if (grouped) {
    f.forward(expand("repeat_kv"));
    f.save(Bytes(2 * z.q_bytes));
  }
  f.forward(gemm("attention.scores.forward", shape, z.s, z.s, z.d, z.batch));
  add_softmax(f, shape, z);
  f.forward(gemm("attention.context.forward", shape, z.s, z.d, z.s, z.batch));
  f.forward(transpose("context_transpose"));

  f.backward(transpose("context_transpose.backward"));
  f.backward(gemm("attention.context.probability_gradient", shape, z.s, z.s, z.d, z.batch));
  f.backward(gemm("attention.context.value_gradient", shape, z.s, z.d, z.s, z.batch));
  add_softmax_backward(f, shape, z);
  f.backward(gemm("attention.scores.query_gradient", shape, z.s, z.d, z.s, z.batch));
  f.backward(gemm("attention.scores.key_gradient", shape, z.s, z.d, z.s, z.batch));
  if (grouped) f.backward(expand("repeat_kv.backward"));
  block.add(std::move(f));
}

}  // namespace

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
  const AttentionSizes z = sizes(shape);
  Fragment inputs = block.fragment();
  inputs.save(Bytes(z.q_bytes + 2 * z.kv_bytes));
  block.add(std::move(inputs));
  if (shape.attention == AttentionKind::flash) {
    add_flash(block, shape);
  } else {
    add_plain(block, shape);
  }
}

}  // namespace orrery
