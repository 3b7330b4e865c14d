// What FSDP wraps: sets of parameters that are gathered and reduced together.
//
// A model is a tree: the root has blocks, a block has parts (attention and MLP with their norms), a part has leaves (a
// linear layer or norm with its weight and bias). Wrapping a node makes a unit of all parameters below it that no unit
// has yet; what is left over is the root's. Units are per model chunk, and experts, whose replicas are others, are in
// units of their own.
#pragma once

#include <cstdint>
#include <vector>

#include "workloads/emit/stage.hpp"

namespace orrery {

enum class Wrap : std::uint8_t {
  block,   // each transformer layer
  module,  // each attention and each MLP
  size,    // whatever has `least` elements, the smallest such first (size_based_auto_wrap_policy)
};

struct WrapUnit {
  enum class Level : std::uint8_t { root, block, inner };
  Level level = Level::root;
  std::vector<std::size_t> parameters;  // indices into the stage's list, in forward order
  std::int64_t elements = 0;
  std::int32_t chunk = 0;
  std::size_t stage_unit = 0;  // block: that it is; inner: that it is part of
  bool expert = false;
  std::int64_t trained = 0;  // elements that have gradients
  bool backward = false;     // some operator of a backward pass uses it
};

// In the order in which forward passes come to them: of each chunk the root, then as parameters are used.
[[nodiscard]] std::vector<WrapUnit> wrap_units(const Stage& stage, Wrap wrap, std::int64_t least);

}  // namespace orrery
