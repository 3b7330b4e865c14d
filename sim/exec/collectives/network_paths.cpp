#include "sim/exec/collectives/network_paths.hpp"

#include <algorithm>
#include <set>

#include "sim/base/check.hpp"

namespace orrery {

namespace {

// [nodes] The first member of each in the order of the channel's ring.
std::vector<std::int32_t> heads_of(const CommunicatorLayout& layout, std::size_t channel) {
  std::vector<std::int32_t> heads(static_cast<std::size_t>(layout.nodes), -1);
  for (const std::int32_t member : layout.orders[channel]) {
    std::int32_t& head = heads[static_cast<std::size_t>(layout.node_of[static_cast<std::size_t>(member)])];
    if (head < 0) head = member;
  }
  return heads;
}

// A route between nodes in its parts.
struct Parts {
  std::vector<LinkId> to_leaf;    // up to the NIC's port
  std::vector<LinkId> up;         // between switches
  std::vector<LinkId> up_of_end;  // the other end's way up, as it would be travelled upwards
};

Parts parts_of(const Topology& topology, const Route& route) {
  Parts parts;
  std::vector<LinkId> between;
  for (const LinkId link : route.links) {
    const bool fabric = topology.link(link).kind == LinkKind::fabric;
    if (fabric) {
      between.push_back(link);
    } else if (parts.to_leaf.empty() || topology.link(parts.to_leaf.back()).kind != LinkKind::nic) {
      parts.to_leaf.push_back(link);
    }
  }
  ORRERY_CHECK(between.size() % 2 == 0, "a route goes up as far as it comes down", between.size());
  const auto half = static_cast<std::ptrdiff_t>(between.size() / 2);
  parts.up.assign(between.begin(), between.begin() + half);
  for (auto link = between.rbegin(); link != between.rbegin() + half; ++link) {
    parts.up_of_end.push_back(Topology::reverse(*link));
  }
  return parts;
}

}  // namespace

std::vector<EdgePath> paths_into_network(const Topology& topology, std::span<const GpuId> members,
                                         const CommunicatorLayout& layout, std::size_t channel) {
  const std::vector<std::int32_t> heads = heads_of(layout, channel);
  const std::vector<std::int32_t>& nics = layout.nics[channel];
  const auto gpu = [&](std::size_t node) { return members[static_cast<std::size_t>(heads[node])]; };
  const auto route = [&](std::size_t from, std::size_t to) {
    RouteOptions options;
    options.from_nic = nics[from];
    options.to_nic = nics[to];
    options.flow_label = channel;
    return parts_of(topology, topology.route(gpu(from), gpu(to), options));
  };
  std::vector<Parts> parts{route(0, 1)};
  parts[0].up.clear();
  for (std::size_t node = 1; node < heads.size(); ++node) {
    parts.push_back(route(node, 0));
    if (parts.back().up_of_end.size() > parts[0].up.size()) parts[0].up = parts.back().up_of_end;
  }
  std::set<int> leaves;
  std::set<LinkId> taken;
  std::vector<EdgePath> paths;
  for (std::size_t node = 0; node < heads.size(); ++node) {
    EdgePath path{parts[node].to_leaf, Duration::zero(), Hop::network};
    if (leaves.insert(topology.leaf_of(topology.node_of(gpu(node)), nics[node])).second) {
      for (const LinkId link : parts[node].up) {
        if (taken.insert(link).second) path.links.push_back(link);
      }
    }
    for (const LinkId link : path.links) path.latency += topology.link(link).latency;
    paths.push_back(std::move(path));
  }
  return paths;
}

std::vector<std::vector<std::int32_t>> nics_of_members(const CommunicatorLayout& layout) {
  std::vector<std::vector<std::int32_t>> nics(layout.node_of.size());
  for (std::size_t ring = 0; ring < layout.orders.size(); ++ring) {
    std::vector<bool> seen(static_cast<std::size_t>(layout.nodes), false);
    for (const std::int32_t member : layout.orders[ring]) {
      const auto node = static_cast<std::size_t>(layout.node_of[static_cast<std::size_t>(member)]);
      if (seen[node]) continue;
      seen[node] = true;
      std::vector<std::int32_t>& own = nics[static_cast<std::size_t>(member)];
      const std::int32_t nic = layout.nics[ring][node];
      if (std::find(own.begin(), own.end(), nic) == own.end()) own.push_back(nic);
    }
  }
  return nics;
}

}  // namespace orrery
