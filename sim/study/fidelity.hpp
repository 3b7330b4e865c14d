// Which fidelity a scenario that says `fidelity: auto` gets.
#pragma once

#include "scenarios/scenario.hpp"
#include "sim/exec/traffic.hpp"
#include "sim/graph/workload.hpp"

namespace orrery {

// Messages of a step when every collective runs as a ring on one channel: per member 2 (n - 1) for an all-reduce, n - 1
// for an all-gather, reduce-scatter or all-to-all, one for a broadcast, reduce or transfer. A guess of the work that
// `message` fidelity means, not of the traffic. O(tasks of all roles + ranks).
[[nodiscard]] double estimated_messages(const Workload& workload);

// Up to this many estimated messages, `auto` plays every message out; above it, collectives are coupled. A release
// build plays out about a million messages a second of processor time (rings of 10 to 100 GPUs over Ethernet; half of
// that for a 100-billion-parameter model on 100 GPUs), so a step then takes a second or two.
inline constexpr double kMessagesAffordable = 1'000'000;

[[nodiscard]] TrafficFidelity resolve(Fidelity wanted, const Workload& workload);

}  // namespace orrery
