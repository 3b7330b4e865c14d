#include "sim/exec/executor/link_use.hpp"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace orrery {

namespace {

constexpr std::size_t kBusiestLinks = 10;

struct UsedLink {
  LinkId link;
  std::int64_t bytes = 0;
  double utilization = 0;
};

}  // namespace

void report_link_use(const Machine& machine, Duration duration, RunResult& result) {
  const Topology& topology = machine.topology();
  const double seconds = to_seconds(duration);
  std::array<std::int64_t, kLinkKinds> bytes{};
  std::array<double, kLinkKinds> utilization{};
  std::array<std::int64_t, kLinkKinds> links{};
  std::vector<UsedLink> used;
  for (int l = 0; l < topology.links(); ++l) {
    const LinkId link(l);
    const auto kind = static_cast<std::size_t>(topology.link(link).kind);
    ++links[kind];
    const Ticks ticks = machine.network().served_ticks(machine.link(link), machine.now());
    if (ticks == 0) continue;
    const auto served = static_cast<std::int64_t>(ticks / kTicksPerUnit);
    const double capacity = machine.link_bandwidth(link).count() * seconds;
    const double share = capacity > 0 ? static_cast<double>(served) / capacity : 0;
    bytes[kind] += served;
    utilization[kind] += share;
    used.push_back({link, served, share});
  }
  for (std::size_t kind = 0; kind < kLinkKinds; ++kind) {
    if (links[kind] == 0) continue;
    const std::string name(name_of(static_cast<LinkKind>(kind)));
    result.bytes_by_link_kind[name] = bytes[kind];
    result.utilization_by_link_kind[name] = utilization[kind] / static_cast<double>(links[kind]);
  }
  const std::size_t shown = std::min(kBusiestLinks, used.size());
  std::partial_sort(used.begin(), used.begin() + static_cast<std::ptrdiff_t>(shown), used.end(),
                    [](const UsedLink& a, const UsedLink& b) {
                      return a.utilization != b.utilization ? a.utilization > b.utilization : a.link < b.link;
                    });
  for (std::size_t i = 0; i < shown; ++i) {
    result.busiest_links.push_back({topology.link_name(used[i].link),
                                    std::string(name_of(topology.link(used[i].link).kind)), used[i].bytes,
                                    used[i].utilization});
  }
}

}  // namespace orrery
