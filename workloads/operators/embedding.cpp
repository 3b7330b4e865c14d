// The way in: token embedding with its table split over tensor-parallel ranks (Megatron's VocabParallelEmbedding: each
// rank looks up what it holds, and the partial results are summed), learned positions, dropout, BLOOM's norm.
//
// With sequence parallelism the sum is a reduce-scatter, except where learned positions are added to the whole
// sequence first (megatron/core/models/common/embeddings/language_model_embedding.py: reduce_scatter_embeddings); then
// it is an all-reduce, and each rank keeps its part.
#include "workloads/operators/operators.hpp"

namespace orrery {

namespace {

void add_lookup(BlockBuilder& block, const OperatorShape& shape) {
  const std::int64_t h = shape.model.hidden;
  const std::int64_t tokens = shape.tokens();
  const auto w = static_cast<double>(shape.storage.weight);
  const auto g = static_cast<double>(shape.storage.gradient);
  const bool learned = shape.model.position == PositionKind::learned;
  const bool split = shape.tensor > 1;
  const bool scatters = split && shape.sequence_parallel && !learned;
  const bool gathers_back = split && shape.sequence_parallel;
  const Bytes output(tokens * h * shape.storage.weight);

  Fragment f = block.fragment();
  const std::int64_t table = shape.vocabulary_shard();
  const ParameterIndex weight = block.parameter({.name = "embedding.weight",
                                                 .elements = table * h,
                                                 .sharded = true,
                                                 .tied = shape.model.tied_embeddings,
                                                 .columns = h,
                                                 .table = true});
  f.save_for_weights(Bytes(tokens * 8));  // token ids
  f.forward_workspace(output);
  f.forward(streaming("embedding.forward", KernelKind::embedding, shape, tokens, h, {2 * w, 0}));
  if (split) {
    const CollectiveOp op = scatters ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce;
    f.forward({op, shape.tensor_group, output}, scatters ? "scatter embedding" : "reduce embedding");
  }
  if (gathers_back) {
    f.backward_workspace(output, MemoryTag::communication_buffers, Held::both_halves);
    f.backward({CollectiveOp::all_gather, shape.tensor_group, output}, "gather gradient");
  } else {
    f.keep_output_gradient(output);
  }
  if (learned) {
    const ParameterIndex positions = block.parameter(
        {.name = "positions.weight", .elements = shape.model.positions * h, .columns = h, .table = true});
    f.forward(streaming("positions.forward", KernelKind::embedding, shape, tokens, h, {3 * w, 1}));
    f.backward(streaming("positions.weight_gradient", KernelKind::embedding, shape, tokens, h, {2 * w + g, 1}),
               {positions});
    f.in_weight_half();
  }
  // Autograd makes a dense gradient of the table, then adds it to the accumulated one, where there is one.
  if (shape.fresh_gradients) {
    f.backward(streaming("embedding.zero_gradient", KernelKind::elementwise, shape, table, h, {w, 0}));
    f.in_weight_half();
    f.backward(streaming("embedding.weight_gradient", KernelKind::embedding, shape, tokens, h, {3 * w, 1}), {weight});
    f.in_weight_half();
    block.add(std::move(f));
    return;
  }
  f.backward_workspace(Bytes(table * h * shape.storage.weight), MemoryTag::workspace, Held::weight_half);
  f.backward(streaming("embedding.weight_gradient", KernelKind::embedding, shape, tokens, h, {3 * w, 1}));
  f.in_weight_half();
  f.backward(streaming("embedding.accumulate", KernelKind::elementwise, shape, table, h, {2 * w + 2 * g, 1}), {weight});
  f.in_weight_half();
  block.add(std::move(f));
}

}  // namespace

void embedding(BlockBuilder& block, const OperatorShape& shape) {
  add_lookup(block, shape);
  if (shape.model.embedding_norm) norm(block, shape, "embedding_norm", false, false);
  if (!shape.drops()) return;
  const std::int64_t rows = shape.rows();
  const std::int64_t h = shape.model.hidden;
  const double bytes = 2.0 * static_cast<double>(shape.storage.residual) + 1;
  Fragment f = block.fragment();
  f.save(Bytes(rows * h));
  f.forward(streaming("embedding.dropout", KernelKind::elementwise, shape, rows, h, {bytes, 2}));
  f.backward(streaming("embedding.dropout.backward", KernelKind::elementwise, shape, rows, h, {bytes, 1}));
  block.add(std::move(f));
}

}  // namespace orrery
