#include "workloads/operators/products.hpp"

#include <string_view>
#include <utility>

#include "workloads/operators/weights.hpp"

namespace orrery {

namespace {

constexpr std::int64_t kScale = 4;  // bytes, fp32

// Of elements in 16 bits, a sparse copy keeps half, and two bits of place for each that it keeps.
constexpr std::int64_t kSparseOf16Bits = 9;  // sixteenths

std::int64_t fp8_bytes(std::int64_t elements, std::int64_t block) {
  return elements + (block > 0 ? kScale * divide_up(elements, block) : 0);
}

double per_element(std::int64_t block) {
  return 1 + (block > 0 ? static_cast<double>(kScale) / static_cast<double>(block) : 0);
}

// How often a tensor is read before it is in fp8.
std::int64_t reads(const OperatorShape& shape) { return shape.fp8.current ? 2 : 1; }

Kernel quantize(std::string name, const OperatorShape& shape, std::int64_t rows, std::int64_t columns,
                std::int64_t copies) {
  const double bytes =
      static_cast<double>(shape.element() * reads(shape)) + static_cast<double>(copies) * per_element(shape.fp8.block);
  return streaming(std::move(name), KernelKind::elementwise, shape, rows, columns, {bytes, 2});
}

Kernel transpose(std::string name, const OperatorShape& shape, std::int64_t rows, std::int64_t columns) {
  return streaming(std::move(name), KernelKind::elementwise, shape, rows, columns,
                   {2 * per_element(shape.fp8.block), 0});
}

Kernel quantized_weight(const std::string& name, const OperatorShape& shape, std::int64_t elements,
                        std::int64_t copies) {
  const double bytes = static_cast<double>(shape.storage.weight * reads(shape)) +
                       static_cast<double>(copies) * per_element(shape.fp8.weight_block);
  return streaming(name + "_quantize", KernelKind::elementwise, shape, 1, elements, {bytes, 2});
}

bool sparse(const OperatorShape& shape, const std::string& name) {
  const auto has = [&](std::string_view part) { return name.find(part) != std::string::npos; };
  return has("mlp") || has("shared") || has("experts") ? shape.sparsity.mlp : shape.sparsity.attention;
}

}  // namespace

// Sparse tensor cores skip half of the products. What the skipping is worth in time is less than two: the kernel's
// depth is that of a dense product which would take as long.
Kernel linear_product(std::string name, const OperatorShape& shape, std::int64_t m, std::int64_t n, std::int64_t k,
                      Operand second, std::int64_t batch, std::int64_t result_bytes) {
  const bool skips = second == Operand::weight && sparse(shape, name);
  const std::int64_t result = result_bytes > 0 ? result_bytes : shape.element();
  if (shape.fp8.on) {
    OperatorShape low = shape;
    low.storage.compute = Precision::fp8;
    Kernel kernel = gemm(std::move(name), low, m, n, k, batch, result);
    if (shape.fp8.block > 0) {
      const std::int64_t scales = second == Operand::weight
                                      ? divide_up(m * k, shape.fp8.block) + divide_up(k * n, shape.fp8.weight_block)
                                      : divide_up(m * k, shape.fp8.block) + divide_up(k * n, shape.fp8.block);
      kernel.bytes += Bytes(batch * kScale * scales);
    }
    return kernel;
  }
  Kernel kernel = gemm(std::move(name), shape, m, n, k, batch, result);
  if (!skips) return kernel;
  const std::int64_t dense = batch * k * n * shape.element();
  kernel.bytes -= Bytes(dense - dense * kSparseOf16Bits / 16);
  kernel.flops = Flops(kernel.flops.count() / 2);
  kernel.k = static_cast<std::int64_t>(static_cast<double>(k) / shape.sparsity.gain + 0.5);
  kernel.row_multiple = 64;
  return kernel;
}

Kernel linear_weight_gradient(const OperatorShape& shape, const std::string& name, std::int64_t in, std::int64_t out) {
  Kernel product = linear_product(name + ".weight_gradient", shape, in, out, shape.tokens(), Operand::activation);
  product.row_multiple = row_multiple(in, out);
  return product;
}

Bytes operand_bytes(const OperatorShape& shape, std::int64_t elements) {
  return Bytes(shape.fp8.on ? fp8_bytes(elements, shape.fp8.block) : elements * shape.element());
}

void prepare_input(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t rows,
                   std::int64_t columns, bool transposed_later) {
  if (!shape.fp8.on) return;
  const bool both = shape.fp8.transposes && !transposed_later;
  if (both) f.forward_workspace(operand_bytes(shape, rows * columns));  // the copy that only this product reads
  f.forward(quantize(name + ".input_quantize", shape, rows, columns, both ? 2 : 1));
}

void prepare_gradient(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t rows,
                      std::int64_t columns) {
  if (!shape.fp8.on) {
    f.keep_output_gradient(Bytes(rows * columns * shape.element()));
    return;
  }
  const Bytes copy = operand_bytes(shape, rows * columns);
  if (shape.fp8.transposes) f.backward_workspace(copy);
  f.backward_workspace(copy, MemoryTag::workspace, Held::both_halves);
  f.backward(quantize(name + ".gradient_quantize", shape, rows, columns, shape.fp8.copies()));
}

void prepare_gradient_part(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t rows,
                           std::int64_t columns) {
  if (!shape.fp8.on) return;
  f.backward_workspace(operand_bytes(shape, rows * columns));
  f.backward(quantize(name + ".gradient_quantize", shape, rows, columns, 1));
}

void transpose_gradient(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t rows,
                        std::int64_t columns) {
  if (!shape.fp8.on || !shape.fp8.transposes) return;
  f.backward_workspace(operand_bytes(shape, rows * columns), MemoryTag::workspace, Held::both_halves);
  f.backward(transpose(name + ".gradient_transpose", shape, rows, columns));
}

void transpose_input(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t rows,
                     std::int64_t columns) {
  if (!shape.fp8.on || !shape.fp8.transposes) return;
  f.backward_workspace(operand_bytes(shape, rows * columns), MemoryTag::workspace, Held::weight_half);
  f.backward(transpose(name + ".input_transpose", shape, rows, columns)).in_weight_half();
}

void prepare_weight(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t in,
                    std::int64_t out) {
  const std::int64_t element = shape.element();
  if (shape.fp8.on) {
    const Fp8Shape& fp8 = shape.fp8;
    if (fp8.caches_weights || fp8.gathered) return;
    const std::int64_t copies = fp8.keeps_weights ? fp8.copies() : 1;
    const Bytes bytes(copies * fp8_bytes(in * out, fp8.weight_block));
    f.forward(quantized_weight(name + ".weight", shape, in * out, copies));
    fp8.keeps_weights ? f.save(bytes) : f.forward_workspace(bytes);
    return;
  }
  add_weight_cast(f, shape, name, in, out);
  if (!sparse(shape, name)) return;
  // Packed as it is and transposed, for the products of both directions.
  const std::int64_t packed = 2 * (in * out * element * kSparseOf16Bits / 16);
  const double moved = static_cast<double>(element) * (1 + 2 * kSparseOf16Bits / 16.0);
  f.forward(streaming(name + ".sparsify", KernelKind::elementwise, shape, in, out, {moved, 4}));
  f.save(Bytes(packed));
}

void prepare_weight_again(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t in,
                          std::int64_t out) {
  const Fp8Shape& fp8 = shape.fp8;
  if (!fp8.on || fp8.caches_weights || fp8.keeps_weights) return;
  if (fp8.gathered && !fp8.transposes) return;
  f.backward(fp8.gathered ? transpose(name + ".weight_transpose", shape, in, out)
                          : quantized_weight(name + ".weight", shape, in * out, 1));
  f.for_input();
  f.backward_workspace(Bytes(fp8_bytes(in * out, fp8.weight_block)));
}

Kernel quantize_weight(const std::string& name, const OperatorShape& shape, std::int64_t elements) {
  return quantized_weight(name, shape, elements, shape.fp8.copies());
}

std::int64_t fp8_weight_bytes(const OperatorShape& shape, std::int64_t elements) {
  return shape.fp8.copies() * fp8_bytes(elements, shape.fp8.weight_block);
}

}  // namespace orrery
