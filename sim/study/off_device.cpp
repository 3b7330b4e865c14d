#include "sim/study/off_device.hpp"

#include <map>

namespace orrery {

namespace {

std::optional<std::int64_t> known(Bytes bytes) { return bytes > Bytes() ? std::optional(bytes.count()) : std::nullopt; }

// What is left; unknown stores have as much as is needed.
std::int64_t room(const OffDeviceUse::Store& store) {
  return store.present_bytes.value_or(store.needed_bytes) - store.needed_bytes;
}

}  // namespace

std::optional<OffDeviceUse> off_device_use(const Topology& topology, const Workload& workload,
                                           const Placement& placement) {
  std::map<NodeId, OffDevice> kept;
  for (std::size_t rank = 0; rank < workload.ranks(); ++rank) {
    const OffDevice& more = workload.programs[workload.role_of[rank].index()].off_device();
    if (more == OffDevice{}) continue;
    OffDevice& sum = kept[topology.node_of(placement.gpu_of[rank])];
    sum.host_memory += more.host_memory;
    sum.drives += more.drives;
  }
  std::optional<OffDeviceUse> worst;
  for (const auto& [node, sum] : kept) {
    const NodeSpec& spec = topology.node_spec(node);
    const OffDeviceUse use{.node = node.value(),
                           .host_memory = {sum.host_memory.count(), known(spec.host_memory)},
                           .drives = {sum.drives.count(), known(Bytes(spec.drive_capacity.count() * spec.drives))}};
    const bool worse = !worst || (worst->fits() && !use.fits()) ||
                       (worst->fits() == use.fits() && room(use.host_memory) < room(worst->host_memory));
    if (worse) worst = use;
  }
  return worst;
}

}  // namespace orrery
