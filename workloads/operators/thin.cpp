// Forward (peft/tuners/lora/layer.py, class Linear): result + scaling * B(A(dropout(x))). Scaling and addition are one
// kernel where the framework fuses, two otherwise; backward the scaling is a kernel of its own, and autograd adds the
// gradient of the shared input. Each adapter drops out its own copy of the input, which is kept for A's gradient.
#include "workloads/operators/thin.hpp"

#include <utility>

#include "workloads/operators/products.hpp"
#include "workloads/operators/weights.hpp"

namespace orrery {

namespace {

// A shape whose tokens() are the rows that a rank works on outside tensor-parallel regions.
OperatorShape outside(const OperatorShape& shape) {
  OperatorShape part = shape;
  if (shape.sequence_parallel && shape.tensor > 1) part.sequence = shape.sequence / shape.tensor;
  part.sequence_parallel = false;
  return part;
}

OperatorShape inside(const OperatorShape& shape) {
  OperatorShape part = shape;
  part.sequence_parallel = false;
  return part;
}

// On which rows A and B work.
OperatorShape shape_of_a(const OperatorShape& shape, const ThinPair& pair) {
  return pair.column ? outside(shape) : inside(shape);
}
OperatorShape shape_of_b(const OperatorShape& shape, const ThinPair& pair) {
  return pair.column ? inside(shape) : outside(shape);
}

CollectiveCall between(const OperatorShape& shape, const ThinPair& pair, CollectiveOp op) {
  return {op, shape.tensor_group, Bytes(shape.tokens() * pair.rank * shape.element())};
}

Kernel pass(const std::string& name, const OperatorShape& rows, std::int64_t columns, double bytes, double flops) {
  return streaming(name, KernelKind::elementwise, rows, rows.tokens(), columns, {bytes, flops});
}

}  // namespace

void thin_forward(Fragment& f, const OperatorShape& shape, const ThinPair& pair) {
  const OperatorShape a = shape_of_a(shape, pair);
  const OperatorShape b = shape_of_b(shape, pair);
  const auto e = static_cast<double>(shape.element());
  const bool split = shape.tensor > 1;
  const bool sequence = split && shape.sequence_parallel;
  if (pair.dropout > 0) {
    f.forward(pass(pair.name + ".dropout", a, pair.in, 2 * e + 1, 2));
    f.save_for_weights(Bytes(a.tokens() * pair.in * (shape.element() + 1)));  // its output, and one byte of mask
  }
  add_weight_cast(f, shape, pair.name + "_a", pair.in, pair.rank);
  f.forward(gemm(pair.name + "_a.forward", a, a.tokens(), pair.rank, pair.in));
  if (pair.column && sequence) {
    f.forward(between(shape, pair, CollectiveOp::all_gather), "gather low rank");
  } else if (!pair.column && split) {
    f.forward(between(shape, pair, sequence ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce),
              "reduce low rank");
  }
  f.save_for_weights(Bytes(b.tokens() * pair.rank * shape.element()));
  add_weight_cast(f, shape, pair.name + "_b", pair.rank, pair.out);
  f.forward(gemm(pair.name + "_b.forward", b, b.tokens(), pair.out, pair.rank));
  if (pair.beside) f.forward_workspace(Bytes(b.tokens() * pair.out * shape.element()));
}

void thin_forward_add(Fragment& f, const OperatorShape& shape, const ThinPair& pair) {
  const OperatorShape b = shape_of_b(shape, pair);
  const auto e = static_cast<double>(shape.element());
  if (!shape.fused) f.forward(pass(pair.name + ".scale", b, pair.out, 2 * e, 1));
  f.forward(pass(pair.name + ".add", b, pair.out, 3 * e, shape.fused ? 2 : 1));
}

void thin_backward(BlockBuilder& block, Fragment& f, const OperatorShape& shape, const ThinPair& pair) {
  const OperatorShape a = shape_of_a(shape, pair);
  const OperatorShape b = shape_of_b(shape, pair);
  const auto e = static_cast<double>(shape.element());
  const bool split = shape.tensor > 1;
  const bool sequence = split && shape.sequence_parallel;
  const ParameterIndex weight_a = block.parameter({.name = pair.name + "_a.weight",
                                                   .elements = pair.in * pair.rank,
                                                   .sharded = !pair.column,
                                                   .partial_gradient = pair.column && sequence,
                                                   .adapter = pair.beside});
  const ParameterIndex weight_b = block.parameter({.name = pair.name + "_b.weight",
                                                   .elements = pair.rank * pair.out,
                                                   .sharded = pair.column,
                                                   .partial_gradient = !pair.column && sequence,
                                                   .adapter = pair.beside});
  if (pair.beside) f.backward(pass(pair.name + ".scale_backward", b, pair.out, 2 * e, 1));
  f.backward(gemm(pair.name + "_b.input_gradient", b, b.tokens(), pair.rank, pair.out));
  if (pair.column && split) {
    f.backward(between(shape, pair, sequence ? CollectiveOp::reduce_scatter : CollectiveOp::all_reduce),
               "reduce low rank");
  } else if (!pair.column && sequence) {
    f.backward(between(shape, pair, CollectiveOp::all_gather), "gather low rank");
  }
  f.keep_output_gradient(Bytes(a.tokens() * pair.rank * shape.element()));
  const std::string name_b = pair.name + "_b";
  const std::string name_a = pair.name + "_a";
  add_weight_gradient(f, b, name_b, linear_weight_gradient(b, name_b, pair.rank, pair.out), {weight_b});
  add_weight_gradient(f, a, name_a, linear_weight_gradient(a, name_a, pair.in, pair.rank), {weight_a});
  f.backward(gemm(pair.name + "_a.input_gradient", a, a.tokens(), pair.in, pair.rank)).for_input();
  if (pair.dropout > 0) f.backward(pass(pair.name + ".dropout_backward", a, pair.in, 2 * e + 1, 1)).for_input();
  if (pair.beside) f.backward_workspace(Bytes(a.tokens() * pair.in * shape.element()));
}

void thin_backward_add(Fragment& f, const OperatorShape& shape, const ThinPair& pair) {
  const OperatorShape a = shape_of_a(shape, pair);
  const auto e = static_cast<double>(shape.element());
  f.backward(pass(pair.name + ".input_gradient_add", a, pair.in, 3 * e, 1)).for_input();
}

}  // namespace orrery
