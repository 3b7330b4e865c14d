// Norms over the residual stream.
#include <utility>

#include "workloads/operators/operators.hpp"

namespace orrery {

namespace {

// RMSNorm written with tensor operations, as eager PyTorch code does: square, mean, add epsilon and reciprocal root,
// scale, multiply by the weight; autograd runs about two kernels for each backward. LayerNorm is one kernel in PyTorch
// too.
void add_unfused_rms_norm(Fragment& f, const OperatorShape& shape, const std::string& name, ParameterIndex weight,
                          bool trained) {
  const auto bytes = static_cast<double>(shape.storage.residual);
  const std::int64_t rows = shape.rows();
  const std::int64_t h = shape.model.hidden;
  const auto whole = [&](const char* part, double passes) {
    return streaming(name + part, KernelKind::elementwise, shape, rows, h, {passes * bytes, 1});
  };
  const auto statistic = [&](const char* part) {
    return streaming(name + part, KernelKind::elementwise, shape, rows, 1, {8, 1});
  };
  f.forward(whole(".square", 2)).forward(whole(".mean", 1)).forward(statistic(".root"));
  f.forward(whole(".scale", 2)).forward(whole(".weight", 2));
  f.backward(whole(".weight_backward", 2), trained ? std::vector<ParameterIndex>{} : std::vector{weight});
  if (trained) f.backward(whole(".weight_gradient_product", 3)).backward(whole(".weight_gradient", 1), {weight});
  f.backward(whole(".scale_backward", 2)).backward(whole(".scale_backward_product", 3));
  f.backward(whole(".scale_backward_sum", 1)).backward(statistic(".root_backward"));
  f.backward(whole(".square_backward", 3)).backward(whole(".square_backward_add", 3));
}

}  // namespace

void norm(BlockBuilder& block, const OperatorShape& shape, const std::string& name, bool branch, bool block_input) {
  const bool layer_norm = shape.model.norm == NormKind::layer_norm;
  const std::int64_t rows = shape.rows();
  const std::int64_t h = shape.model.hidden;
  const auto bytes = static_cast<double>(shape.storage.residual);
  const bool partial = shape.sequence_parallel && shape.tensor > 1;
  const ParameterIndex weight = block.parameter({.name = name + ".weight", .elements = h, .partial_gradient = partial});

  Fragment f = block.fragment();
  const Bytes input(rows * h * shape.storage.residual);
  if (block_input) {
    f.save_input(input);
  } else {
    f.save(input);
  }
  f.save(Bytes(rows * (layer_norm ? 8 : 4)));  // fp32 mean and reciprocal deviation of each row
  f.backward_workspace(input);

  if (layer_norm) {
    std::vector<ParameterIndex> gradients{weight};
    if (shape.model.norm_bias) {
      gradients.push_back(block.parameter({.name = name + ".bias", .elements = h, .partial_gradient = partial}));
    }
    f.forward(streaming(name + ".forward", KernelKind::norm_forward, shape, rows, h, {2 * bytes, 8}));
    f.backward(streaming(name + ".backward", KernelKind::norm_backward, shape, rows, h, {3 * bytes, 16}),
               std::move(gradients));
  } else if (shape.fused) {
    f.forward(streaming(name + ".forward", KernelKind::norm_forward, shape, rows, h, {2 * bytes, 6}));
    f.backward(streaming(name + ".backward", KernelKind::norm_backward, shape, rows, h, {3 * bytes, 12}), {weight});
  } else {
    add_unfused_rms_norm(f, shape, name, weight, block.trains(weight));
  }
  if (branch) {  // autograd sums the gradients of the branch and of the stream that passes it by
    f.backward(streaming("residual.gradient_add", KernelKind::elementwise, shape, rows, h, {3 * bytes, 1}));
    f.for_input();
  }
  block.add(std::move(f));
}

void head_norms(BlockBuilder& block, const OperatorShape& shape) {
  const auto e = static_cast<double>(shape.element());
  const std::int64_t width = shape.model.key_dim();
  Fragment f = block.fragment();
  const auto add = [&](const std::string& name, std::int64_t heads) {
    // Each tensor-parallel rank has its own heads, and all have the weight.
    const ParameterIndex weight =
        block.parameter({.name = name + ".weight", .elements = width, .partial_gradient = shape.tensor > 1});
    const std::int64_t rows = shape.tokens() * heads;
    f.save(Bytes(rows * (width * shape.element() + 4)));  // its input, and the reciprocal deviation of each row
    f.forward(streaming(name + ".forward", KernelKind::norm_forward, shape, rows, width, {2 * e, 6}));
    f.backward(streaming(name + ".backward", KernelKind::norm_backward, shape, rows, width, {3 * e, 12}), {weight});
  };
  add("query_norm", shape.heads());
  add("key_norm", shape.kv_heads());
  block.add(std::move(f));
}

}  // namespace orrery
