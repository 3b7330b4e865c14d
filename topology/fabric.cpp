#include "topology/fabric.hpp"

#include <algorithm>

#include "sim/base/check.hpp"
#include "topology/registry.hpp"

namespace orrery {

int FabricInput::nodes() const {
  int total = 0;
  for (const FabricPorts& group : groups) total += group.nodes;
  return total;
}

int FabricInput::nics_max() const {
  int most = 0;
  for (const FabricPorts& group : groups) most = std::max(most, group.nics);
  return most;
}

BytesPerSecond FabricInput::port_max() const {
  BytesPerSecond most{};
  for (const FabricPorts& group : groups) {
    if (group.nics > 0) most = std::max(most, group.nominal);
  }
  return most;
}

BytesPerSecond FabricInput::node_max() const {
  BytesPerSecond most{};
  for (const FabricPorts& group : groups) most = std::max(most, group.nominal * group.nics);
  return most;
}

const FabricInfo& fabric_info(FabricKind kind) {
  const auto* row =
      std::find_if(kFabrics.begin(), kFabrics.end(), [kind](const FabricInfo& info) { return info.kind == kind; });
  ORRERY_CHECK(row != kFabrics.end(), "every kind of fabric has a row", static_cast<int>(kind));
  return *row;
}

}  // namespace orrery
