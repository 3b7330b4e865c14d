// Convolutions, batch norms and what stands between them, on activations that lie as batch x pixels x channels
// (channels last, as cuDNN's tensor-core kernels want them).
//
// A convolution is an implicit matrix product (Chetlur et al. 2014; NVIDIA, "Convolutional Layers User's Guide",
// tables 1 to 3): nothing is unfolded in memory, tiles are.
//   forward           m = batch x output pixels   n = out                      k = in x kernel^2
//   input gradient    m = batch x input pixels    n = in                       k = out x kernel^2 / stride^2
//   weight gradient   m = in x kernel^2           n = out                      k = batch x output pixels
// Each moves its operands and its result once. Input gradients of strided convolutions skip the products with zeros
// (CUTLASS, "strided dgrad"); pixels that no output depends on are neither read nor counted.
//
// A batch norm in training is two kernels forward (sums over the batch: one pass; normalise: two) and two backward
// (sums: two passes; the gradient: three), as PyTorch's channels-last kernels are (aten/src/ATen/native/cuda/
// Normalization.cuh: batch_norm_collect_statistics_channels_last, batch_norm_transform_input_channels_last,
// batch_norm_backward_reduce_channels_last, batch_norm_backward_elemt_channels_last). A ReLU behind it works in place
// (torchvision: inplace=True), two passes forward and three backward, and so does the addition of a block's input,
// three. Where the framework fuses, normalisation, addition and ReLU are one kernel, forward and backward (cuDNN:
// CUDNN_BATCHNORM_OPS_BN_ADD_ACTIVATION; NVIDIA apex; torch.compile). Nothing fuses a norm's sums into the convolution
// before it. These kernels are of kind elementwise: they have no instructions that hold them up.
//
// Kept for the backward pass: every convolution's input, which is also the output of the ReLU before it, and every
// norm's input. Left out: the running statistics (a few KB a layer, which DDP broadcasts before each forward pass).
#pragma once

#include <cstdint>

#include "workloads/image_model.hpp"
#include "workloads/operators/block.hpp"
#include "workloads/operators/shape.hpp"

namespace orrery {

enum class ConvolutionPart : std::uint8_t { forward, input_gradient, weight_gradient };
// Of one micro-batch.
[[nodiscard]] Kernel convolution_kernel(const OperatorShape& shape, const Convolution& c, ConvolutionPart part);

struct ConvolutionUse {
  bool input_gradient = true;  // false: its input is the image
  bool saves_input = true;     // false: somebody else does
  bool block_input = false;    // what it saves is its block's input
  bool bias = false;
};
void convolution(BlockBuilder& block, const OperatorShape& shape, const Convolution& c, const ConvolutionUse& use);

// Behind the convolution. `adds`: then the addition of what came past the branch; `relu`: then a ReLU.
void batch_norm(BlockBuilder& block, const OperatorShape& shape, const Convolution& c, bool adds, bool relu);

// The sum of a block's input gradients, of the branch and of what goes past it. Add it before the branch's operators.
void add_branch_gradients(BlockBuilder& block, const OperatorShape& shape, const Convolution& first);

// A maximum over 3 x 3 pixels with stride 2, of `channels` with `size` pixels a side.
void maximum_pool(BlockBuilder& block, const OperatorShape& shape, std::int64_t channels, std::int64_t size);

// The ends of an image model (operators/image_ends.cpp).
// Copies of images that the GPU holds.
void load_images(BlockBuilder& block, const OperatorShape& shape);
// Patches to tokens, class token, positions, dropout.
void patch_embedding(BlockBuilder& block, const OperatorShape& shape);
// What the head reads of each image: its class token, or the mean over `rows` tokens or pixels of `columns`.
void pool_images(BlockBuilder& block, const OperatorShape& shape, std::int64_t rows, std::int64_t columns);
// From `columns` numbers an image to classes, and the loss.
void classify(BlockBuilder& block, const OperatorShape& shape, std::int64_t columns);

}  // namespace orrery
