#include "sim/exec/copy_route.hpp"

#include "sim/base/check.hpp"

namespace orrery {

namespace {

// Without memory at the other end it leads nowhere.
Route to_memory(Route route, const Route& memory) {
  if (memory.links.empty() || route.links.empty()) return {};
  route.links.insert(route.links.end(), memory.links.begin(), memory.links.end());
  return route;
}

}  // namespace

Route copy_route(const Topology& topology, GpuId gpu, CopyDirection direction, bool offload) {
  const Route memory = topology.host_memory(gpu);
  switch (direction) {
    case CopyDirection::host_to_device:
      return offload ? to_memory(topology.host_to_device(gpu), memory) : topology.host_to_device(gpu);
    case CopyDirection::device_to_host:
      return offload ? to_memory(topology.device_to_host(gpu), memory) : topology.device_to_host(gpu);
    case CopyDirection::in_host_memory:
      return memory;
    case CopyDirection::drive_to_host:
      return to_memory(topology.drive_read(gpu), memory);
    case CopyDirection::host_to_drive:
      return to_memory(topology.drive_write(gpu), memory);
  }
  ORRERY_CHECK(false, "a direction of copies", static_cast<int>(direction));
  return {};
}

}  // namespace orrery
