#include "workloads/operators/convolution.hpp"

#include <utility>
#include <vector>

#include "workloads/operators/weights.hpp"

namespace orrery {

namespace {

// A kernel that passes so many times over a convolution's output.
Kernel over_output(const OperatorShape& shape, const Convolution& c, const std::string& name, double passes,
                   double flops) {
  return streaming(name, KernelKind::elementwise, shape, shape.micro_batch * c.out_pixels(), c.out,
                   {passes * static_cast<double>(shape.element()), flops});
}

Bytes input_bytes(const OperatorShape& shape, const Convolution& c) {
  return Bytes(shape.micro_batch * c.in_pixels() * c.in * shape.element());
}

Bytes output_bytes(const OperatorShape& shape, const Convolution& c) {
  return Bytes(shape.micro_batch * c.out_pixels() * c.out * shape.element());
}

}  // namespace

Kernel convolution_kernel(const OperatorShape& shape, const Convolution& c, ConvolutionPart part) {
  const std::int64_t images = shape.micro_batch;
  const std::int64_t read = images * c.read_pixels();
  const std::int64_t written = images * c.out_pixels();
  const std::int64_t element = shape.element();
  Kernel kernel;
  switch (part) {
    case ConvolutionPart::forward:
      kernel = gemm(c.name + ".forward", shape, written, c.out, c.depth());
      break;
    case ConvolutionPart::input_gradient:
      kernel =
          gemm(c.name + ".input_gradient", shape, read, c.in, divide_up(written * c.out * c.kernel * c.kernel, read));
      break;
    case ConvolutionPart::weight_gradient:
      kernel = gemm(c.name + ".weight_gradient", shape, c.depth(), c.out, written);
      break;
  }
  kernel.row_multiple = row_multiple(c.in, c.out);
  kernel.flops = Flops(2.0 * static_cast<double>(images) * static_cast<double>(c.multiply_adds()));
  // The input's gradient is written whole, zeros where no output depends on it.
  const std::int64_t pixels = part == ConvolutionPart::input_gradient ? images * c.in_pixels() : read;
  kernel.bytes = Bytes(element * (pixels * c.in + written * c.out + c.weights()));
  return kernel;
}

void convolution(BlockBuilder& block, const OperatorShape& shape, const Convolution& c, const ConvolutionUse& use) {
  Fragment f = block.fragment();
  if (use.block_input) {
    f.save_input(input_bytes(shape, c), Held::both_halves);
  } else if (use.saves_input) {
    f.save(input_bytes(shape, c), MemoryTag::activations, Held::both_halves);
  }
  add_weight_cast(f, shape, c.name, c.depth(), c.out);
  f.forward(convolution_kernel(shape, c, ConvolutionPart::forward));
  if (use.bias && !shape.fused) f.forward(over_output(shape, c, c.name + ".bias", 2, 1));

  f.keep_output_gradient(output_bytes(shape, c));
  if (use.input_gradient) {
    f.backward_workspace(input_bytes(shape, c));
    f.backward(convolution_kernel(shape, c, ConvolutionPart::input_gradient));
  }
  const ParameterIndex weight = block.parameter({.name = c.name + ".weight", .elements = c.weights()});
  add_weight_gradient(f, shape, c.name, convolution_kernel(shape, c, ConvolutionPart::weight_gradient), {weight});
  if (use.bias) {
    const ParameterIndex bias = block.parameter({.name = c.name + ".bias", .elements = c.out});
    add_bias_gradient(f, shape, c.name, shape.micro_batch * c.out_pixels(), c.out, bias);
  }
  block.add(std::move(f));
}

void batch_norm(BlockBuilder& block, const OperatorShape& shape, const Convolution& c, bool adds, bool relu) {
  const std::string name = c.name + "_norm";
  const ParameterIndex weight = block.parameter({.name = name + ".weight", .elements = c.out});
  const ParameterIndex bias = block.parameter({.name = name + ".bias", .elements = c.out});
  const auto pass = [&](const char* part, double passes, double flops) {
    return over_output(shape, c, name + part, passes, flops);
  };
  const double joined = (adds ? 1 : 0);
  Fragment f = block.fragment();
  f.save(output_bytes(shape, c));  // its input
  f.save(Bytes(8 * c.out));        // mean and reciprocal deviation, fp32
  f.forward_workspace(output_bytes(shape, c));
  f.backward_workspace(output_bytes(shape, c));
  f.forward(pass(".statistics", 1, 3));
  if (shape.fused) {
    f.forward(pass(".normalise", 2 + joined, 3 + joined));
    // Where a ReLU was, the sign of its output says what passes; what the branch joined gets the gradient as well.
    const double masked = relu ? 1 : 0;
    f.backward(pass(".backward_sums", 2 + masked, 3));
    f.backward(pass(".backward", 3 + masked + joined, 5), {weight, bias});
  } else {
    f.forward(pass(".normalise", 2, 2));
    if (adds) f.forward(pass(".add", 3, 1));
    if (relu) f.forward(pass(".relu", 2, 1)).backward(pass(".relu_backward", 3, 1));
    f.backward(pass(".backward_sums", 2, 3)).backward(pass(".backward", 3, 5), {weight, bias});
  }
  block.add(std::move(f));
}

void add_branch_gradients(BlockBuilder& block, const OperatorShape& shape, const Convolution& first) {
  const auto e = static_cast<double>(shape.element());
  Fragment f = block.fragment();
  f.backward_workspace(input_bytes(shape, first));
  f.backward(streaming("residual.gradient_add", KernelKind::elementwise, shape, shape.micro_batch * first.in_pixels(),
                       first.in, {3 * e, 1}));
  block.add(std::move(f));
}

// Which of the nine was the greatest is kept as a 64-bit number for each output (at::max_pool2d_with_indices).
void maximum_pool(BlockBuilder& block, const OperatorShape& shape, std::int64_t channels, std::int64_t size) {
  constexpr std::int64_t kIndex = 8;
  const std::int64_t out = (size + 1) / 2;
  const std::int64_t inputs = shape.micro_batch * size * size * channels;
  const std::int64_t outputs = shape.micro_batch * out * out * channels;
  const auto e = static_cast<double>(shape.element());
  const double outputs_per_input = static_cast<double>(outputs) / static_cast<double>(inputs);
  const double bytes = e + outputs_per_input * (e + static_cast<double>(kIndex));
  const auto kernel = [&](const char* name) {
    return streaming(name, KernelKind::elementwise, shape, inputs / channels, channels, {bytes, 9 * outputs_per_input});
  };
  Fragment f = block.fragment();
  f.save(Bytes(inputs * shape.element()));  // the ReLU's output
  f.save(Bytes(outputs * kIndex));
  f.backward_workspace(Bytes(inputs * shape.element()));
  f.forward(kernel("maximum.forward")).backward(kernel("maximum.backward"));
  block.add(std::move(f));
}

}  // namespace orrery
