#include "sim/exec/collectives/node_rings.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "sim/exec/collectives/layout.hpp"

namespace orrery {

namespace {

using NicOfMember = std::pair<std::int32_t, std::int32_t>;

// The NICs next to the node's members, each with the member that it serves: those that the topology names, and where
// a node has several per GPU, the GPU's share of them in order.
std::vector<NicOfMember> nics_of(const Topology& topology, std::span<const GpuId> members, const NodeMembers& node) {
  const NodeSpec& spec = topology.node_spec(node.node);
  std::vector<NicOfMember> found;
  std::set<std::int32_t> taken;
  const int per_gpu = spec.gpus > 0 && spec.nics % spec.gpus == 0 ? spec.nics / spec.gpus : 0;
  for (const std::int32_t member : node.members) {
    const GpuId gpu = members[static_cast<std::size_t>(member)];
    const int nearest = topology.nearest_nic(gpu);
    if (nearest < 0) continue;
    if (taken.insert(nearest).second) found.emplace_back(nearest, member);
    for (int i = 0; i < per_gpu; ++i) {
      const int nic = topology.local_index(gpu) * per_gpu + i;
      if (taken.insert(nic).second) found.emplace_back(nic, member);
    }
  }
  return found;
}

// How many rings leave over each link of a node, and what that makes of a way out.
class Leaving {
 public:
  Leaving(const Topology& topology, GpuId other) : topology_(topology), other_(other) {}

  // Seconds per byte of a ring on the most loaded link of the way, were it to go there too.
  [[nodiscard]] double cost(GpuId from, std::int32_t nic) const {
    double most = 0;
    for (const LinkId link : way(from, nic)) {
      const auto found = rings_.find(link);
      const double rings = 1 + (found == rings_.end() ? 0 : found->second);
      most = std::max(most, rings / topology_.link(link).bandwidth.count());
    }
    return most;
  }
  void take(GpuId from, std::int32_t nic) {
    for (const LinkId link : way(from, nic)) ++rings_[link];
  }

 private:
  // From the GPU to the NIC.
  [[nodiscard]] std::vector<LinkId> way(GpuId from, std::int32_t nic) const {
    RouteOptions options;
    options.from_nic = nic;
    std::vector<LinkId> links;
    for (const LinkId link : topology_.route(from, other_, options).links) {
      if (topology_.link(link).kind == LinkKind::nic) break;
      links.push_back(link);
    }
    return links;
  }

  const Topology& topology_;
  GpuId other_;
  std::map<LinkId, std::int32_t> rings_;
};

// Puts the member that leaves with least cost last; of equals, that which is last already, or nearest to it.
void choose_last(std::vector<std::int32_t>& order, std::span<const GpuId> members, std::int32_t nic,
                 const Leaving& leaving) {
  std::size_t best = order.size() - 1;
  double least = std::numeric_limits<double>::infinity();
  for (std::size_t i = order.size(); i-- > 1;) {
    const double cost = leaving.cost(members[static_cast<std::size_t>(order[i])], nic);
    if (cost >= least) continue;
    least = cost;
    best = i;
  }
  std::rotate(order.begin() + static_cast<std::ptrdiff_t>(best), order.begin() + static_cast<std::ptrdiff_t>(best) + 1,
              order.end());
}

// The ways round a node that rings may take, and how many have taken each.
class Inside {
 public:
  Inside(const Topology& topology, std::span<const GpuId> members, const NodeMembers& node)
      : members_(members),
        spec_(topology.node_spec(node.node)),
        rings_(rings_inside(topology, members, node)),
        taken_(rings_.size(), 0) {}

  // From the entry round to a member that leaves by the NIC: of the cycles of a mesh, the one whose links and way out
  // cost least, the first of equals that the others have not taken; on an NVSwitch, in an order of its own.
  [[nodiscard]] std::vector<std::int32_t> take(std::int32_t entry, std::int32_t nic, const Leaving& leaving) {
    std::size_t best = 0;
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < rings_.size() && rings_.size() > 1; ++i) {
      const GpuId last = members_[static_cast<std::size_t>(from(entry, i).back())];
      const double inside = (taken_[i] + 1) / spec_.nvlink.payload_bandwidth().count();
      const double cost = std::max(inside, leaving.cost(last, nic));
      if (cost >= least) continue;
      least = cost;
      best = i;
    }
    ++taken_[best];
    std::vector<std::int32_t> order = from(entry, best);
    if (spec_.wiring == GpuWiring::nvswitch) choose_last(order, members_, nic, leaving);
    return order;
  }

 private:
  [[nodiscard]] std::vector<std::int32_t> from(std::int32_t entry, std::size_t ring) const {
    std::vector<std::int32_t> order = rings_[ring];
    std::rotate(order.begin(), std::find(order.begin(), order.end(), entry), order.end());
    return order;
  }

  std::span<const GpuId> members_;
  const NodeSpec& spec_;
  std::vector<std::vector<std::int32_t>> rings_;
  std::vector<std::int32_t> taken_;  // [rings]
};

}  // namespace

std::vector<NodeMembers> by_node(const Topology& topology, std::span<const GpuId> members,
                                 std::vector<std::int32_t>& node_of) {
  std::vector<NodeMembers> nodes;
  std::map<NodeId, std::size_t> known;
  for (std::size_t i = 0; i < members.size(); ++i) {
    const NodeId node = topology.node_of(members[i]);
    const auto [where, fresh] = known.try_emplace(node, nodes.size());
    if (fresh) nodes.push_back({node, {}});
    nodes[where->second].members.push_back(static_cast<std::int32_t>(i));
    node_of.push_back(static_cast<std::int32_t>(where->second));
  }
  for (NodeMembers& node : nodes) {
    std::sort(node.members.begin(), node.members.end(), [&](std::int32_t a, std::int32_t b) {
      return members[static_cast<std::size_t>(a)] < members[static_cast<std::size_t>(b)];
    });
  }
  return nodes;
}

std::vector<std::vector<std::int32_t>> rings_inside(const Topology& topology, std::span<const GpuId> members,
                                                    const NodeMembers& node) {
  const NodeSpec& spec = topology.node_spec(node.node);
  std::vector<std::vector<std::int32_t>> rings;
  if (spec.wiring == GpuWiring::mesh && node.members.size() > 1) {
    std::vector<std::vector<int>> links(node.members.size(), std::vector<int>(node.members.size(), 0));
    std::map<int, std::size_t> position;
    for (std::size_t i = 0; i < node.members.size(); ++i) {
      position[topology.local_index(members[static_cast<std::size_t>(node.members[i])])] = i;
    }
    for (const MeshEdge& edge : spec.mesh_links) {
      const auto a = position.find(edge.a);
      const auto b = position.find(edge.b);
      if (a == position.end() || b == position.end()) continue;
      links[a->second][b->second] += edge.links;
      links[b->second][a->second] += edge.links;
    }
    for (const std::vector<std::int32_t>& cycle : disjoint_cycles(links)) {
      std::vector<std::int32_t> ring;
      for (const std::int32_t vertex : cycle) ring.push_back(node.members[static_cast<std::size_t>(vertex)]);
      rings.push_back(ring);
      if (ring.size() > 2) {
        std::reverse(ring.begin() + 1, ring.end());
        rings.push_back(ring);
      }
    }
  }
  if (rings.empty()) rings.push_back(node.members);
  return rings;
}

std::vector<NodePassage> passages_of(const Topology& topology, std::span<const GpuId> members, const NodeMembers& node,
                                     GpuId other) {
  Inside inside(topology, members, node);
  Leaving leaving(topology, other);
  std::vector<NodePassage> passages;
  for (const auto& [nic, entry] : nics_of(topology, members, node)) {
    std::vector<std::int32_t> order = inside.take(entry, nic, leaving);
    leaving.take(members[static_cast<std::size_t>(order.back())], nic);
    passages.push_back({nic, std::move(order)});
  }
  return passages;
}

std::vector<std::vector<NodePassage>> passages_of_all(const Topology& topology, std::span<const GpuId> members,
                                                      const std::vector<NodeMembers>& nodes) {
  const auto alike = [&](const NodeMembers& a, const NodeMembers& b) {
    if (&topology.node_spec(a.node) != &topology.node_spec(b.node)) return false;
    return std::equal(a.members.begin(), a.members.end(), b.members.begin(), b.members.end(),
                      [&](std::int32_t x, std::int32_t y) {
                        return topology.local_index(members[static_cast<std::size_t>(x)]) ==
                               topology.local_index(members[static_cast<std::size_t>(y)]);
                      });
  };
  std::vector<std::vector<NodePassage>> passages;
  std::vector<std::size_t> searched;  // nodes
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const NodeMembers& node = nodes[i];
    const auto known = std::find_if(searched.begin(), searched.end(),
                                    [&](std::size_t earlier) { return alike(nodes[earlier], node); });
    if (known == searched.end()) {
      const std::int32_t elsewhere = nodes[i == 0 ? 1 : 0].members.front();
      passages.push_back(passages_of(topology, members, node, members[static_cast<std::size_t>(elsewhere)]));
      searched.push_back(i);
      continue;
    }
    const std::vector<std::int32_t>& theirs = nodes[*known].members;
    std::vector<NodePassage> translated = passages[*known];
    for (NodePassage& passage : translated) {
      for (std::int32_t& member : passage.order) {
        member =
            node.members[static_cast<std::size_t>(std::find(theirs.begin(), theirs.end(), member) - theirs.begin())];
      }
    }
    passages.push_back(std::move(translated));
  }
  return passages;
}

}  // namespace orrery
