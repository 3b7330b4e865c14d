// Which fidelity a scenario that says `fidelity: auto` gets.
#pragma once

#include <limits>

#include "scenarios/scenario.hpp"
#include "sim/exec/execute.hpp"
#include "sim/exec/traffic.hpp"
#include "sim/graph/workload.hpp"
#include "topology/topology.hpp"

namespace orrery {

// Messages of a step as the run will count them: collectives by the plans that they will follow (algorithm, channels,
// chunks), transfers one each. Counting stops once there are more than `most`: what is returned is then no more than a
// lower bound above `most`. O(tasks of all roles + ranks), and layouts and plans of all communicators as long as `most`
// is not passed; where the ends of the operations alone pass it, none of them.
[[nodiscard]] double count_messages(const Topology& topology, const Workload& workload, const Placement& placement,
                                    const TrafficOptions& options,
                                    double most = std::numeric_limits<double>::infinity());

// Up to this many messages, `auto` plays every one out; above it, collectives are coupled. A release build plays out
// about a million messages a second of processor time (rings of 10 to 100 GPUs over Ethernet; half of that for a
// 100-billion-parameter model on 100 GPUs), so a step then takes a second or two.
inline constexpr double kMessagesAffordable = 1'000'000;

// `options` say all but the fidelity.
[[nodiscard]] TrafficFidelity resolve(Fidelity wanted, const Topology& topology, const Workload& workload,
                                      const Placement& placement, const TrafficOptions& options);

}  // namespace orrery
