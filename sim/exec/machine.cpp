#include "sim/exec/machine.hpp"

#include "sim/base/check.hpp"

namespace orrery {

namespace {

void check_factor(double factor) { ORRERY_CHECK(factor > 0 && factor <= 1, "a slowdown is in (0, 1]", factor); }

}  // namespace

Machine::Machine(const Topology& topology, std::span<const GpuSlowdown> slow_gpus,
                 std::span<const LinkSlowdown> slow_links)
    : topology_(topology),
      slow_gpus_(slow_gpus.begin(), slow_gpus.end()),
      slow_links_(slow_links.begin(), slow_links.end()) {
  for (const GpuSlowdown& slow : slow_gpus_) check_factor(slow.factor);
  for (const LinkSlowdown& slow : slow_links_) check_factor(slow.factor);
  for (int link = 0; link < topology.links(); ++link) network_.add_resource(link_bandwidth(LinkId(link)));
  for (int gpu = 0; gpu < topology.gpus(); ++gpu) {
    network_.add_resource(memory_bandwidth(GpuId(gpu)));
  }
}

BytesPerSecond Machine::link_bandwidth(LinkId link) const {
  double bandwidth = topology_.link(link).bandwidth.count();
  for (const LinkSlowdown& slow : slow_links_) {
    if (slow.link == link) bandwidth *= slow.factor;
  }
  return BytesPerSecond(bandwidth);
}

double Machine::gpu_factor(GpuId gpu) const {
  double factor = 1;
  for (const GpuSlowdown& slow : slow_gpus_) {
    if (slow.gpu == gpu) factor *= slow.factor;
  }
  return factor;
}

}  // namespace orrery
