#include "workloads/operators/shape.hpp"

#include <utility>

namespace orrery {

// Bytes per parameter follow Megatron-LM's table (docs, distributed optimizer: 16-bit weights with fp16 gradients 20,
// bf16 weights with fp32 gradients 18, all fp32 16, Adam's 8 bytes of moments included). Under torch.autocast the
// module's own weights and gradients stay fp32 and so does whatever an fp32 operand is added to: the residual stream.
StorageFormat storage_format(PrecisionRecipe recipe, bool autocast) {
  const bool sixteen =
      recipe == PrecisionRecipe::fp16 || recipe == PrecisionRecipe::bf16 || recipe == PrecisionRecipe::fp8;
  StorageFormat f;
  switch (recipe) {
    case PrecisionRecipe::fp32:
      f.compute = Precision::fp32;
      break;
    case PrecisionRecipe::tf32:
      f.compute = Precision::tf32;
      break;
    case PrecisionRecipe::fp16:
      f.compute = Precision::fp16;
      break;
    case PrecisionRecipe::bf16:
    case PrecisionRecipe::fp8:  // all but linear operators
      f.compute = Precision::bf16;
      break;
  }
  f.loss_scaling = recipe == PrecisionRecipe::fp16;
  if (!sixteen || autocast) {
    f.weight = 4;
    f.gradient = 4;
    f.master = 0;
    f.main_gradient = 0;
    f.residual = 4;
    return f;
  }
  f.weight = 2;
  f.master = 4;
  f.residual = 2;
  f.gradient = recipe == PrecisionRecipe::fp16 ? 2 : 4;
  f.main_gradient = recipe == PrecisionRecipe::fp16 ? 4 : 0;
  return f;
}

Kernel gemm(std::string name, const OperatorShape& shape, std::int64_t m, std::int64_t n, std::int64_t k,
            std::int64_t batch, std::int64_t result_bytes) {
  const std::int64_t element = shape.element();
  const std::int64_t result = result_bytes > 0 ? result_bytes : element;
  Kernel kernel;
  kernel.name = std::move(name);
  kernel.kind = KernelKind::gemm;
  kernel.precision = shape.storage.compute;
  kernel.m = m;
  kernel.n = n;
  kernel.k = k;
  kernel.batch = batch;
  kernel.flops = Flops(2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) *
                       static_cast<double>(batch));
  kernel.bytes = Bytes(batch * (element * (m * k + k * n) + result * m * n));
  return kernel;
}

Kernel streaming(std::string name, KernelKind kind, const OperatorShape& shape, std::int64_t rows, std::int64_t columns,
                 PerElement per_element) {
  Kernel kernel;
  kernel.name = std::move(name);
  kernel.kind = kind;
  kernel.precision = shape.storage.compute;
  kernel.m = rows;
  kernel.n = columns;
  kernel.k = 1;
  const double elements = static_cast<double>(rows) * static_cast<double>(columns);
  kernel.flops = Flops(elements * per_element.flops);
  kernel.bytes = Bytes(static_cast<std::int64_t>(elements * per_element.bytes));
  return kernel;
}

}  // namespace orrery
