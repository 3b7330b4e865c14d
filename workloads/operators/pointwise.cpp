// Element-by-element operators: the MLP's activation, and what joins a branch to the residual stream.
#include "workloads/operators/operators.hpp"

namespace orrery {

namespace {

constexpr double kGeluFlops = 10;  // tanh form: a cubic, a tanh, two products
constexpr double kSiluFlops = 6;

}  // namespace

void activation(BlockBuilder& block, const OperatorShape& shape) {
  const auto e = static_cast<double>(shape.element());
  const std::int64_t tokens = shape.tokens();
  const std::int64_t ffn = shape.ffn();
  Fragment f = block.fragment();
  const auto whole = [&](const char* name, double passes, double flops) {
    return streaming(std::string("activation.") + name, KernelKind::elementwise, shape, tokens, ffn,
                     {passes * e, flops});
  };
  const Bytes one(tokens * ffn * shape.element());
  if (!shape.model.gated_mlp) {
    f.save(one);  // its input; its output is saved by the product that follows
    f.backward_workspace(one);
    f.forward(whole("forward", 2, kGeluFlops)).backward(whole("backward", 3, 2 * kGeluFlops));
  } else {
    f.save(one * 2);  // gate and up
    f.backward_workspace(one * 2);
    if (shape.fused) {
      f.forward(whole("forward", 3, kSiluFlops + 1)).backward(whole("backward", 5, 2 * kSiluFlops + 2));
    } else {
      f.save(one);  // the activated gate
      f.forward(whole("silu", 2, kSiluFlops)).forward(whole("product", 3, 1));
      f.backward(whole("product.gate_gradient", 3, 1)).backward(whole("product.up_gradient", 3, 1));
      f.backward(whole("silu.backward", 3, 2 * kSiluFlops));
    }
  }
  block.add(std::move(f));
}

void bias_dropout_add(BlockBuilder& block, const OperatorShape& shape, const std::string& name, bool bias) {
  const auto e = static_cast<double>(shape.element());
  const auto r = static_cast<double>(shape.storage.residual);
  const std::int64_t rows = shape.rows();
  const std::int64_t h = shape.model.hidden;
  const double mask = shape.drops() ? 1 : 0;
  Fragment f = block.fragment();
  const auto whole = [&](const char* part, double bytes, double flops) {
    return streaming(name + part, KernelKind::elementwise, shape, rows, h, {bytes, flops});
  };
  if (shape.drops()) f.save(Bytes(rows * h));  // one byte of mask per element
  if (shape.fused) {
    f.forward(whole(".bias_dropout_add", e + 2 * r + mask, 3));
  } else {
    if (bias) f.forward(whole(".bias", 2 * e, 1));
    if (shape.drops()) f.forward(whole(".dropout", 2 * e + mask, 2));
    f.forward(whole(".add", e + 2 * r, 1));
  }
  if (shape.storage.residual != shape.element()) f.backward(whole(".gradient_cast", e + r, 0));
  if (shape.drops()) f.backward(whole(".dropout.backward", 2 * e + mask, 1));
  if (bias) {
    const bool partial = shape.sequence_parallel && shape.tensor > 1;
    const ParameterIndex parameter =
        block.parameter({.name = name + ".bias", .elements = h, .partial_gradient = partial});
    f.backward(whole(".bias_gradient", e, 1), {parameter}).in_weight_half();
    // The gradient that it sums is what the product before it keeps; with sequence parallelism that keeps it gathered.
    if (partial) f.keep_output_gradient(Bytes(rows * h * shape.element()));
  }
  block.add(std::move(f));
}

}  // namespace orrery
