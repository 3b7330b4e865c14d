#include "sim/exec/copy_route.hpp"

#include "sim/base/check.hpp"

namespace orrery {

namespace {

// Drives without memory at the other end lead nowhere.
Route to_memory(Route route, const Route& memory, bool needed) {
  if (needed && memory.links.empty()) return {};
  if (route.links.empty()) return route;
  route.links.insert(route.links.end(), memory.links.begin(), memory.links.end());
  return route;
}

}  // namespace

Route copy_route(const Topology& topology, GpuId gpu, CopyDirection direction) {
  const Route memory = topology.host_memory(gpu);
  switch (direction) {
    case CopyDirection::host_to_device:
      return to_memory(topology.host_to_device(gpu), memory, false);
    case CopyDirection::device_to_host:
      return to_memory(topology.device_to_host(gpu), memory, false);
    case CopyDirection::in_host_memory:
      return memory;
    case CopyDirection::drive_to_host:
      return to_memory(topology.drive_read(gpu), memory, true);
    case CopyDirection::host_to_drive:
      return to_memory(topology.drive_write(gpu), memory, true);
  }
  ORRERY_CHECK(false, "a direction of copies", static_cast<int>(direction));
  return {};
}

}  // namespace orrery
