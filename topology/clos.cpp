#include "topology/clos.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/base/problem.hpp"

namespace orrery {

int uplinks_needed(BytesPerSecond below, BytesPerSecond cable, double oversubscription, const char* key,
                   Problems& problems) {
  const double exact = below.count() / (cable.count() * oversubscription);
  // A ratio that is whole but for the rounding of its inputs takes no further cable.
  constexpr double kSlack = 1e-9;
  if (exact < 1 - kSlack && oversubscription > 1) {
    const double most = std::max(1.0, below.count() / cable.count());
    problems.push_back({key, fmt::format("{:g} leaves less than one cable upwards", oversubscription),
                        fmt::format("at most {:g} with these links", most)});
    return 0;
  }
  constexpr double kCablesMax = 1 << 16;  // far above any switch's ports; keeps counts in range
  if (exact > kCablesMax) {
    problems.push_back({"cluster.fabric.link",
                        fmt::format("{:g} B/s per cable is too slow: a switch would need {:g} "
                                    "cables upwards",
                                    cable.count(), exact),
                        ""});
    return 0;
  }
  return std::max(1, static_cast<int>(std::ceil(exact - kSlack)));
}

std::unique_ptr<Fabric> make_clos(const FabricInput& input, const ClosShape& shape, Problems& problems) {
  // Counts of the unmerged fabric, which bound the merged one. Leaves are below 2^35, and only a fabric without pods
  // comes near; uplinks are at most 2^16 of a leaf and 2^12 of an aggregation switch: nothing overflows.
  constexpr std::int64_t kMost = std::numeric_limits<int>::max();
  const std::int64_t pods = divide_up(shape.leaves, shape.leaves_per_pod);
  const std::int64_t cables = shape.leaves * shape.leaf_uplinks + pods * shape.leaf_uplinks * shape.pod_uplinks;
  const std::int64_t switches =
      shape.leaves + pods * shape.leaf_uplinks + std::int64_t{shape.leaf_uplinks} * shape.pod_uplinks;
  if (switches > kMost || 2 * cables > kMost) {
    problems.push_back({"cluster.fabric",
                        fmt::format("{} switches and {} cables are more than can be simulated", switches, cables),
                        "more nodes on a leaf, or fewer nodes"});
    return nullptr;
  }
  return std::make_unique<Clos>(input, shape);
}

Clos::Clos(const FabricInput& input, ClosShape shape) : input_(input), shape_(std::move(shape)), nodes_(input.nodes()) {
  ORRERY_CHECK(shape_.leaves > 1 || shape_.leaf_uplinks == 0, "one leaf needs no cable upwards");
  ports_per_leaf_ = shape_.nodes_per_leaf * divide_up(std::max(1, input.nics_max()), shape_.rails);
  leaves_ = static_cast<int>(shape_.leaves);
  leaves_per_pod_ = static_cast<int>(std::min(shape_.leaves_per_pod, shape_.leaves));
  pods_ = static_cast<int>(divide_up(leaves_, leaves_per_pod_));
  const bool merged = input.spec.routing == Routing::adaptive;
  const BytesPerSecond cable = input.spec.link.payload_bandwidth();
  if (shape_.leaf_uplinks > 0) {
    leaf_lanes_ = middles_ = merged ? 1 : shape_.leaf_uplinks;
    leaf_bandwidth_ = merged ? cable * shape_.leaf_uplinks : cable;
  }
  core_first_ = leaves_ + pods_ * middles_;
  if (pods_ > 1) {
    pod_lanes_ = merged ? 1 : shape_.pod_uplinks;
    cores_ = middles_ * pod_lanes_;
    pod_bandwidth_ = merged ? cable * shape_.leaf_uplinks * shape_.pod_uplinks : cable;
  }
  leaf_links_ = 2 * std::int64_t{leaves_} * leaf_lanes_;
  pod_links_ = 2 * std::int64_t{pods_} * middles_ * pod_lanes_;
  link_latency_ = input.spec.link.latency + input.switch_latency;
}

std::string Clos::switch_name(int index) const {
  if (index < leaves_) {
    return fmt::format(fmt::runtime(shape_.leaf_name), index, index / shape_.rails, index % shape_.rails);
  }
  const bool merged = input_.spec.routing == Routing::adaptive;
  if (index < core_first_) {
    const int middle = index - leaves_;
    return fmt::format(fmt::runtime(shape_.middle_name), merged ? "" : std::to_string(middle % middles_),
                       middle / middles_);
  }
  return merged ? "core" : fmt::format("core{}", index - core_first_);
}

FabricLink Clos::link(int index) const {
  ORRERY_DCHECK(index >= 0 && index < links(), "a link of this fabric", index);
  FabricLink result;
  result.latency = link_latency_;
  if (index < leaf_links_) {
    const int leaf = index / 2 / leaf_lanes_;
    const int lane = index / 2 % leaf_lanes_;
    result.from = leaf;
    result.to = leaves_ + pod_of(leaf) * middles_ + lane;
    result.bandwidth = leaf_bandwidth_;
  } else {
    const int cable = (index - static_cast<int>(leaf_links_)) / 2;
    const int middle = cable / pod_lanes_;  // counted through all pods
    result.from = leaves_ + middle;
    result.to = core_first_ + middle % middles_ * pod_lanes_ + cable % pod_lanes_;
    result.bandwidth = pod_bandwidth_;
  }
  if (index % 2 == 1) std::swap(result.from, result.to);
  return result;
}

BytesPerSecond Clos::ports_of_leaf(int leaf) const {
  const std::int64_t first = std::int64_t{leaf / shape_.rails} * shape_.nodes_per_leaf;
  BytesPerSecond sum{};
  std::int64_t node = 0;
  for (const FabricPorts& group : input_.groups) {
    const std::int64_t begin = std::max(node, first);
    const std::int64_t end = std::min(node + group.nodes, first + shape_.nodes_per_leaf);
    const std::int64_t nics = divide_up(std::max(0, group.nics - leaf % shape_.rails), shape_.rails);
    if (begin < end) sum += group.bandwidth * static_cast<double>((end - begin) * nics);
    node += group.nodes;
  }
  return sum;
}

// Only of merged cables: a single one cannot take what all ports send.
BytesPerSecond Clos::ports_behind(int index) const {
  if (input_.spec.routing != Routing::adaptive) return BytesPerSecond(std::numeric_limits<double>::infinity());
  if (index < leaf_links_) return ports_of_leaf(index / 2 / leaf_lanes_);
  const int pod = (index - static_cast<int>(leaf_links_)) / 2 / pod_lanes_ / middles_;
  BytesPerSecond sum{};
  for (int leaf = pod * leaves_per_pod_; leaf < std::min(leaves_, (pod + 1) * leaves_per_pod_); ++leaf) {
    sum += ports_of_leaf(leaf);
  }
  return sum;
}

int Clos::switch_of(int node, int nic) const {
  return node / shape_.nodes_per_leaf * shape_.rails + nic % shape_.rails;
}

std::int64_t Clos::port_index(int node, int nic) const {
  const std::int64_t ports_per_node = ports_per_leaf_ / shape_.nodes_per_leaf;
  return std::int64_t{switch_of(node, nic)} * ports_per_leaf_ + node % shape_.nodes_per_leaf * ports_per_node +
         nic / shape_.rails;
}

void Clos::route(int from, int to, std::uint64_t choice, int first, std::vector<LinkId>& links) const {
  if (from == to) return;
  const auto lanes = static_cast<std::uint64_t>(leaf_lanes_);
  const auto lane = static_cast<int>(choice % lanes);
  links.emplace_back(first + 2 * (from * leaf_lanes_ + lane));
  if (pod_of(from) != pod_of(to)) {
    const auto pod_lane = static_cast<int>(choice / lanes % static_cast<std::uint64_t>(pod_lanes_));
    const auto pod_first = first + static_cast<int>(leaf_links_);
    links.emplace_back(pod_first + 2 * ((pod_of(from) * middles_ + lane) * pod_lanes_ + pod_lane));
    links.emplace_back(pod_first + 2 * ((pod_of(to) * middles_ + lane) * pod_lanes_ + pod_lane) + 1);
  }
  links.emplace_back(first + 2 * (to * leaf_lanes_ + lane) + 1);
}

// Least cut between the NICs of the first half and those of the second. Merging parallel switches changes no flow (any
// flow can be spread evenly), and leaves a tree, where the cut follows from the leaves upwards: a switch costs what its
// children cost when it lies on the first half's side, or on the second's.
BytesPerSecond Clos::bisection_bandwidth() const {
  struct Cut {
    double first = 0;
    double second = 0;
    void join(const Cut& child, double cable) {
      first += std::min(child.first, child.second + cable);
      second += std::min(child.second, child.first + cable);
    }
  };
  const int blocks = static_cast<int>(divide_up(nodes_, shape_.nodes_per_leaf));
  const int boundary = blocks > 1 ? blocks / 2 * shape_.nodes_per_leaf : nodes_ / 2;
  std::vector<Cut> leaves(static_cast<std::size_t>(leaves_));
  int node = 0;
  for (const FabricPorts& group : input_.groups) {
    for (int end = node + group.nodes; node < end; ++node) {
      for (int nic = 0; nic < group.nics; ++nic) {
        Cut& leaf = leaves[static_cast<std::size_t>(switch_of(node, nic))];
        // A leaf on the first side must part from the NICs of the second half, and the other way round.
        (node < boundary ? leaf.second : leaf.first) += group.bandwidth.count();
      }
    }
  }
  if (leaves_ == 1) return BytesPerSecond(std::min(leaves[0].first, leaves[0].second));
  const double leaf_up = input_.spec.link.payload_bandwidth().count() * shape_.leaf_uplinks;
  const double pod_up = leaf_up * shape_.pod_uplinks;
  Cut core;
  for (int pod = 0; pod < pods_; ++pod) {
    Cut middle;
    const int end = std::min(leaves_, (pod + 1) * leaves_per_pod_);
    for (int leaf = pod * leaves_per_pod_; leaf < end; ++leaf) {
      middle.join(leaves[static_cast<std::size_t>(leaf)], leaf_up);
    }
    if (pods_ == 1) return BytesPerSecond(std::min(middle.first, middle.second));
    core.join(middle, pod_up);
  }
  return BytesPerSecond(std::min(core.first, core.second));
}

}  // namespace orrery
