#include "workloads/image_layer.hpp"

#include <utility>

#include "workloads/operators/convolution.hpp"
#include "workloads/operators/operators.hpp"

namespace orrery {

namespace {

void stem(BlockBuilder& block, const OperatorShape& shape) {
  const Convolution c = stem_convolution(shape.model);
  load_images(block, shape);
  convolution(block, shape, c, {.input_gradient = false, .saves_input = shape.element() < 4});
  batch_norm(block, shape, c, false, true);
  maximum_pool(block, shape, c.out, c.out_size());
}

}  // namespace

Block image_embedding_block(KernelPool& pool, const OperatorShape& shape) {
  BlockBuilder block(pool, "embedding");
  if (shape.model.kind == ModelKind::vit) {
    patch_embedding(block, shape);
  } else {
    stem(block, shape);
  }
  return std::move(block).build(Recompute::none);
}

// Operators in the order of the forward pass; the shortcut is computed before the branch's last norm, which adds it.
Block bottleneck_block(KernelPool& pool, const OperatorShape& shape, const Bottleneck& sizes, Recompute recompute) {
  BlockBuilder block(pool, "layer");
  add_branch_gradients(block, shape, sizes.reduce);
  block.begin_module("branch");
  convolution(block, shape, sizes.reduce, {.block_input = true});
  batch_norm(block, shape, sizes.reduce, false, true);
  convolution(block, shape, sizes.middle, {});
  batch_norm(block, shape, sizes.middle, false, true);
  convolution(block, shape, sizes.expand, {});
  if (sizes.shortcut) {
    block.begin_module("shortcut");
    convolution(block, shape, *sizes.shortcut, {.saves_input = false});
    batch_norm(block, shape, *sizes.shortcut, false, false);
    block.begin_module("branch");
  }
  batch_norm(block, shape, sizes.expand, true, true);
  return std::move(block).build(recompute);
}

Block image_head_block(KernelPool& pool, const OperatorShape& shape) {
  const ModelSpec& m = shape.model;
  BlockBuilder block(pool, "head");
  if (m.kind == ModelKind::vit) {
    norm(block, shape, "final_norm", false, true);
    pool_images(block, shape, tokens_per_image(m), m.hidden);
    classify(block, shape, m.hidden);
  } else {
    const std::int64_t pixels = final_size(m) * final_size(m);
    Fragment input = block.fragment();
    input.save_input(
        Bytes(shape.micro_batch * pixels * final_channels(m) * shape.element()));  // the last ReLU's output
    block.add(std::move(input));
    pool_images(block, shape, pixels, final_channels(m));
    classify(block, shape, final_channels(m));
  }
  return std::move(block).build(Recompute::none);
}

}  // namespace orrery
