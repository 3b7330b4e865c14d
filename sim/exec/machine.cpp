#include "sim/exec/machine.hpp"

#include <utility>

namespace orrery {

Machine::Machine(Hardware hardware, ResourceClasses classes)
    : hardware_(std::move(hardware)), classes_(std::move(classes)) {
  for (const ResourceClasses::LinkClass& each : classes_.links) {
    network_.add_resource(hardware_.link_bandwidth(each.representative));
  }
  for (const ResourceClasses::MemoryClass& each : classes_.memories) {
    network_.add_resource(hardware_.memory_bandwidth(each.representative));
  }
}

Machine::Machine(const Topology& topology, std::span<const GpuSlowdown> slow_gpus,
                 std::span<const LinkSlowdown> slow_links)
    : Machine(Hardware(topology, slow_gpus, slow_links), unfolded_resources(topology)) {}

}  // namespace orrery
