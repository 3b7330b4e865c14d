#include "topology/topology.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/random.hpp"
#include "topology/explicit_graph.hpp"
#include "topology/fabric.hpp"
#include "topology/node_template.hpp"
#include "topology/registry.hpp"
#include "topology/validation.hpp"

namespace orrery {

std::string_view name_of(LinkKind kind) {
  constexpr std::string_view kNames[kLinkKinds] = {"nvlink", "pcie", "socket", "nic", "fabric"};
  return kNames[static_cast<std::size_t>(kind)];
}

namespace {

// Nodes of one kind, and where their numbers begin.
struct Group {
  NodeTemplate node;
  int count = 0;
  int node_first = 0;
  int gpu_first = 0;
  int link_first = 0;

  [[nodiscard]] int links_per_node() const { return static_cast<int>(node.links.size()); }
};

// Switch latency of the cables between switches, or of the NICs where there are none.
Duration switch_latency_of(const ClusterSpec& spec) {
  if (spec.fabric.switch_latency) return *spec.fabric.switch_latency;
  if (spec.fabric.link.bandwidth.count() > 0) return spec.fabric.link.switch_latency;
  for (const NodeGroup& group : spec.groups) {
    if (group.node.nics > 0) return group.node.nic.switch_latency;
  }
  return Duration::zero();
}

FabricInput fabric_input(const ClusterSpec& spec) {
  FabricInput input;
  input.spec = spec.fabric;
  input.switch_latency = switch_latency_of(spec);
  for (const NodeGroup& group : spec.groups) {
    input.groups.push_back(
        {group.count, group.node.nics, group.node.nic.bandwidth, group.node.nic.payload_bandwidth()});
  }
  return input;
}

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

struct Topology::Impl {
  ClusterSpec spec;
  std::vector<Group> groups;
  std::unique_ptr<Fabric> fabric;
  int fabric_link_first = 0;
  std::uint64_t hash_key = 0;

  [[nodiscard]] int nodes() const { return groups.back().node_first + groups.back().count; }
  [[nodiscard]] int gpus() const { return groups.back().gpu_first + groups.back().count * groups.back().node.gpus; }
  [[nodiscard]] int links() const { return fabric_link_first + static_cast<int>(fabric->links()); }

  // The group in which a number falls, counted by the given member.
  [[nodiscard]] const Group& group_by(int Group::*first, int value) const {
    const auto after = std::upper_bound(groups.begin(), groups.end(), value,
                                        [first](int v, const Group& group) { return v < group.*first; });
    return *(after - 1);
  }
  [[nodiscard]] const Group& group_of_node(int node) const { return group_by(&Group::node_first, node); }
  [[nodiscard]] const Group& group_of_gpu(GpuId gpu) const {
    ORRERY_CHECK(gpu.valid() && gpu.value() < gpus(), "a GPU of this cluster", gpu.value());
    return group_by(&Group::gpu_first, gpu.value());
  }

  struct Place {
    const Group* group = nullptr;
    int node = 0;
    int local = 0;
  };
  [[nodiscard]] Place place_of(GpuId gpu) const {
    const Group& group = group_of_gpu(gpu);
    const int offset = gpu.value() - group.gpu_first;
    return {&group, group.node_first + offset / group.node.gpus, offset % group.node.gpus};
  }
  [[nodiscard]] int link_base(const Group& group, int node) const {
    return group.link_first + (node - group.node_first) * group.links_per_node();
  }

  // A link of a node; nothing for links of the fabric.
  [[nodiscard]] std::optional<Place> node_link(LinkId link) const {
    ORRERY_CHECK(link.valid() && link.value() < links(), "a link of this cluster", link.value());
    if (link.value() >= fabric_link_first) return std::nullopt;
    const Group& group = group_by(&Group::link_first, link.value());
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

Topology::Topology(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Topology::Topology(Topology&&) noexcept = default;
Topology& Topology::operator=(Topology&&) noexcept = default;
Topology::~Topology() = default;

Result<Topology> Topology::build(const ClusterSpec& spec, std::uint64_t seed) {
  Problems problems = check_cluster(spec);
  if (!problems.empty()) return problems;

  auto impl = std::make_unique<Impl>();
  impl->spec = spec;
  impl->hash_key = RandomStream(seed, "ecmp").next();
  const FabricInput input = fabric_input(spec);
  int nodes = 0;
  int gpus = 0;
  std::int64_t links = 0;
  for (std::size_t i = 0; i < spec.groups.size(); ++i) {
    const NodeGroup& group = spec.groups[i];
    Group built{node_devices(group.node, input.switch_latency), group.count, nodes, gpus, static_cast<int>(links)};
    if (const std::string found = solve_routes(built.node); !found.empty()) {
      problems.push_back({node_key(spec, i) + ".sockets", found,
                          "join the sockets (socket_link), or the GPUs (wiring), or give each socket GPUs"});
    }
    nodes += group.count;
    gpus += group.count * group.node.gpus;
    links += static_cast<std::int64_t>(group.count) * built.links_per_node();
    impl->groups.push_back(std::move(built));
    if (links > std::numeric_limits<int>::max()) break;
  }
  if (links <= std::numeric_limits<int>::max()) {
    impl->fabric_link_first = static_cast<int>(links);
    impl->fabric = fabric_info(spec.fabric.kind).build(input, problems);
    if (impl->fabric != nullptr) links += impl->fabric->links();
  }
  if (links > std::numeric_limits<int>::max()) {
    problems.push_back({"cluster.nodes", fmt::format("{} links are more than can be simulated", links), ""});
  }
  if (!problems.empty()) return problems;
  return Topology(std::move(impl));
}

int Topology::gpus() const { return impl_->gpus(); }
int Topology::nodes() const { return impl_->nodes(); }
int Topology::links() const { return impl_->links(); }
const ClusterSpec& Topology::spec() const { return impl_->spec; }

NodeId Topology::node_of(GpuId gpu) const { return NodeId(impl_->place_of(gpu).node); }
int Topology::local_index(GpuId gpu) const { return impl_->place_of(gpu).local; }

GpuId Topology::gpu(NodeId node, int local_index) const {
  ORRERY_CHECK(node.valid() && node.value() < nodes(), "a node of this cluster", node.value());
  const Group& group = impl_->group_of_node(node.value());
  ORRERY_CHECK(local_index >= 0 && local_index < group.node.gpus, "a GPU of this node", local_index);
  return GpuId(group.gpu_first + (node.value() - group.node_first) * group.node.gpus + local_index);
}

const GpuSpec& Topology::gpu_spec(GpuId gpu) const { return node_spec(node_of(gpu)).gpu; }

const NodeSpec& Topology::node_spec(NodeId node) const {
  ORRERY_CHECK(node.valid() && node.value() < nodes(), "a node of this cluster", node.value());
  const auto group = static_cast<std::size_t>(&impl_->group_of_node(node.value()) - impl_->groups.data());
  return impl_->spec.groups[group].node;
}

int Topology::nearest_nic(GpuId gpu) const {
  const Impl::Place place = impl_->place_of(gpu);
  return place.group->node.nearest_nic[static_cast<std::size_t>(place.local)];
}

LinkKind Topology::intra_node_kind(NodeId node) const {
  ORRERY_CHECK(node.valid() && node.value() < nodes(), "a node of this cluster", node.value());
  return impl_->group_of_node(node.value()).node.nvlink_everywhere ? LinkKind::nvlink : LinkKind::pcie;
}

LinkInfo Topology::link(LinkId link) const {
  if (const auto place = impl_->node_link(link)) {
    return place->group->node.links[static_cast<std::size_t>(place->local)].info;
  }
  const FabricLink found = impl_->fabric_link(link);
  return {LinkKind::fabric, found.bandwidth, found.latency};
}

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
    const Group& group = impl_->group_of_node(*node);
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
    const Group& group = impl_->group_of_node(*node);
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

Route Topology::route(GpuId from, GpuId to, const RouteOptions& options) const {
  Route route;
  if (from == to) return route;
  const Impl::Place source = impl_->place_of(from);
  const Impl::Place target = impl_->place_of(to);
  const NodeTemplate& sender = source.group->node;
  const NodeTemplate& receiver = target.group->node;
  if (source.node == target.node) {
    const int path = source.local * sender.gpus + target.local;
    impl_->append(source, sender.gpu_to_gpu.links(path), route);
    route.latency = sender.gpu_to_gpu.latency(path);
    return route;
  }
  const int nic_out =
      options.from_nic >= 0 ? options.from_nic : sender.nearest_nic[static_cast<std::size_t>(source.local)];
  const int nic_in =
      options.to_nic >= 0 ? options.to_nic : receiver.nearest_nic[static_cast<std::size_t>(target.local)];
  ORRERY_CHECK(nic_out < sender.nics && nic_in < receiver.nics, "NICs of these nodes", nic_out, nic_in);
  const Fabric& fabric = *impl_->fabric;
  std::vector<int> between;
  fabric.route(fabric.switch_of(source.node, nic_out), fabric.switch_of(target.node, nic_in),
               impl_->choice(fabric.port_index(source.node, nic_out), fabric.port_index(target.node, nic_in),
                             options.flow_label),
               between);
  const int path_out = source.local * sender.nics + nic_out;
  const int path_in = target.local * receiver.nics + nic_in;
  const int port_out = sender.port_out(nic_out);
  const int port_in = receiver.port_in(nic_in);
  route.links.reserve(sender.gpu_to_nic.links(path_out).size() + receiver.gpu_to_nic.links(path_in).size() +
                      between.size() + 2);
  impl_->append(source, sender.gpu_to_nic.links(path_out), route);
  impl_->append(source, std::span(&port_out, 1), route);
  for (const int link : between) route.links.emplace_back(impl_->fabric_link_first + link);
  impl_->append(target, std::span(&port_in, 1), route);
  impl_->append_reversed(target, receiver.gpu_to_nic.links(path_in), route);

  route.latency = sender.gpu_to_nic.latency(path_out) + sender.links[static_cast<std::size_t>(port_out)].info.latency +
                  receiver.links[static_cast<std::size_t>(port_in)].info.latency + receiver.gpu_to_nic.latency(path_in);
  for (const int link : between) route.latency += fabric.link(link).latency;
  return route;
}

Route Topology::device_to_host(GpuId gpu) const {
  const Impl::Place place = impl_->place_of(gpu);
  Route route;
  impl_->append(place, place.group->node.gpu_to_host.links(place.local), route);
  route.latency = place.group->node.gpu_to_host.latency(place.local);
  return route;
}

Route Topology::host_to_device(GpuId gpu) const {
  const Impl::Place place = impl_->place_of(gpu);
  Route route;
  impl_->append_reversed(place, place.group->node.gpu_to_host.links(place.local), route);
  route.latency = place.group->node.gpu_to_host.latency(place.local);
  return route;
}

BytesPerSecond Topology::bisection_bandwidth() const { return impl_->fabric->bisection_bandwidth(); }

std::size_t Topology::table_bytes() const {
  std::size_t total = 0;
  for (const Group& group : impl_->groups) total += sizeof(Group) + group.node.bytes();
  return total;
}

ExplicitGraph materialize(const Topology& topology) {
  const Topology::Impl& impl = *topology.impl_;
  ExplicitGraph graph;
  for (int i = 0; i < impl.fabric->switches(); ++i) graph.vertices.push_back(impl.fabric->switch_name(i));
  std::vector<int> vertex_first;  // by node
  for (int node = 0; node < topology.nodes(); ++node) {
    vertex_first.push_back(static_cast<int>(graph.vertices.size()));
    for (const Device device : impl.group_of_node(node).node.devices) {
      if (device.kind == DeviceKind::fabric) continue;
      graph.vertices.push_back(fmt::format("node{}.{}", node, orrery::name_of(device)));
    }
  }
  for (int i = 0; i < topology.links(); ++i) {
    const LinkId link(i);
    ExplicitGraph::Edge edge{0, 0, topology.link(link)};
    if (const auto place = impl.node_link(link)) {
      const NodeTemplate& node = place->group->node;
      const NodeLink& ends = node.links[static_cast<std::size_t>(place->local)];
      const auto vertex = [&](int end, int other) {
        if (node.devices[static_cast<std::size_t>(end)].kind != DeviceKind::fabric) {
          return vertex_first[static_cast<std::size_t>(place->node)] + end;
        }
        return impl.fabric->switch_of(place->node, node.devices[static_cast<std::size_t>(other)].index);
      };
      edge.from = vertex(ends.from, ends.to);
      edge.to = vertex(ends.to, ends.from);
    } else {
      const FabricLink found = impl.fabric_link(link);
      edge.from = found.from;
      edge.to = found.to;
    }
    graph.edges.push_back(edge);
  }
  return graph;
}

}  // namespace orrery
