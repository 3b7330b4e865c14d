// Names of links, and links by name: "node3.gpu2->nvswitch", "node3.nic0->leaf1", "leaf1->spine".
#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <utility>

#include "topology/topology_impl.hpp"

namespace orrery {

namespace {

// "node12.gpu3" -> 12, with "gpu3" left in `name`; nothing if the name does not begin so.
std::optional<int> take_node(std::string_view& name) {
  constexpr std::string_view kPrefix = "node";
  if (name.substr(0, kPrefix.size()) != kPrefix) return std::nullopt;
  int node = -1;
  const char* begin = name.data() + kPrefix.size();
  const char* end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(begin, end, node);
  if (error != std::errc{} || stop == end || *stop != '.' || node < 0) return std::nullopt;
  name.remove_prefix(static_cast<std::size_t>(stop - name.data()) + 1);
  return node;
}

}  // namespace

std::string Topology::link_name(LinkId link) const {
  if (const auto place = impl_->node_link(link)) {
    const NodeTemplate& node = place->group->node;
    const NodeLink& ends = node.links[static_cast<std::size_t>(place->local)];
    const std::string from = impl_->end_name(*place, ends.from, ends.to);
    const std::string to = impl_->end_name(*place, ends.to, ends.from);
    const bool from_fabric = node.devices[static_cast<std::size_t>(ends.from)].kind == DeviceKind::fabric;
    return from_fabric ? fmt::format("{}->node{}.{}", from, place->node, to)
                       : fmt::format("node{}.{}->{}", place->node, from, to);
  }
  const FabricLink found = impl_->fabric_link(link);
  return fmt::format("{}->{}", impl_->fabric->switch_name(found.from), impl_->fabric->switch_name(found.to));
}

LinkId Topology::find_link(std::string_view name) const {
  const std::size_t arrow = name.find("->");
  if (arrow == std::string_view::npos) return {};
  std::string_view from = name.substr(0, arrow);
  std::string_view to = name.substr(arrow + 2);
  std::optional<int> node = take_node(from);
  if (!node) node = take_node(to);
  if (node) {
    if (*node >= nodes()) return {};
    const NodeGroupTable& group = impl_->group_of_node(*node);
    const int base = impl_->link_base(group, *node);
    for (int local = 0; local < group.links_per_node(); ++local) {
      if (link_name(LinkId(base + local)) == name) return LinkId(base + local);
    }
    return {};
  }
  int from_switch = -1;
  int to_switch = -1;
  for (int i = 0; i < impl_->fabric->switches(); ++i) {
    const std::string found = impl_->fabric->switch_name(i);
    if (found == from) from_switch = i;
    if (found == to) to_switch = i;
  }
  if (from_switch < 0 || to_switch < 0) return {};
  for (int i = 0; i < static_cast<int>(impl_->fabric->links()); ++i) {
    const FabricLink ends = impl_->fabric->link(i);
    if (ends.from == from_switch && ends.to == to_switch) return LinkId(impl_->fabric_link_first + i);
  }
  return {};
}

std::vector<LinkId> Topology::find_links(std::string_view name) const {
  if (const LinkId link = find_link(name); link.valid()) return {link};
  std::vector<LinkId> found;
  std::string_view device = name;
  if (const auto node = take_node(device)) {
    if (*node >= nodes()) return {};
    const NodeGroupTable& group = impl_->group_of_node(*node);
    const int base = impl_->link_base(group, *node);
    for (int local = 0; local < group.links_per_node(); ++local) {
      const NodeLink& link = group.node.links[static_cast<std::size_t>(local)];
      const Device from = group.node.devices[static_cast<std::size_t>(link.from)];
      const Device to = group.node.devices[static_cast<std::size_t>(link.to)];
      const bool touches = orrery::name_of(from) == device || orrery::name_of(to) == device;
      const bool nic = (from.kind == DeviceKind::nic || to.kind == DeviceKind::nic) && device.substr(0, 3) == "nic";
      if (touches && (!nic || link.info.kind == LinkKind::nic)) found.emplace_back(base + local);
    }
    return found;
  }
  for (int i = 0; i < links(); ++i) {
    const LinkId link(i);
    if (impl_->node_link(link) && this->link(link).kind != LinkKind::nic) continue;
    const std::string text = link_name(link);
    const std::size_t arrow = text.find("->");
    if (std::string_view(text).substr(0, arrow) == name || std::string_view(text).substr(arrow + 2) == name) {
      found.push_back(link);
    }
  }
  return found;
}

}  // namespace orrery
