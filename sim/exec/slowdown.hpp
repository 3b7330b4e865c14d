// Slow parts of a cluster: what a scenario's `variation.slow` names.
#pragma once

#include "topology/topology.hpp"

namespace orrery {

// `factor` in (0, 1] scales a GPU's compute and memory rates, or a link's bandwidth.
struct GpuSlowdown {
  GpuId gpu;
  double factor = 1;
};
struct LinkSlowdown {
  LinkId link;
  double factor = 1;
};

}  // namespace orrery
