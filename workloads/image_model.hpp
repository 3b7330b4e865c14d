// What image models are made of: the sizes of a residual convolution network's parts, and what a vision transformer has
// besides its layers. Parameter counts, FLOPs and blocks (image_layer.hpp) follow from these.
//
// resnet: He et al. 2016 as torchvision has it (torchvision/models/resnet.py), "v1.5": a stem of a 7 x 7 convolution
// with stride 2 and a 3 x 3 maximum with stride 2; stages of bottlenecks (1 x 1 to `width`, 3 x 3, 1 x 1 to four times
// that), each stage twice as wide as the one before it and, but for the first, at half its size, the stride being the
// 3 x 3 convolution's; a 1 x 1 convolution on the way past a stage's first block; each convolution followed by a batch
// norm, and has no bias; the mean over the image, and one matrix to the classes. `width` widens everything (Zagoruyko
// and Komodakis 2016; Kolesnikov et al. 2020, "R152x2").
//
// vit: Dosovitskiy et al. 2021: the image in patches, one matrix for all of them, a learned class token and learned
// positions, pre-norm encoder layers, a norm, and one matrix from the class token (or the mean) to the classes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/problem.hpp"
#include "workloads/model.hpp"

namespace orrery {

// A square convolution over a square image, padded so that the output has ceil(size / stride) pixels a side.
struct Convolution {
  std::string name{};
  std::int64_t in = 0;      // channels
  std::int64_t out = 0;     // channels
  std::int64_t kernel = 1;  // pixels a side
  std::int64_t stride = 1;
  std::int64_t size = 0;  // pixels a side of its input

  [[nodiscard]] std::int64_t out_size() const { return (size + stride - 1) / stride; }
  [[nodiscard]] std::int64_t in_pixels() const { return size * size; }
  [[nodiscard]] std::int64_t out_pixels() const { return out_size() * out_size(); }
  // Of the input, those that any output depends on: a 1 x 1 convolution with a stride skips the others.
  [[nodiscard]] std::int64_t read_pixels() const;
  [[nodiscard]] std::int64_t depth() const { return in * kernel * kernel; }  // terms of one output
  [[nodiscard]] std::int64_t weights() const { return depth() * out; }
  // Of one image. Products with padding are counted, as is usual.
  [[nodiscard]] std::int64_t multiply_adds() const { return out_pixels() * weights(); }
};

// One bottleneck block.
struct Bottleneck {
  Convolution reduce;
  Convolution middle;
  Convolution expand;
  std::optional<Convolution> shortcut;  // first of its stage
};

[[nodiscard]] Convolution stem_convolution(const ModelSpec& model);
// The maximum behind it halves the image again.
[[nodiscard]] std::int64_t stem_size(const ModelSpec& model);
// Blocks of a stage behind its first are alike; so one of each sort, [2 x stages]: first, others.
[[nodiscard]] std::vector<Bottleneck> bottleneck_sorts(const ModelSpec& model);
// The sort that the n-th block is of.
[[nodiscard]] std::size_t bottleneck_sort(const ModelSpec& model, std::int64_t layer);
// Channels, and pixels a side, behind the last block.
[[nodiscard]] std::int64_t final_channels(const ModelSpec& model);
[[nodiscard]] std::int64_t final_size(const ModelSpec& model);

// Of a vit. Tokens of one image, its class token included; of a resnet: 1, for its sample.
[[nodiscard]] std::int64_t patches(const ModelSpec& model);
[[nodiscard]] std::int64_t tokens_per_image(const ModelSpec& model);

// Numbers of one image, as the loader gives it.
[[nodiscard]] std::int64_t image_values(const ModelSpec& model);

// Weights of a whole resnet; of a vit without its layers and final norm.
[[nodiscard]] std::int64_t convolution_parameters(const ModelSpec& model);
[[nodiscard]] std::int64_t image_end_parameters(const ModelSpec& model);

// Multiplications with an addition each, of one image forward: convolutions and matrix products, and attention.
[[nodiscard]] std::int64_t image_multiply_adds(const ModelSpec& model);

// What contradicts itself in what image models have beyond transformers.
[[nodiscard]] Problems check_images(const ModelSpec& model);

}  // namespace orrery
