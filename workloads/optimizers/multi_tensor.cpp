#include <algorithm>
#include <string>

#include "workloads/optimizers/optimizer.hpp"

namespace orrery {

namespace {

constexpr std::int64_t kElementsPerLaunch = 320LL * 65'536;
constexpr std::int64_t kTensorsPerLaunch = 36;

}  // namespace

Kernel update_kernel(std::string_view name, std::int64_t elements, double bytes, double flops) {
  Kernel k;
  k.name = std::string(name);
  k.kind = KernelKind::optimizer;
  k.precision = Precision::fp32;
  k.m = 1;
  k.n = elements;
  k.k = 1;
  k.flops = Flops(static_cast<double>(elements) * flops);
  k.bytes = Bytes(static_cast<std::int64_t>(static_cast<double>(elements) * bytes));
  return k;
}

std::vector<OptimizerTensor> tensors_of(const OptimizerWork& work) {
  if (!work.shapes.empty()) return work.shapes;
  std::vector<OptimizerTensor> pieces;
  for (std::int64_t left = work.tensors; left > 0; --left) {
    const std::int64_t before = work.elements * (work.tensors - left) / work.tensors;
    const std::int64_t after = work.elements * (work.tensors - left + 1) / work.tensors;
    if (after > before) pieces.push_back({.elements = after - before});
  }
  return pieces;
}

std::vector<Kernel> multi_tensor(std::string_view name, const OptimizerWork& work, double bytes, double flops) {
  if (work.elements == 0) return {};
  const std::int64_t launches =
      std::max(divide_up(work.elements, kElementsPerLaunch), divide_up(work.tensors, kTensorsPerLaunch));
  const std::int64_t each = divide_up(work.elements, launches);
  std::vector<Kernel> kernels;
  for (std::int64_t left = work.elements; left > 0; left -= each) {
    kernels.push_back(update_kernel(name, std::min(each, left), bytes, flops));
  }
  return kernels;
}

}  // namespace orrery
