#include "sim/exec/machine.hpp"

#include <utility>

namespace orrery {

Machine::Machine(Hardware hardware, ResourceClasses classes)
    : hardware_(std::move(hardware)), classes_(std::move(classes)) {
  for (const ResourceClasses::LinkClass& each : classes_.links) {
    const ResourceId resource = network_.add_resource(hardware_.link_bandwidth(each.representative));
    if (each.pool) network_.leave_out(resource);
  }
  for (const ResourceClasses::MemoryClass& each : classes_.memories) {
    network_.add_resource(hardware_.memory_bandwidth(each.representative));
  }
  carried_.assign(network_.resource_count(), 0);
}

Machine::Machine(const Topology& topology, std::span<const GpuSlowdown> slow_gpus,
                 std::span<const LinkSlowdown> slow_links)
    : Machine(Hardware(topology, slow_gpus, slow_links)) {}

Machine::Machine(const Hardware& hardware) : Machine(hardware, unfolded_resources(hardware)) {}

void Machine::carry(std::span<const RawUse> uses, Bytes bytes, std::int64_t multiplicity) {
  for (const RawUse& use : uses) {
    const std::int64_t total = use.count * bytes.count() * multiplicity;
    if (use.memory) {
      carried_[memory(GpuId(use.id)).index()] += total;
    } else if (const LinkId over(use.id); classes_.class_of_link[over.index()] != ResourceClasses::kNone) {
      carried_[link(over).index()] += total;
    } else {
      carried_elsewhere_[static_cast<std::size_t>(topology().link(over).kind)] += total;
    }
  }
}

}  // namespace orrery
