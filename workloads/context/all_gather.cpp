// Gathered attention, as Llama 3 was trained (Grattafiori et al. 2024, section 3.3.2) and as
// AttnFuncWithCPAndKVAllGather in Transformer Engine runs it: keys, then values are gathered over the ranks before
// attention and put in order; each chunk of queries attends to the keys up to its own end. The gathered ones are not
// kept: backward gathers again, and the gradients over the whole sequence are reduce-scattered. Nothing of it overlaps
// with computation.
//
// A chunk of c queries that ends at key n computes c (n - c/2) scores: a full rectangle with so many keys.
#include <array>
#include <utility>

#include "workloads/context/context.hpp"
#include "workloads/operators/attention.hpp"

namespace orrery {

namespace {

constexpr Launch kLaunch{"context", false, 0};

struct Chunk {
  std::int64_t queries = 0;
  std::int64_t end = 0;  // keys up to here
};

std::vector<Chunk> chunks_of(const ContextShape& context, std::int64_t s) {
  const std::int64_t r = context.rank;
  if (!context.zig_zag) return {{s, (r + 1) * s}};
  const std::int64_t c = s / 2;
  return {{c, (r + 1) * c}, {c, (2 * context.degree - r) * c}};
}

// Only the first chunk of a sequence ends where it begins: at the diagonal alone.
AttentionPiece piece_of(const AttentionSizes& z, const Chunk& chunk) {
  if (chunk.end == chunk.queries) return {z.batch, z.kv_batch, chunk.queries, chunk.end, true};
  return {z.batch, z.kv_batch, chunk.queries, chunk.end - chunk.queries / 2, false};
}

}  // namespace

void add_gathered_attention(BlockBuilder& block, const OperatorShape& shape) {
  const AttentionSizes z = attention_sizes(shape);
  const ContextShape& context = shape.context;
  const std::int64_t degree = context.degree;
  const double copy = 2 * static_cast<double>(shape.element());
  const Bytes keys(degree * z.k_bytes);
  const Bytes values(degree * z.v_bytes);
  const auto reorder = [&](const char* name) {
    return streaming(name, KernelKind::elementwise, shape, degree * z.s * z.kv_batch, z.key_dim + z.value_dim,
                     {copy, 0});
  };
  const std::vector<Chunk> chunks = chunks_of(context, z.s);
  Fragment f = block.fragment();
  f.recomputed_selectively();
  f.save(Bytes(4 * z.batch * z.s));

  f.forward_workspace(keys + values, MemoryTag::communication_buffers);
  f.forward({CollectiveOp::all_gather, context.group, keys}, "gather keys", kLaunch);
  f.forward({CollectiveOp::all_gather, context.group, values}, "gather values", kLaunch);
  if (context.zig_zag) f.forward(reorder("attention.order_keys_values"));
  for (const Chunk& chunk : chunks) f.forward(attention_kernel(shape, piece_of(z, chunk), false));

  // What is gathered, and its gradients, over the whole sequence.
  f.backward_workspace((keys + values) * 2, MemoryTag::communication_buffers);
  f.backward_workspace(Bytes(z.operand_bytes()));
  f.backward({CollectiveOp::all_gather, context.group, keys}, "gather keys", kLaunch);
  f.backward({CollectiveOp::all_gather, context.group, values}, "gather values", kLaunch);
  if (context.zig_zag) f.backward(reorder("attention.order_keys_values"));
  f.backward(attention_row_sums(shape, shape.tokens(), shape.heads() * z.value_dim));
  for (const Chunk& chunk : chunks) f.backward(attention_kernel(shape, piece_of(z, chunk), true));
  if (context.zig_zag) f.backward(reorder("attention.order_key_value_gradients"));
  f.backward({CollectiveOp::reduce_scatter, context.group, keys}, "scatter key gradients", kLaunch);
  f.backward({CollectiveOp::reduce_scatter, context.group, values}, "scatter value gradients", kLaunch);
  block.add(std::move(f));
}

}  // namespace orrery
