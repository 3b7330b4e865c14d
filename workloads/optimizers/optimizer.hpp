// Optimizers: what they keep per parameter, and the kernels of their step.
//
// Adding one: a file here with its two functions, and a row in table.cpp.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/operators/shape.hpp"
#include "workloads/plan.hpp"
#include "workloads/registry.hpp"

namespace orrery {

// A tensor as the optimizer is handed it. Strategies that split flat buffers hand it pieces without rows and columns.
struct OptimizerTensor {
  std::int64_t elements = 0;
  std::int64_t columns = 0;   // last dimension; 0: it has no other
  std::int64_t matrices = 1;  // of so many columns each (experts)
  bool table = false;         // of an embedding

  // Of one matrix; a last row that a shard cuts through counts.
  [[nodiscard]] std::int64_t rows() const { return divide_up(elements, matrices * columns); }
};

// What one rank updates.
struct OptimizerWork {
  std::int64_t elements = 0;
  std::int64_t tensors = 0;
  std::int64_t gradient_bytes = 4;        // per element, as the optimizer reads them
  bool fused = true;                      // one pass (apex, torch fused) or one kernel per operation (torch foreach)
  std::vector<OptimizerTensor> shapes{};  // those tensors, where they keep their shapes; empty: flat pieces
};

// The tensors of `work`: as it says, or flat pieces of equal size.
[[nodiscard]] std::vector<OptimizerTensor> tensors_of(const OptimizerWork& work);

struct OptimizerRow {
  RegistryRow row;
  // Bytes of state (moments), master weights aside.
  std::int64_t (*state_bytes)(const Choice& choice, const RegistryRow& row, const OptimizerWork& work) = nullptr;
  // The kernels of one step, in order.
  std::vector<Kernel> (*kernels)(const Choice& choice, const RegistryRow& row, const OptimizerWork& work) = nullptr;
};

[[nodiscard]] const OptimizerRow* find_optimizer(std::string_view name);

// Launches over many tensors at once, as apex's multi_tensor_apply splits them (csrc/multi_tensor_apply.cuh: chunks of
// 65,536 elements, at most 320 of them and, with four tensors per item, 36 items a launch). `bytes` and `flops` are per
// element; the launches are equal but for the last.
[[nodiscard]] std::vector<Kernel> multi_tensor(std::string_view name, const OptimizerWork& work, double bytes,
                                               double flops);

// One pass over so many elements.
[[nodiscard]] Kernel update_kernel(std::string_view name, std::int64_t elements, double bytes, double flops);

}  // namespace orrery
