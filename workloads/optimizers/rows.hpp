// The functions that the optimizers' table points to.
#pragma once

#include "workloads/optimizers/optimizer.hpp"

namespace orrery {

[[nodiscard]] std::int64_t adamw_state_bytes(const Choice& choice, const RegistryRow& row);
[[nodiscard]] std::vector<Kernel> adamw_kernels(const Choice& choice, const RegistryRow& row,
                                                const OptimizerWork& work);

[[nodiscard]] std::int64_t sgd_state_bytes(const Choice& choice, const RegistryRow& row);
[[nodiscard]] std::vector<Kernel> sgd_kernels(const Choice& choice, const RegistryRow& row, const OptimizerWork& work);

[[nodiscard]] std::int64_t lamb_state_bytes(const Choice& choice, const RegistryRow& row);
[[nodiscard]] std::vector<Kernel> lamb_kernels(const Choice& choice, const RegistryRow& row, const OptimizerWork& work);

}  // namespace orrery
