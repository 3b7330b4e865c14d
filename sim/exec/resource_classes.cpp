#include "sim/exec/resource_classes.hpp"

namespace orrery {

ResourceClasses unfolded_resources(const Topology& topology) {
  ResourceClasses classes;
  for (int link = 0; link < topology.links(); ++link) {
    classes.class_of_link.push_back(static_cast<std::uint32_t>(link));
    classes.links.push_back({LinkId(link), 1});
  }
  for (int gpu = 0; gpu < topology.gpus(); ++gpu) {
    classes.class_of_memory.push_back(static_cast<std::uint32_t>(gpu));
    classes.memories.push_back({GpuId(gpu), 1});
  }
  return classes;
}

}  // namespace orrery
