// LAMB (You et al. 2020): Adam's update, scaled for each tensor by the ratio of the weights' norm to the update's.
// As apex FusedLAMB does it: one launch group makes the updates (written over the gradients), norms of weights and
// updates per tensor, then one applies them.
#include "workloads/optimizers/optimizer.hpp"
#include "workloads/optimizers/rows.hpp"

namespace orrery {

std::int64_t lamb_state_bytes(const Choice& /*choice*/, const RegistryRow& /*row*/, const OptimizerWork& work) {
  return 8 * work.elements;
}

std::vector<Kernel> lamb_kernels(const Choice& /*choice*/, const RegistryRow& /*row*/, const OptimizerWork& work) {
  const auto g = static_cast<double>(work.gradient_bytes);
  std::vector<Kernel> all;
  const auto add = [&](std::string_view name, double bytes, double flops) {
    for (Kernel& kernel : multi_tensor(name, work, bytes, flops)) all.push_back(std::move(kernel));
  };
  add("lamb.gradient_norm", g, 2);
  add("lamb.update", 4 + 2 * g + 16, 14);
  add("lamb.weight_norm", 4, 2);
  add("lamb.update_norm", g, 2);
  add("lamb.apply", 8 + g, 3);
  return all;
}

}  // namespace orrery
