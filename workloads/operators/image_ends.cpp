// The way into and out of image models.
//
// Images arrive as fp32 (torchvision's ToTensor), are cast to the compute format where that is narrower, and need no
// gradient. What tensor parallelism leaves whole, as Megatron-LM's vision backbone does (megatron/legacy/model/vision/
// vit_backbone.py: a plain Linear for patches, plain Parameters for the class token and positions), every rank does in
// full: patches, positions, pooling, the classes.
#include <utility>

#include "workloads/operators/convolution.hpp"
#include "workloads/operators/operators.hpp"

namespace orrery {

namespace {

OperatorShape of_whole_images(const OperatorShape& shape) {
  OperatorShape whole = shape;
  whole.sequence = 1;
  whole.tensor = 1;
  whole.sequence_parallel = false;
  whole.vocabulary = shape.model.classes;
  return whole;
}

}  // namespace

void load_images(BlockBuilder& block, const OperatorShape& shape) {
  const std::int64_t values = image_values(shape.model);
  Fragment f = block.fragment();
  f.save(Bytes(4 * shape.micro_batch * values), MemoryTag::activations, Held::both_halves);
  if (shape.element() < 4) {
    f.forward(streaming("images.cast", KernelKind::elementwise, shape, shape.micro_batch, values,
                        {static_cast<double>(4 + shape.element()), 0}));
  }
  block.add(std::move(f));
}

void patch_embedding(BlockBuilder& block, const OperatorShape& shape) {
  const ModelSpec& m = shape.model;
  const Convolution patch{"patches", m.channels, m.hidden, m.patch, m.patch, m.image_size};
  load_images(block, shape);
  convolution(block, shape, patch,
              {.input_gradient = false, .saves_input = shape.element() < 4, .block_input = false, .bias = true});

  const auto r = static_cast<double>(shape.storage.residual);
  const std::int64_t tokens = shape.tokens();
  const Bytes output(tokens * m.hidden * shape.storage.residual);
  const auto pass = [&](const char* name, double bytes) {
    return streaming(name, KernelKind::elementwise, shape, tokens, m.hidden, {bytes, 1});
  };
  Fragment f = block.fragment();
  f.forward_workspace(output);
  f.keep_output_gradient(output);
  if (m.class_token) {
    const ParameterIndex token = block.parameter({.name = "class_token", .elements = m.hidden});
    f.forward(pass("class_token.concatenate", 2 * r));
    f.backward(streaming("class_token.gradient", KernelKind::elementwise, shape, shape.micro_batch, m.hidden, {r, 1}),
               {token});
    f.in_weight_half();
  }
  const ParameterIndex positions =
      block.parameter({.name = "positions.weight", .elements = tokens_per_image(m) * m.hidden});
  f.forward(pass("positions.add", 2 * r));  // the table stays in cache
  f.backward(pass("positions.gradient", r), {positions}).in_weight_half();
  if (shape.drops()) {
    f.save(Bytes(tokens * m.hidden));
    f.forward(pass("embedding.dropout", 2 * r + 1)).backward(pass("embedding.dropout.backward", 2 * r + 1));
  }
  block.add(std::move(f));
}

void pool_images(BlockBuilder& block, const OperatorShape& shape, std::int64_t rows, std::int64_t columns) {
  const auto r = static_cast<double>(shape.storage.residual);
  const bool token = shape.model.kind == ModelKind::vit && shape.model.class_token;
  const std::int64_t read = shape.micro_batch * (token ? 1 : rows);
  Fragment f = block.fragment();
  f.backward_workspace(Bytes(shape.micro_batch * rows * columns * shape.storage.residual));
  f.forward(streaming("pool.forward", KernelKind::elementwise, shape, read, columns, {r, 1}));
  // The gradient is as large as what was pooled, zero but for the class token.
  f.backward(streaming("pool.backward", KernelKind::elementwise, shape, shape.micro_batch * rows, columns, {r, 0}));
  block.add(std::move(f));
}

void classify(BlockBuilder& block, const OperatorShape& shape, std::int64_t columns) {
  const OperatorShape whole = of_whole_images(shape);
  const ColumnPart classes{"classes", shape.model.classes};
  column_parallel(block, whole, std::span(&classes, 1), columns, true);
  cross_entropy_loss(block, whole);
}

}  // namespace orrery
