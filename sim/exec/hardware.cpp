#include "sim/exec/hardware.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace orrery {

namespace {

// Sorted by part, with the product of the factors of each.
template <class Slowdown, class Part>
std::vector<Slowdown> merged(std::span<const Slowdown> slow, Part Slowdown::*part) {
  std::vector<Slowdown> sorted(slow.begin(), slow.end());
  std::stable_sort(sorted.begin(), sorted.end(),
                   [part](const Slowdown& a, const Slowdown& b) { return a.*part < b.*part; });
  std::vector<Slowdown> merged;
  for (const Slowdown& each : sorted) {
    ORRERY_CHECK(each.factor > 0 && each.factor <= 1, "a slowdown is in (0, 1]", each.factor);
    if (!merged.empty() && merged.back().*part == each.*part) {
      merged.back().factor *= each.factor;
    } else {
      merged.push_back(each);
    }
  }
  return merged;
}

template <class Slowdown, class Part>
double factor_of(const std::vector<Slowdown>& slow, Part Slowdown::*part, Part wanted) {
  const auto found = std::lower_bound(slow.begin(), slow.end(), wanted,
                                      [part](const Slowdown& each, Part value) { return each.*part < value; });
  return found != slow.end() && (*found).*part == wanted ? found->factor : 1;
}

}  // namespace

Hardware::Hardware(const Topology& topology, std::span<const GpuSlowdown> slow_gpus,
                   std::span<const LinkSlowdown> slow_links)
    : topology_(&topology),
      slow_gpus_(merged(slow_gpus, &GpuSlowdown::gpu)),
      slow_links_(merged(slow_links, &LinkSlowdown::link)) {}

BytesPerSecond Hardware::link_bandwidth(LinkId link) const {
  return BytesPerSecond(topology_->link(link).bandwidth.count() * factor_of(slow_links_, &LinkSlowdown::link, link));
}

bool Hardware::may_decide(LinkId link) const { return topology_->ports_behind(link) > link_bandwidth(link); }

BytesPerSecond Hardware::memory_bandwidth(GpuId gpu) const {
  return BytesPerSecond(topology_->gpu_spec(gpu).usable_memory_bandwidth().count() * gpu_factor(gpu));
}

double Hardware::gpu_factor(GpuId gpu) const { return factor_of(slow_gpus_, &GpuSlowdown::gpu, gpu); }

}  // namespace orrery
