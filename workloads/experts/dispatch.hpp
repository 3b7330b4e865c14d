// How rows travel between the ranks that own tokens and the ranks that hold experts.
#pragma once

#include <cstdint>
#include <string_view>

#include "workloads/operators/block.hpp"
#include "workloads/operators/shape.hpp"
#include "workloads/registry.hpp"

namespace orrery {

// One journey of a micro-batch's rows in one layer. Forward, rows go to experts (dispatch) and come back (combine);
// backward, gradients of the output go to experts, and those of the input come back.
struct Journey {
  bool to_experts = true;
  bool backward = false;
  std::int32_t handle = 0;
  bool asynchronous = false;
};

struct DispatchRow {
  RegistryRow row;
  void (*travel)(Fragment& fragment, const OperatorShape& shape, const Journey& journey) = nullptr;
  bool sorts_first = false;  // a rank's rows are put in the order of experts before they leave
  bool even_only = false;    // knows no uneven routing
  bool by_node = false;      // works on the ranks of a node, and on those of one place in all nodes
};

[[nodiscard]] const DispatchRow* find_dispatch(std::string_view name);

}  // namespace orrery
