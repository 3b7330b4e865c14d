#include "sim/exec/resource_classes.hpp"

#include <map>

namespace orrery {

void ResourceClasses::add_pools(const Hardware& hardware) {
  std::map<double, std::uint32_t> pool_of;  // by bandwidth
  for (std::size_t i = 0; i < class_of_link.size(); ++i) {
    const LinkId link(i);
    if (hardware.may_decide(link)) continue;
    const auto next = static_cast<std::uint32_t>(links.size());
    const auto [where, fresh] = pool_of.try_emplace(hardware.link_bandwidth(link).count(), next);
    if (fresh) links.push_back({link, 0, true});
    ++links[where->second].size;
    class_of_link[i] = where->second;
  }
}

ResourceClasses unfolded_resources(const Hardware& hardware) {
  const Topology& topology = hardware.topology();
  ResourceClasses classes;
  classes.class_of_link.assign(static_cast<std::size_t>(topology.links()), ResourceClasses::kNone);
  for (int i = 0; i < topology.links(); ++i) {
    const LinkId link(i);
    classes.class_of_link[link.index()] = static_cast<std::uint32_t>(i);
    classes.links.push_back({link, 1, !hardware.may_decide(link)});
  }
  for (int gpu = 0; gpu < topology.gpus(); ++gpu) {
    classes.class_of_memory.push_back(static_cast<std::uint32_t>(gpu));
    classes.memories.push_back({GpuId(gpu)});
  }
  return classes;
}

}  // namespace orrery
