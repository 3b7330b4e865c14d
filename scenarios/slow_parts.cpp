#include "scenarios/slow_parts.hpp"

#include <fmt/format.h>

#include "scenarios/field.hpp"

namespace orrery {

namespace {

void check_factor(double factor, const std::string& key, Problems& problems) {
  if (factor > 0 && factor <= 1) return;
  problems.push_back({key, fmt::format("{} is out of range: {}", key, factor), "above 0 and at most 1"});
}

}  // namespace

Result<SlowParts> find_slow_parts(const VariationSpec& variation, const Topology& topology, std::int64_t gpus) {
  SlowParts parts;
  Problems problems;
  for (std::size_t i = 0; i < variation.slow.size(); ++i) {
    const SlowPart& part = variation.slow[i];
    const std::string key = child_key("variation.slow", i);
    if (part.link.empty()) {
      check_factor(part.compute, key + ".compute", problems);
      if (part.gpu >= 0 && part.gpu < gpus) {
        parts.gpus.emplace_back(GpuId(static_cast<std::size_t>(part.gpu)), part.compute);
      } else {
        problems.push_back(
            {key + ".gpu", fmt::format("there is no gpu {}", part.gpu), fmt::format("from 0 to {}", gpus - 1)});
      }
      continue;
    }
    check_factor(part.bandwidth, key + ".bandwidth", problems);
    const std::vector<LinkId> links = topology.find_links(part.link);
    for (const LinkId link : links) parts.links.emplace_back(link, part.bandwidth);
    if (links.empty()) {
      problems.push_back(
          {key + ".link", fmt::format("there is no link {}", in_quotes(part.link)),
           fmt::format("a device, as in node0.nic0, or one link, as in {}", topology.link_name(LinkId(0)))});
    }
  }
  if (!problems.empty()) return problems;
  return parts;
}

}  // namespace orrery
