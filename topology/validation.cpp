#include "topology/validation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

#include "topology/registry.hpp"

namespace orrery {

namespace {

constexpr int kCountMax = 1024;  // devices of one kind in a node
constexpr int kSocketsMax = 512;
constexpr double kBandwidthMax = 1e15;  // B/s; beyond any link, and a likely slip of units
constexpr double kLatencyMax = 1.0;     // seconds
constexpr double kPowerMax = 1e7;       // W
constexpr double kPriceMax = 1e6;       // USD per hour

std::string group_key(const ClusterSpec& spec, std::size_t group) {
  return spec.groups.size() == 1 ? "cluster" : fmt::format("cluster.groups[{}]", group);
}

class Checker {
 public:
  explicit Checker(Problems& problems) : problems_(problems) {}

  void add(std::string key, std::string message, std::string note = {}) {
    problems_.push_back({std::move(key), std::move(message), std::move(note)});
  }

  bool count(const std::string& key, int value, int least, int most) {
    if (value >= least && value <= most) return true;
    add(key, fmt::format("{} is out of range", value), fmt::format("{} to {}", least, most));
    return false;
  }

  bool number(const std::string& key, double value, double least, double most) {
    if (std::isfinite(value) && value >= least && value <= most) return true;
    add(key, fmt::format("{:g} is out of range", value), fmt::format("{:g} to {:g}", least, most));
    return false;
  }

  void link(const std::string& key, const LinkSpec& link) {
    const double bandwidth = link.bandwidth.count();
    if (bandwidth == 0 && link.name.empty()) {
      add(key, "a link is needed here and none is given", "name one of the catalogue, or give its bandwidth");
    } else if (!(bandwidth > 0) || !std::isfinite(bandwidth)) {
      add(key + ".bandwidth", fmt::format("bandwidth must be above zero, found {:g} B/s", bandwidth));
    } else if (bandwidth > kBandwidthMax) {
      add(key + ".bandwidth", fmt::format("{:g} B/s is beyond any link", bandwidth), "check the unit");
    }
    if (!(link.efficiency > 0 && link.efficiency <= 1)) {
      add(key + ".efficiency", fmt::format("{:g} is out of range", link.efficiency), "above 0, at most 1");
    }
    number(key + ".latency", to_seconds(link.latency), 0, kLatencyMax);
    number(key + ".adapter_latency", to_seconds(link.adapter_latency), 0, kLatencyMax);
    number(key + ".switch_latency", to_seconds(link.switch_latency), 0, kLatencyMax);
  }

 private:
  Problems& problems_;
};

// Whether NVLink joins all GPUs, or islands of one size with at least two GPUs each, as bridged PCIe cards are. Follows
// the edges by union-find; nodes are small.
bool even_islands(const NodeSpec& node) {
  std::vector<int> parent(static_cast<std::size_t>(node.gpus));
  std::iota(parent.begin(), parent.end(), 0);
  const auto root = [&parent](int gpu) {
    while (parent[static_cast<std::size_t>(gpu)] != gpu) gpu = parent[static_cast<std::size_t>(gpu)];
    return gpu;
  };
  for (const MeshEdge& edge : node.mesh_links) parent[static_cast<std::size_t>(root(edge.a))] = root(edge.b);
  std::vector<int> size(parent.size());
  for (int gpu = 0; gpu < node.gpus; ++gpu) ++size[static_cast<std::size_t>(root(gpu))];
  const int first = size[static_cast<std::size_t>(root(0))];
  return (first > 1 || node.gpus == 1) &&
         std::all_of(size.begin(), size.end(), [first](int island) { return island == 0 || island == first; });
}

void check_mesh(const NodeSpec& node, const std::string& key, bool gpus_valid, Checker& checker) {
  if (node.wiring != GpuWiring::mesh) {
    if (!node.mesh_links.empty())
      checker.add(key + ".mesh_links", "given, but the wiring is not a mesh", "wiring: mesh");
    return;
  }
  bool valid = gpus_valid;
  std::set<std::pair<int, int>> seen;
  for (std::size_t i = 0; i < node.mesh_links.size(); ++i) {
    const MeshEdge& edge = node.mesh_links[i];
    const std::string edge_key = fmt::format("{}.mesh_links[{}]", key, i);
    for (const int end : {edge.a, edge.b}) {
      if (end >= 0 && end < node.gpus) continue;
      checker.add(edge_key, fmt::format("there is no GPU {}", end), fmt::format("0 to {}", node.gpus - 1));
      valid = false;
    }
    if (edge.a == edge.b) {
      checker.add(edge_key, fmt::format("GPU {} is joined to itself", edge.a));
    } else if (!seen.insert(std::minmax(edge.a, edge.b)).second) {
      checker.add(edge_key, fmt::format("GPUs {} and {} are joined twice", edge.a, edge.b), "add up their links");
    }
    checker.count(edge_key + ".links", edge.links, 1, kCountMax);
  }
  if (valid && !even_islands(node)) {
    checker.add(key + ".mesh_links", "the mesh joins neither all GPUs nor islands of equal size",
                "each GPU in a link; GPUs without NVLink at all: wiring: none");
  }
}

void check_host(const NodeSpec& node, const std::string& key, Checker& checker) {
  const LinkSpec& memory = node.memory_link;
  if (!memory.name.empty() || memory.bandwidth.count() != 0) checker.link(key + ".memory_link", memory);
  checker.count(key + ".drives", node.drives, 0, kCountMax);
  if (node.drives <= 0) return;
  checker.link(key + ".drive_read", node.drive_read);
  checker.link(key + ".drive_write", node.drive_write);
}

void check_node(const NodeSpec& node, const std::string& key, Checker& checker) {
  const bool gpus_valid = checker.count(key + ".gpus", node.gpus, 1, kGpusPerNodeMax);
  const bool sockets_valid = checker.count(key + ".sockets", node.sockets, 1, kSocketsMax);
  const int switches_most = sockets_valid ? kCountMax / node.sockets : kCountMax;
  checker.count(key + ".switches_per_socket", node.switches_per_socket, 0, switches_most);
  checker.count(key + ".nics", node.nics, 0, kCountMax);
  if (node.wiring != GpuWiring::none) checker.link(key + ".nvlink", node.nvlink);
  check_mesh(node, key, gpus_valid, checker);
  checker.link(key + ".pcie", node.pcie);
  if (node.nics > 0) checker.link(key + ".nic", node.nic);
  const bool socket_given = !node.socket_link.name.empty() || node.socket_link.bandwidth.count() != 0;
  if (node.sockets > 1 && socket_given) checker.link(key + ".socket_link", node.socket_link);
  check_host(node, key, checker);
  checker.number(key + ".host_power", node.host_power.count(), 0, kPowerMax);
  checker.number(key + ".cost_usd_per_hour", node.cost_usd_per_hour, 0, kPriceMax);
}

// Ranges of the fabric's parameters, from the registry.
void check_fabric(const FabricSpec& fabric, bool cables, Checker& checker) {
  struct Visitor {
    const FabricSpec& fabric;
    const FabricParameter& parameter;
    std::string key;
    bool cables;
    Checker& checker;
    void operator()(LinkSpec FabricSpec::*field) {
      if (cables) checker.link(key, fabric.*field);
    }
    void operator()(std::optional<Duration> FabricSpec::*field) {
      if (fabric.*field) checker.number(key, to_seconds(*(fabric.*field)), parameter.least, parameter.most);
    }
    void operator()(int FabricSpec::*field) {
      checker.count(key, fabric.*field, static_cast<int>(parameter.least), static_cast<int>(parameter.most));
    }
    void operator()(double FabricSpec::*field) { checker.number(key, fabric.*field, parameter.least, parameter.most); }
    void operator()(Routing FabricSpec::*) {}
  };
  for (const FabricParameter& parameter : fabric_info(fabric.kind).parameters) {
    std::visit(Visitor{fabric, parameter, fmt::format("cluster.fabric.{}", parameter.name), cables, checker},
               parameter.field);
  }
}

}  // namespace

std::string node_key(const ClusterSpec& spec, std::size_t group) { return group_key(spec, group) + ".node"; }

Problems check_cluster(const ClusterSpec& spec) {
  Problems problems;
  Checker checker(problems);
  if (spec.groups.empty()) checker.add("cluster.nodes", "a cluster needs at least one node");
  std::int64_t nodes = 0;
  std::int64_t gpus = 0;
  for (std::size_t i = 0; i < spec.groups.size(); ++i) {
    const NodeGroup& group = spec.groups[i];
    if (group.count < 1) {
      checker.add(group_key(spec, i) + ".nodes", fmt::format("{} is out of range", group.count), "at least 1");
    }
    nodes += std::max(0, group.count);
    gpus += std::int64_t{std::max(0, group.count)} * std::max(0, group.node.gpus);
    check_node(group.node, node_key(spec, i), checker);
  }
  if (gpus > kGpusMax) {
    checker.add("cluster.nodes", fmt::format("{} GPUs are more than can be simulated", gpus),
                fmt::format("at most {}", kGpusMax));
  }
  for (std::size_t i = 0; nodes > 1 && i < spec.groups.size(); ++i) {
    if (spec.groups[i].node.nics == 0) {
      checker.add(node_key(spec, i) + ".nics", fmt::format("a cluster of {} nodes needs a NIC in each", nodes),
                  "nics: 1 and a nic, or one node");
    }
  }
  check_fabric(spec.fabric, nodes > 1, checker);
  return problems;
}

}  // namespace orrery
