// Inputs for tests of folding: drawn ones, and rings of transfers in which the sizes of communicators tell.
#pragma once

#include <cstdint>
#include <optional>

#include "tests/fuzz/small_case.hpp"

namespace orrery::test {

// Any program on any cluster.
std::optional<fuzz::SmallCase> random_case(std::uint64_t seed);

// Nodes that are alike but for one thing, and ranks that all do the same on them: what tells them apart is that one
// thing, which few entries see.
std::optional<fuzz::SmallCase> twins(std::uint64_t seed);

// Nodes that are alike altogether, and cables that cost no time.
std::optional<fuzz::SmallCase> cables(std::uint64_t seed);

// Rings of five and of three GPUs: NCCL gives a transfer in the larger communicator fewer blocks.
std::optional<fuzz::SmallCase> unequal_rings(std::uint64_t seed);

// Two pairs of nodes, one with NICs that would be twice as fast if they were not slow: blocks go by what should be.
std::optional<fuzz::SmallCase> unequal_plans(std::uint64_t seed);

}  // namespace orrery::test
