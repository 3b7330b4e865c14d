#include "sim/exec/collectives/layout.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sim/base/check.hpp"
#include "sim/exec/collectives/node_rings.hpp"

namespace orrery {

namespace {

// NCCL plans with 20, 20.6 and 40.1 GB/s of the 25, 25 and 50 of a link of NVLink 2/3, 4 and 5 (src/graph/topo.h).
constexpr double kPlannedNvlinkShare = 0.8;

// Speeds that the search tries, in GB/s, by generation up to Ampere, Hopper, Blackwell (src/graph/search.cc).
constexpr std::array kIntraSpeeds{40., 30., 20., 18., 15., 12., 10., 9., 7., 6., 5., 4., 3.};
constexpr std::array kIntraSpeedsHopper{60., 50., 40., 30., 24., 20., 15., 12., 11., 6., 3.};
constexpr std::array kIntraSpeedsBlackwell{90., 80., 70., 60., 50., 45., 40., 30., 24., 20., 19., 18.};
constexpr std::array kInterSpeeds{48., 30., 28., 24., 20., 18., 15., 12., 10., 9., 7., 6., 5., 4., 3., 2.4, 1.2};
constexpr std::array kInterSpeedsHopper{48., 45., 42., 40., 30., 24., 22., 20., 17.5, 15., 12., 6., 3., 2.4, 1.2};
constexpr std::array kInterSpeedsBlackwell{96., 48.,  45.1, 42., 40., 30., 24., 22.,
                                           20., 17.5, 15.,  12., 6.,  3.,  2.4, 1.2};

constexpr double kSplitFrom = 25;        // GB/s
constexpr std::int32_t kSearchMax = 32;  // channels before they are doubled (MAXCHANNELS is 64)

std::span<const double> speeds(GpuGeneration generation, bool inter) {
  if (generation == GpuGeneration::blackwell)
    return inter ? std::span<const double>(kInterSpeedsBlackwell) : kIntraSpeedsBlackwell;
  if (generation == GpuGeneration::hopper)
    return inter ? std::span<const double>(kInterSpeedsHopper) : kIntraSpeedsHopper;
  return inter ? std::span<const double>(kInterSpeeds) : kIntraSpeeds;
}

// The slowest kind of hop between neighbours on the rings inside nodes.
Hop intra_hop(const Topology& topology, std::span<const GpuId> members, const CommunicatorLayout& layout) {
  const std::vector<std::int32_t>& order = layout.orders[0];
  for (std::size_t i = 0; i < order.size(); ++i) {
    const std::int32_t a = order[i];
    const std::int32_t b = order[(i + 1) % order.size()];
    if (a == b || layout.node_of[static_cast<std::size_t>(a)] != layout.node_of[static_cast<std::size_t>(b)]) continue;
    const Route route = topology.route(members[static_cast<std::size_t>(a)], members[static_cast<std::size_t>(b)]);
    for (const LinkId link : route.links) {
      if (topology.link(link).kind != LinkKind::nvlink) return Hop::pcie;
    }
  }
  return Hop::nvlink;
}

// What NCCL plans with, in GB/s, for all rings through a GPU together.
double planned_intra(const NodeSpec& spec, Hop hop) {
  if (hop == Hop::pcie) return spec.pcie.payload_bandwidth().count() / 1e9;
  return spec.nvlink.bandwidth.count() * kPlannedNvlinkShare / 1e9;
}

struct Speed {
  double each = 0;            // GB/s
  std::int32_t channels = 1;  // before doubling
};

// As many channels as fit at the speed that makes the most of `total`.
Speed best_fill(std::span<const double> list, double total) {
  Speed best{std::min(total, list.back()), 1};
  for (const double speed : list) {
    const auto count = std::min(kSearchMax, static_cast<std::int32_t>(total / speed));
    if (count * speed > best.each * best.channels) best = {speed, count};
  }
  return best;
}

double fastest(std::span<const double> list, double limit) {
  for (const double speed : list) {
    if (speed <= limit) return speed;
  }
  return limit;
}

// Splits fast channels and doubles all, as NCCL does after its search.
void set_channels(CommunicatorLayout& layout, Speed speed) {
  layout.planned = BytesPerSecond(speed.each * speed.channels * 1e9);
  layout.planned_tree = layout.planned;
  const bool newer = layout.generation >= GpuGeneration::hopper;
  if (speed.each >= kSplitFrom && !(newer && speed.each < 50 && speed.channels > 4)) {
    speed.each /= 2;
    speed.channels *= 2;
  }
  layout.searched_channels = speed.channels;
  layout.channels = 2 * speed.channels;
  if (newer && layout.nodes > 1 && speed.each >= 45 && layout.channels < 16) layout.channels *= 2;
}

void lay_out_inside(const Topology& topology, std::span<const GpuId> members, const NodeMembers& node,
                    CommunicatorLayout& layout) {
  layout.orders = rings_inside(topology, members, node);
  layout.nics.assign(layout.orders.size(), {-1});
  layout.intra = intra_hop(topology, members, layout);
  const NodeSpec& spec = topology.node_spec(node.node);
  const std::span<const double> list = speeds(layout.generation, false);
  const double planned = planned_intra(spec, layout.intra);
  if (layout.rings() > 1 || spec.wiring == GpuWiring::mesh) {
    set_channels(layout, {fastest(list, planned), layout.rings()});
  } else {
    set_channels(layout, best_fill(list, planned));
  }
}

std::size_t members_of_first(const std::vector<NodeMembers>& nodes) { return nodes[0].members.size(); }

void lay_out_across(const Topology& topology, std::span<const GpuId> members, const std::vector<NodeMembers>& nodes,
                    CommunicatorLayout& layout) {
  const std::vector<std::vector<NodePassage>> passages = passages_of_all(topology, members, nodes);
  std::size_t rings = std::numeric_limits<std::size_t>::max();
  double limit = std::numeric_limits<double>::infinity();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeMembers& node = nodes[i];
    ORRERY_CHECK(!passages[i].empty(), "members on several nodes have NICs", node.node.value());
    rings = std::min(rings, passages[i].size());
    limit = std::min(limit, topology.node_spec(node.node).nic.payload_bandwidth().count() / 1e9);
  }
  for (std::size_t ring = 0; ring < rings; ++ring) {
    std::vector<std::int32_t> order;
    std::vector<std::int32_t> nic_of_node;
    for (const std::vector<NodePassage>& node : passages) {
      order.insert(order.end(), node[ring].order.begin(), node[ring].order.end());
      nic_of_node.push_back(node[ring].nic);
    }
    layout.orders.push_back(order);
    layout.nics.push_back(nic_of_node);
  }
  layout.intra = intra_hop(topology, members, layout);
  // Several NICs per GPU act as the rails of one, as AWS's OFI plugin presents them: the rings are stripes of a
  // channel.
  const NodeSpec& first = topology.node_spec(nodes[0].node);
  const std::size_t stripes = first.gpus > 0 && rings % members_of_first(nodes) == 0 && first.nics > first.gpus
                                  ? rings / members_of_first(nodes)
                                  : 1;
  const auto count = static_cast<std::int32_t>(rings / stripes);
  limit *= static_cast<double>(stripes);
  double inside = std::numeric_limits<double>::infinity();
  if (members.size() > nodes.size()) {
    for (const NodeMembers& node : nodes) {
      const NodeSpec& spec = topology.node_spec(node.node);
      if (node.members.size() < 2 || spec.wiring == GpuWiring::mesh) continue;
      inside = std::min(inside, planned_intra(spec, layout.intra) / count);
    }
  }
  const std::span<const double> list = speeds(layout.generation, true);
  set_channels(layout, {fastest(list, std::min(limit, inside)), count});
  // NCCL's second pass raises a tree's speed inside the nodes, and prices trees on two nodes by it.
  const BytesPerSecond raised(std::isfinite(inside) ? fastest(list, inside) * count * 1e9 : 0);
  layout.heads = count;
  layout.planned_inside = std::max(layout.planned, raised);
  if (nodes.size() == 2) layout.planned_tree = layout.planned_inside;
}

// What the switches inside and between the nodes can do, and how the members are spread over the nodes.
void describe_nodes(const Topology& topology, std::span<const GpuId> members, const std::vector<NodeMembers>& nodes,
                    CommunicatorLayout& layout) {
  const FabricSpec& fabric = topology.spec().fabric;
  bool on_switches = layout.intra == Hop::nvlink;
  bool even = std::is_sorted(layout.node_of.begin(), layout.node_of.end());
  bool network = fabric.kind == FabricKind::single_switch || fabric.link.in_network_reduction;
  for (const NodeMembers& node : nodes) {
    const NodeSpec& spec = topology.node_spec(node.node);
    on_switches = on_switches && spec.wiring == GpuWiring::nvswitch && node.members.size() > 1;
    network = network && spec.nic.in_network_reduction;
    even = even && node.members.size() == nodes[0].members.size();
    layout.node_most = std::max(layout.node_most, static_cast<std::int32_t>(node.members.size()));
  }
  layout.even_nodes = even;
  layout.network_reduces = nodes.size() > 1 && network;
  layout.one_switch = on_switches;
  layout.switch_reduces = on_switches && std::all_of(members.begin(), members.end(),
                                                     [&](GpuId gpu) { return topology.gpu_spec(gpu).nvlink_sharp; });
}

}  // namespace

GpuGeneration generation_of(const GpuSpec& gpu) {
  constexpr double kBlackwellFrom = 1.5e15;  // dense bf16: H100 and H200 0.99, B200 2.25 PFLOP/s
  if (gpu.peak_of(Precision::bf16).count() >= kBlackwellFrom) return GpuGeneration::blackwell;
  if (gpu.peak_of(Precision::fp8).count() > 0 || gpu.nvlink_sharp) return GpuGeneration::hopper;
  return gpu.peak_of(Precision::bf16).count() > 0 ? GpuGeneration::ampere : GpuGeneration::volta;
}

CommunicatorLayout lay_out(const Topology& topology, std::span<const GpuId> members) {
  ORRERY_CHECK(!members.empty(), "a communicator has members");
  CommunicatorLayout layout;
  const std::vector<NodeMembers> nodes = by_node(topology, members, layout.node_of);
  layout.nodes = static_cast<std::int32_t>(nodes.size());
  layout.generation = generation_of(topology.gpu_spec(members[0]));
  if (nodes.size() == 1) {
    lay_out_inside(topology, members, nodes[0], layout);
  } else {
    lay_out_across(topology, members, nodes, layout);
  }
  describe_nodes(topology, members, nodes, layout);
  return layout;
}

}  // namespace orrery
