// AdamW (Loshchilov and Hutter 2019): two fp32 moments. Fused (apex FusedAdam, torch fused): reads weight, gradient and
// both moments, writes all but the gradient. Otherwise as torch's foreach implementation: decay, lerp of the first
// moment, scale and addcmul of the second, square root, divide, add epsilon, addcdiv, each a pass of its own.
#include "workloads/optimizers/optimizer.hpp"
#include "workloads/optimizers/rows.hpp"

namespace orrery {

std::int64_t adamw_state_bytes(const Choice& /*choice*/, const RegistryRow& /*row*/, const OptimizerWork& work) {
  return 8 * work.elements;
}

std::vector<Kernel> adamw_kernels(const Choice& /*choice*/, const RegistryRow& /*row*/, const OptimizerWork& work) {
  const auto g = static_cast<double>(work.gradient_bytes);
  if (work.fused) return multi_tensor("adamw", work, 24 + g, 14);
  std::vector<Kernel> all;
  const auto add = [&](std::string_view name, double bytes, double flops) {
    for (Kernel& kernel : multi_tensor(name, work, bytes, flops)) all.push_back(std::move(kernel));
  };
  add("adamw.decay", 8, 1);
  add("adamw.first_moment", 8 + g, 3);
  add("adamw.second_moment_decay", 8, 1);
  add("adamw.second_moment", 8 + g, 3);
  add("adamw.root", 8, 1);
  add("adamw.root_scale", 8, 1);
  add("adamw.epsilon", 8, 1);
  add("adamw.update", 16, 3);
  return all;
}

}  // namespace orrery
