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

void Machine::carry(std::span<const RawUse> uses, Bytes bytes, std::int64_t multiplicity) {
  for (const RawUse& use : uses) {
    if (use.memory) continue;
    const auto kind = static_cast<std::size_t>(topology().link(LinkId(use.id)).kind);
    carried_[kind] += use.count * bytes.count() * multiplicity;
  }
}

}  // namespace orrery
