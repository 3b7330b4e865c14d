// Scenarios drawn from a seed: clusters with every kind of irregularity, and plans as users write them.
#pragma once

#include <cstdint>
#include <string>

#include "workloads/registry.hpp"

namespace orrery::test {

// Of up to 64 GPUs, as YAML: fabric and routing, nodes that leaves do not divide evenly, two kinds of nodes, nodes used
// in part, groups that lie unevenly on nodes, model, degrees, schedule and sharding with their options, experts, split
// sequences, recomputation, fidelity, collective algorithm, protocol and channels, slow parts, jitter. The plan may not
// fit the model or the cluster: then loading it says so. Every draw is a statement of its own, so that all compilers
// see the same scenarios.
[[nodiscard]] std::string drawn_scenario(std::uint64_t seed);

// Whether the row is a user's own table of slots, which cannot be drawn.
[[nodiscard]] bool reads_a_file(const RegistryRow& row);

}  // namespace orrery::test
