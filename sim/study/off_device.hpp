// What nodes keep outside of their GPUs, against what they have.
#pragma once

#include <optional>

#include "sim/exec/execute.hpp"
#include "sim/results/summary.hpp"
#include "topology/topology.hpp"

namespace orrery {

// Nothing where no program keeps anything there. O(ranks).
[[nodiscard]] std::optional<OffDeviceUse> off_device_use(const Topology& topology, const Workload& workload,
                                                         const Placement& placement);

}  // namespace orrery
