// Stochastic gradient descent, with or without momentum (one fp32 buffer).
#include "workloads/optimizers/optimizer.hpp"
#include "workloads/optimizers/rows.hpp"
#include "workloads/options.hpp"

namespace orrery {

std::int64_t sgd_state_bytes(const Choice& choice, const RegistryRow& row, const OptimizerWork& work) {
  return number_option(choice, row, "momentum") > 0 ? 4 * work.elements : 0;
}

std::vector<Kernel> sgd_kernels(const Choice& choice, const RegistryRow& row, const OptimizerWork& work) {
  const auto g = static_cast<double>(work.gradient_bytes);
  const bool momentum = number_option(choice, row, "momentum") > 0;
  if (work.fused) return multi_tensor("sgd", work, 8 + g + (momentum ? 8 : 0), momentum ? 5 : 3);
  std::vector<Kernel> all;
  if (momentum) {
    for (Kernel& kernel : multi_tensor("sgd.momentum", work, 8 + g, 2)) all.push_back(std::move(kernel));
  }
  for (Kernel& kernel : multi_tensor("sgd.update", work, 8 + (momentum ? 4 : g), 2)) all.push_back(std::move(kernel));
  return all;
}

}  // namespace orrery
