// What a Topology holds. Internal to this folder.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/base/random.hpp"
#include "topology/fabric.hpp"
#include "topology/node_template.hpp"
#include "topology/topology.hpp"

namespace orrery {

// Nodes of one kind, and where their numbers begin.
struct NodeGroupTable {
  NodeTemplate node;
  int count = 0;
  int node_first = 0;
  int gpu_first = 0;
  int link_first = 0;

  [[nodiscard]] int links_per_node() const { return static_cast<int>(node.links.size()); }
};

struct Topology::Impl {
  ClusterSpec spec;
  std::vector<NodeGroupTable> groups;
  std::unique_ptr<Fabric> fabric;
  int fabric_link_first = 0;
  std::uint64_t hash_key = 0;

  [[nodiscard]] int nodes() const { return groups.back().node_first + groups.back().count; }
  [[nodiscard]] int gpus() const { return groups.back().gpu_first + groups.back().count * groups.back().node.gpus; }
  [[nodiscard]] int links() const { return fabric_link_first + static_cast<int>(fabric->links()); }

  // The group in which a number falls, counted by the given member.
  [[nodiscard]] const NodeGroupTable& group_by(int NodeGroupTable::*first, int value) const {
    const auto after = std::upper_bound(groups.begin(), groups.end(), value,
                                        [first](int v, const NodeGroupTable& group) { return v < group.*first; });
    return *(after - 1);
  }
  [[nodiscard]] const NodeGroupTable& group_of_node(int node) const {
    return group_by(&NodeGroupTable::node_first, node);
  }
  [[nodiscard]] const NodeGroupTable& group_of_gpu(GpuId gpu) const {
    ORRERY_CHECK(gpu.valid() && gpu.value() < gpus(), "a GPU of this cluster", gpu.value());
    return group_by(&NodeGroupTable::gpu_first, gpu.value());
  }

  struct Place {
    const NodeGroupTable* group = nullptr;
    int node = 0;
    int local = 0;
  };
  [[nodiscard]] Place place_of(GpuId gpu) const {
    const NodeGroupTable& group = group_of_gpu(gpu);
    const int offset = gpu.value() - group.gpu_first;
    return {&group, group.node_first + offset / group.node.gpus, offset % group.node.gpus};
  }
  [[nodiscard]] int link_base(const NodeGroupTable& group, int node) const {
    return group.link_first + (node - group.node_first) * group.links_per_node();
  }

  // A link of a node; nothing for links of the fabric.
  [[nodiscard]] std::optional<Place> node_link(LinkId link) const {
    ORRERY_CHECK(link.valid() && link.value() < links(), "a link of this cluster", link.value());
    if (link.value() >= fabric_link_first) return std::nullopt;
    const NodeGroupTable& group = group_by(&NodeGroupTable::link_first, link.value());
    const int offset = link.value() - group.link_first;
    return Place{&group, group.node_first + offset / group.links_per_node(), offset % group.links_per_node()};
  }

  [[nodiscard]] FabricLink fabric_link(LinkId link) const { return fabric->link(link.value() - fabric_link_first); }

  // Name of an end of a node's link; the fabric's end is the switch that the NIC is plugged into.
  [[nodiscard]] std::string end_name(const Place& place, int end, int other_end) const {
    const Device device = place.group->node.devices[static_cast<std::size_t>(end)];
    if (device.kind != DeviceKind::fabric) return orrery::name_of(device);
    const int nic = place.group->node.devices[static_cast<std::size_t>(other_end)].index;
    return fabric->switch_name(fabric->switch_of(place.node, nic));
  }

  [[nodiscard]] std::uint64_t choice(std::int64_t from_port, std::int64_t to_port, std::uint64_t label) const {
    if (spec.fabric.routing == Routing::fixed) return static_cast<std::uint64_t>(to_port);
    if (spec.fabric.routing == Routing::adaptive) return 0;
    std::uint64_t hash = hash_key;
    for (const std::uint64_t part :
         {static_cast<std::uint64_t>(from_port), static_cast<std::uint64_t>(to_port), label}) {
      hash = splitmix64(hash ^ splitmix64(part));
    }
    return hash;
  }

  void append(const Place& place, std::span<const int> path, Route& route) const {
    const int base = link_base(*place.group, place.node);
    for (const int link : path) route.links.emplace_back(base + link);
  }
  void append_reversed(const Place& place, std::span<const int> path, Route& route) const {
    const int base = link_base(*place.group, place.node);
    for (auto link = path.rbegin(); link != path.rend(); ++link) {
      route.links.emplace_back(base + NodeTemplate::reverse(*link));
    }
  }
};

}  // namespace orrery
