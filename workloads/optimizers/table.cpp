#include <array>

#include "workloads/optimizers/optimizer.hpp"
#include "workloads/optimizers/rows.hpp"
#include "workloads/table.hpp"

namespace orrery {

namespace {

constexpr std::array kSgdOptions{
    OptionDoc{"momentum", "number", "0.9", 0, 1, "momentum; 0 keeps no state"},
};

constexpr std::array kRows{
    OptimizerRow{{"adamw", "Adam with decoupled weight decay", {}}, adamw_state_bytes, adamw_kernels},
    OptimizerRow{{"sgd", "stochastic gradient descent", kSgdOptions}, sgd_state_bytes, sgd_kernels},
    OptimizerRow{{"lamb", "Adam with a trust ratio per tensor", {}}, lamb_state_bytes, lamb_kernels},
};

constexpr auto kPublicRows = public_rows(kRows);

}  // namespace

std::span<const RegistryRow> optimizer_rows() { return kPublicRows; }

const OptimizerRow* find_optimizer(std::string_view name) { return find_in(kRows, name); }

}  // namespace orrery
