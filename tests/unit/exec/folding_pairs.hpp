// Two communicators that differ in one thing only, so that one entry of what folding looks at tells them apart: inputs
// that no drawing finds, as times must agree that follow from different sums.
//
// Most rest on a world in which sums are easy: every link and NIC gives 50 GB/s (20 ps a byte), latencies are on few
// links, and the `ideal` protocol adds none of its own. `seed` has no meaning; the signature is that of drawn cases.
#pragma once

#include <cstdint>
#include <optional>

#include "tests/fuzz/small_case.hpp"

namespace orrery::test {

// Six GPUs as two nodes of three, and as three nodes of two; reduced in rings inside nodes, by rail, inside nodes.
std::optional<fuzz::SmallCase> two_by_three_coupled(std::uint64_t seed);
std::optional<fuzz::SmallCase> two_by_three_messages(std::uint64_t seed);
std::optional<fuzz::SmallCase> two_by_three_unnoticed(std::uint64_t seed);

// A GPU of Ampere's time and one of Hopper's, in either order: NCCL's caps go by the first.
std::optional<fuzz::SmallCase> either_first_coupled(std::uint64_t seed);
std::optional<fuzz::SmallCase> either_first_messages(std::uint64_t seed);

// Four nodes on two leaves, halving and doubling first across the leaves or first inside them.
std::optional<fuzz::SmallCase> near_and_far_partners(std::uint64_t seed);

// Two GPUs by an NVSwitch, and two by PCIe or by two direct NVLinks, as far from each other.
std::optional<fuzz::SmallCase> nvlink_and_pcie(std::uint64_t seed);
std::optional<fuzz::SmallCase> one_ring_and_two(std::uint64_t seed);

// An all-to-all that gives one member more than the others.
std::optional<fuzz::SmallCase> uneven_exchange(std::uint64_t seed);

// Drawn: one call of any kind on communicators of 4, 6 or 8 GPUs alike, laid out on nodes in all even ways.
std::optional<fuzz::SmallCase> layouts(std::uint64_t seed);

}  // namespace orrery::test
