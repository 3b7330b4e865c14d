#include "sim/exec/executor/link_use.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace orrery {

namespace {

constexpr std::size_t kBusiestLinks = 10;

struct UsedClass {
  std::uint32_t number = 0;
  std::int64_t bytes = 0;  // over each of its links
  double utilization = 0;
};

// Shares are added up as integers, so that the sum over links does not depend on how they are grouped.
constexpr double kShareSteps = 1e12;

// The links of the given classes, in order, up to the number shown of each.
std::vector<std::vector<LinkId>> links_of(const ResourceClasses& classes, std::span<const UsedClass> wanted) {
  std::vector<std::vector<LinkId>> found(wanted.size());
  std::vector<std::size_t> place(classes.links.size(), wanted.size());
  for (std::size_t i = 0; i < wanted.size(); ++i) place[wanted[i].number] = i;
  for (std::size_t link = 0; link < classes.class_of_link.size(); ++link) {
    const std::uint32_t number = classes.class_of_link[link];
    if (number == ResourceClasses::kNone || place[number] == wanted.size()) continue;
    std::vector<LinkId>& list = found[place[number]];
    if (list.size() < kBusiestLinks) list.emplace_back(link);
  }
  return found;
}

void report_busiest(const Topology& topology, const ResourceClasses& classes, std::vector<UsedClass>& used,
                    RunResult& result) {
  std::stable_sort(used.begin(), used.end(),
                   [](const UsedClass& a, const UsedClass& b) { return a.utilization > b.utilization; });
  // Classes as busy as the last one that is shown may have a link with a lower number.
  std::size_t shown = std::min(kBusiestLinks, used.size());
  while (shown > 0 && shown < used.size() && used[shown].utilization == used[shown - 1].utilization) ++shown;
  const std::vector<std::vector<LinkId>> links = links_of(classes, std::span(used).first(shown));
  struct Busy {
    LinkId link;
    const UsedClass* of = nullptr;
  };
  std::vector<Busy> busiest;
  for (std::size_t i = 0; i < shown; ++i) {
    for (const LinkId link : links[i]) busiest.push_back({link, &used[i]});
  }
  std::sort(busiest.begin(), busiest.end(), [](const Busy& a, const Busy& b) {
    return a.of->utilization != b.of->utilization ? a.of->utilization > b.of->utilization : a.link < b.link;
  });
  busiest.resize(std::min(kBusiestLinks, busiest.size()));
  for (const Busy& busy : busiest) {
    result.busiest_links.push_back({topology.link_name(busy.link), std::string(name_of(topology.link(busy.link).kind)),
                                    busy.of->bytes, busy.of->utilization});
  }
}

}  // namespace

void report_link_use(const Machine& machine, Duration duration, RunResult& result) {
  const Topology& topology = machine.topology();
  const ResourceClasses& classes = machine.classes();
  const double seconds = to_seconds(duration);
  std::array<std::int64_t, kLinkKinds> bytes = machine.carried_elsewhere();
  std::array<std::int64_t, kLinkKinds> share_steps{};
  const auto add_share = [&](std::size_t kind, std::int64_t served, double bandwidth, std::int64_t links) {
    const double share = bandwidth * seconds > 0 ? static_cast<double>(served) / (bandwidth * seconds) : 0;
    share_steps[kind] += std::llround(share * kShareSteps) * links;
    return share;
  };
  const std::array<std::int64_t, kLinkKinds> links = topology.links_by_kind();
  std::vector<UsedClass> used;
  std::map<std::pair<std::size_t, double>, std::int64_t> pooled;  // bytes by kind and bandwidth
  for (std::uint32_t number = 0; number < classes.links.size(); ++number) {
    const ResourceClasses::LinkClass& each = classes.links[number];
    const auto kind = static_cast<std::size_t>(topology.link(each.representative).kind);
    const Ticks ticks = machine.network().served_ticks(Machine::link_class(number), machine.now());
    bytes[kind] += machine.carried(Machine::link_class(number));
    if (ticks == 0) continue;
    const auto served = static_cast<std::int64_t>(ticks / kTicksPerUnit);
    const double bandwidth = machine.hardware().link_bandwidth(each.representative).count();
    if (each.pool) {  // its links are never busier than the ports behind them
      bytes[kind] += served;
      pooled[{kind, bandwidth}] += served;
    } else {
      bytes[kind] += served * each.size;
      used.push_back({number, served, add_share(kind, served, bandwidth, each.size)});
    }
  }
  for (const auto& [where, served] : pooled) add_share(where.first, served, where.second, 1);
  for (std::size_t kind = 0; kind < kLinkKinds; ++kind) {
    if (links[kind] == 0) continue;
    const std::string name(name_of(static_cast<LinkKind>(kind)));
    result.bytes_by_link_kind[name] = bytes[kind];
    result.utilization_by_link_kind[name] =
        static_cast<double>(share_steps[kind]) / kShareSteps / static_cast<double>(links[kind]);
  }
  report_busiest(topology, classes, used, result);
}

}  // namespace orrery
