#include <array>

#include "workloads/optimizers/optimizer.hpp"
#include "workloads/optimizers/rows.hpp"
#include "workloads/table.hpp"

namespace orrery {

namespace {

constexpr std::array kSgdOptions{
    OptionDoc{"momentum", "number", "0.9", 0, 1, "momentum; 0 keeps no state"},
};

constexpr std::array kAdafactorOptions{
    OptionDoc{"first_moment", "boolean", "false", 0, 0, "keep a first moment in fp32 (beta1), of each parameter"},
};

constexpr std::array k8BitOptions{
    OptionDoc{"block", "integer", "256", 64, 4096, "elements that share a scale (2048 in the paper)"},
    OptionDoc{"smallest", "integer", "4096", 0, 1e12, "tensors of fewer elements keep their state in fp32"},
    OptionDoc{"tables_in_fp32", "boolean", "true", 0, 0, "embeddings keep their state in fp32, as Transformers has it"},
};

constexpr std::array kRows{
    OptimizerRow{{"adamw", "Adam with decoupled weight decay", {}}, adamw_state_bytes, adamw_kernels},
    OptimizerRow{{"sgd", "stochastic gradient descent", kSgdOptions}, sgd_state_bytes, sgd_kernels},
    OptimizerRow{{"lamb", "Adam with a trust ratio per tensor", {}}, lamb_state_bytes, lamb_kernels},
    OptimizerRow{{"adafactor", "second moments as rows and columns, for tensors that keep them", kAdafactorOptions},
                 adafactor_state_bytes,
                 adafactor_kernels},
    OptimizerRow{{"adamw-8bit", "AdamW with moments in 8 bits, scaled by block (bitsandbytes)", k8BitOptions},
                 adamw_8bit_state_bytes,
                 adamw_8bit_kernels},
};

constexpr auto kPublicRows = public_rows(kRows);

}  // namespace

std::span<const RegistryRow> optimizer_rows() { return kPublicRows; }

const OptimizerRow* find_optimizer(std::string_view name) { return find_in(kRows, name); }

}  // namespace orrery
