// The functions that the optimizers' table points to.
#pragma once

#include "workloads/optimizers/optimizer.hpp"

namespace orrery {

[[nodiscard]] std::int64_t adamw_state_bytes(const Choice& choice, const RegistryRow& row, const OptimizerWork& work);
[[nodiscard]] std::vector<Kernel> adamw_kernels(const Choice& choice, const RegistryRow& row,
                                                const OptimizerWork& work);

[[nodiscard]] std::int64_t sgd_state_bytes(const Choice& choice, const RegistryRow& row, const OptimizerWork& work);
[[nodiscard]] std::vector<Kernel> sgd_kernels(const Choice& choice, const RegistryRow& row, const OptimizerWork& work);

[[nodiscard]] std::int64_t lamb_state_bytes(const Choice& choice, const RegistryRow& row, const OptimizerWork& work);
[[nodiscard]] std::vector<Kernel> lamb_kernels(const Choice& choice, const RegistryRow& row, const OptimizerWork& work);

[[nodiscard]] std::int64_t adafactor_state_bytes(const Choice& choice, const RegistryRow& row,
                                                 const OptimizerWork& work);
[[nodiscard]] std::vector<Kernel> adafactor_kernels(const Choice& choice, const RegistryRow& row,
                                                    const OptimizerWork& work);

[[nodiscard]] std::int64_t adamw_8bit_state_bytes(const Choice& choice, const RegistryRow& row,
                                                  const OptimizerWork& work);
[[nodiscard]] std::vector<Kernel> adamw_8bit_kernels(const Choice& choice, const RegistryRow& row,
                                                     const OptimizerWork& work);

}  // namespace orrery
