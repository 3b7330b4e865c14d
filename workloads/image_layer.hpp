// The blocks of image models: what comes first, a residual convolution network's bottleneck, and the way out. The
// layers between the ends of a vision transformer are those of layer.hpp.
#pragma once

#include "workloads/image_model.hpp"
#include "workloads/operators/block.hpp"
#include "workloads/operators/shape.hpp"

namespace orrery {

// Patches and positions, or the stem.
[[nodiscard]] Block image_embedding_block(KernelPool& pool, const OperatorShape& shape);

[[nodiscard]] Block bottleneck_block(KernelPool& pool, const OperatorShape& shape, const Bottleneck& sizes,
                                     Recompute recompute);

// (Norm,) pooling, classes, loss.
[[nodiscard]] Block image_head_block(KernelPool& pool, const OperatorShape& shape);

}  // namespace orrery
