// The parts that `variation.slow` names, found on a cluster.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "scenarios/scenario.hpp"
#include "sim/base/problem.hpp"
#include "topology/topology.hpp"

namespace orrery {

// Every entry is a part that is there, with its factor: a GPU, or each link of a device. A part that several entries
// name stands here several times; its factors multiply.
struct SlowParts {
  std::vector<std::pair<GpuId, double>> gpus;
  std::vector<std::pair<LinkId, double>> links;
};

// `gpus`: as many run ranks, the first of the cluster. Problems, with the keys of the scenario: a GPU that runs none, a
// link or device that the cluster does not have, a factor outside (0, 1].
[[nodiscard]] Result<SlowParts> find_slow_parts(const VariationSpec& variation, const Topology& topology,
                                                std::int64_t gpus);

}  // namespace orrery
