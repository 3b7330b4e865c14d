// The checks that a cluster passes before it is built. Internal to this folder.
#pragma once

#include <string>

#include "sim/base/problem.hpp"
#include "topology/cluster.hpp"

namespace orrery {

inline constexpr int kGpusPerNodeMax = 1024;
inline constexpr std::int64_t kGpusMax = std::int64_t{1} << 24;

// Everything that is wrong with the numbers of a spec, as far as it can be told without building it.
[[nodiscard]] Problems check_cluster(const ClusterSpec& spec);

// "cluster.node" for the only group, "cluster.groups[2].node" for one of several; the count's key ends in ".nodes".
[[nodiscard]] std::string node_key(const ClusterSpec& spec, std::size_t group);

}  // namespace orrery
