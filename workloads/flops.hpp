// What a training step must compute, whoever computes it.
#pragma once

#include <cstdint>

#include "sim/base/units.hpp"
#include "workloads/model.hpp"

namespace orrery {

// Matrix products and attention of one sequence, forward: 2 operations per parameter of a matrix and token that goes
// through it (of routed experts: top_k, whatever is dropped), and
// 4 x sequence x width of the heads per token and layer for attention, on the whole square as MFU is defined by
// Chowdhery et al. 2022 (PaLM, appendix B) and as in Narayanan et al. 2021 (equation 3), causal mask or not. Of one
// image, whose tokens are its own: twice the multiply-adds that publications give.
[[nodiscard]] Flops forward_flops(const ModelSpec& model, std::int64_t sequence);

// Forward and backward: three times that where everything is trained. What is frozen has no products for its weights'
// gradients, and below the lowest trained operator there is no backward pass; adapters count like any matrix.
[[nodiscard]] Flops model_flops(const ModelSpec& model, std::int64_t sequence, std::int64_t sequences,
                                const TrainableSpec& trainable = {});

}  // namespace orrery
