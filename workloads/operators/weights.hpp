// What every operator with a matrix does for it, whatever the product: matrix products and convolutions alike.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "workloads/operators/block.hpp"
#include "workloads/operators/shape.hpp"

namespace orrery {

// `product` makes the gradient of the weight `name`, [m, n], in the compute format; after it comes, unless gradients
// are fresh, its addition to what earlier micro-batches left: inside the product where the framework fuses it
// (gradient_accumulation_fusion), otherwise as autograd's AccumulateGrad, after a cast where the product's format is
// not the gradient's. All of it in the weight half.
void add_weight_gradient(Fragment& f, const OperatorShape& shape, const std::string& name, Kernel product,
                         std::vector<ParameterIndex> gradients);

// torch.autocast casts a weight of [rows, columns] on its first use in each forward pass and keeps the copy for the
// backward pass.
void add_weight_cast(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t rows,
                     std::int64_t columns);

// The gradient of a bias: its sum over `rows`. `trained`: it is asked for.
void add_bias_gradient(Fragment& f, const OperatorShape& shape, const std::string& name, std::int64_t rows,
                       std::int64_t out, ParameterIndex parameter, bool trained = true);

}  // namespace orrery
