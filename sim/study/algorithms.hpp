// Which algorithms a step's collectives follow: what changes when `auto` chooses another one.
#pragma once

#include <map>
#include <string>

#include "sim/exec/execute.hpp"
#include "sim/graph/workload.hpp"
#include "topology/topology.hpp"

namespace orrery {

// By what carries most of the bytes: {"data all_reduce": "ring"}, of every group kind and operation that carries at
// least a hundredth of all collectives' bytes. The choice is that of the run; it is asked for one communicator of each
// kind and role, of which others are like it. O(tasks of all roles + members of those communicators).
[[nodiscard]] std::map<std::string, std::string> main_algorithms(const Topology& topology, const Workload& workload,
                                                                 const Placement& placement,
                                                                 const TrafficOptions& options);

}  // namespace orrery
