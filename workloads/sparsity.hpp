// Training with 2:4 sparse weights: two of every four elements are zero, and sparse tensor cores leave their products
// out.
//
// As PyTorch and torchao do it (torchao/sparsity/training/autograd.py, SemiSparseLinear and semi_structured_sparsify;
// "Accelerating Neural Network Training with Semi-Structured (2:4) Sparsity", PyTorch blog, 2024). Weights are held
// dense. In each forward pass they are pruned anew in tiles of 4 x 4, so that the same zeros are good for the product
// forward and, transposed, for the gradient of the input; both packed copies stay until the backward pass has used
// them. The gradient of the weight is a dense product. A packed copy in 16 bits takes 9/16 of the dense matrix: half of
// the elements, and two bits of place for each of them.
//
// NVIDIA's peak says that a sparse product takes half the time; no library reaches that. The `gain` that is taken is
// 1.6: with two of three products sparse, 3 / (1 + 2 / 1.6) = 1.33 before pruning, where PyTorch measured 1.3 over
// forward and backward of the linear layers of ViT-L's MLP on an A100. It is one figure for all GPUs and shapes, which
// a summary says.
#pragma once

#include "sim/base/problem.hpp"
#include "workloads/operators/shape.hpp"
#include "workloads/plan.hpp"
#include "workloads/registry.hpp"

namespace orrery {

// The choice must be checked.
[[nodiscard]] SparsityShape sparsity_shape(const TrainingSpec& training);
[[nodiscard]] Problems check_sparsity(const TrainingSpec& training);

}  // namespace orrery
