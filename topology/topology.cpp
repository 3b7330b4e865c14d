#include "topology/topology.hpp"

#include <fmt/format.h>

#include <limits>
#include <utility>

#include "topology/registry.hpp"
#include "topology/topology_impl.hpp"
#include "topology/validation.hpp"

namespace orrery {

std::string_view name_of(LinkKind kind) {
  constexpr std::string_view kNames[kLinkKinds] = {"nvlink", "pcie", "socket", "nic", "fabric", "memory", "drive"};
  return kNames[static_cast<std::size_t>(kind)];
}

namespace {

// Across three tiers, with a relay at either end; saves allocations.
constexpr std::size_t kUsualRouteLength = 14;

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

}  // namespace

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
    NodeGroupTable built{node_devices(group.node, input.switch_latency), group.count, nodes, gpus,
                         static_cast<int>(links)};
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

std::array<std::int64_t, kLinkKinds> Topology::links_by_kind() const {
  std::array<std::int64_t, kLinkKinds> count{};
  for (const NodeGroupTable& group : impl_->groups) {
    for (const NodeLink& link : group.node.links) {
      const bool from_memory = group.node.devices[static_cast<std::size_t>(link.from)].kind == DeviceKind::memory;
      if (!from_memory) count[static_cast<std::size_t>(link.info.kind)] += group.count;  // one link for both ways
    }
  }
  count[static_cast<std::size_t>(LinkKind::fabric)] += impl_->fabric->links();
  return count;
}

const ClusterSpec& Topology::spec() const { return impl_->spec; }

NodeId Topology::node_of(GpuId gpu) const { return NodeId(impl_->place_of(gpu).node); }
int Topology::local_index(GpuId gpu) const { return impl_->place_of(gpu).local; }

GpuId Topology::gpu(NodeId node, int local_index) const {
  ORRERY_CHECK(node.valid() && node.value() < nodes(), "a node of this cluster", node.value());
  const NodeGroupTable& group = impl_->group_of_node(node.value());
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

int Topology::leaf_of(NodeId node, int nic) const {
  ORRERY_CHECK(nic >= 0 && nic < node_spec(node).nics, "a NIC of this node", nic);
  return impl_->fabric->switch_of(node.value(), nic);
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

BytesPerSecond Topology::ports_behind(LinkId link) const {
  if (impl_->node_link(link)) return BytesPerSecond(std::numeric_limits<double>::infinity());
  return impl_->fabric->ports_behind(link.value() - impl_->fabric_link_first);
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
  const int path_out = source.local * sender.nics + nic_out;
  const int path_in = target.local * receiver.nics + nic_in;
  const int port_out = sender.port_out(nic_out);
  const int port_in = receiver.port_in(nic_in);
  route.links.reserve(kUsualRouteLength);
  impl_->append(source, sender.gpu_to_nic.links(path_out), route);
  impl_->append(source, std::span(&port_out, 1), route);
  const std::size_t fabric_begin = route.links.size();
  fabric.route(fabric.switch_of(source.node, nic_out), fabric.switch_of(target.node, nic_in),
               impl_->choice(fabric.port_index(source.node, nic_out), fabric.port_index(target.node, nic_in),
                             options.flow_label),
               impl_->fabric_link_first, route.links);
  const std::size_t fabric_end = route.links.size();
  impl_->append(target, std::span(&port_in, 1), route);
  impl_->append_reversed(target, receiver.gpu_to_nic.links(path_in), route);

  route.latency = sender.gpu_to_nic.latency(path_out) + sender.links[static_cast<std::size_t>(port_out)].info.latency +
                  receiver.links[static_cast<std::size_t>(port_in)].info.latency + receiver.gpu_to_nic.latency(path_in);
  for (std::size_t i = fabric_begin; i < fabric_end; ++i) route.latency += impl_->fabric_link(route.links[i]).latency;
  return route;
}

namespace {

// A link of a node, as a route of its own.
Route single_link(const NodeTemplate& node, int base, int local) {
  Route route;
  if (local < 0) return route;
  route.links.emplace_back(base + local);
  route.latency = node.links[static_cast<std::size_t>(local)].info.latency;
  return route;
}

}  // namespace

Route Topology::host_memory(GpuId gpu) const {
  const Impl::Place place = impl_->place_of(gpu);
  const NodeTemplate& node = place.group->node;
  return single_link(node, impl_->link_base(*place.group, place.node), node.memory_link(place.local));
}

Route Topology::drive_read(GpuId gpu) const {
  const Impl::Place place = impl_->place_of(gpu);
  const NodeTemplate& node = place.group->node;
  return single_link(node, impl_->link_base(*place.group, place.node), node.drive_link);
}

Route Topology::drive_write(GpuId gpu) const {
  const Impl::Place place = impl_->place_of(gpu);
  const NodeTemplate& node = place.group->node;
  const int read = node.drive_link;
  return single_link(node, impl_->link_base(*place.group, place.node), read < 0 ? read : NodeTemplate::reverse(read));
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
  for (const NodeGroupTable& group : impl_->groups) total += sizeof(NodeGroupTable) + group.node.bytes();
  return total;
}

}  // namespace orrery
