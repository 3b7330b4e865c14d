// Block `cluster`: which nodes, how many, and the fabric between them.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "scenarios/named.hpp"
#include "scenarios/readers.hpp"

namespace orrery {

namespace {

constexpr Range kNodes{1, 1e6};
constexpr Range kGpus{1, 1e7};

constexpr std::array<std::string_view, 4> kFabricKindNames{"single-switch", "leaf-spine", "fat-tree", "rail-optimized"};
constexpr std::array<std::string_view, 3> kRoutingNames{"adaptive", "ecmp", "fixed"};

void read_fabric_kind(Reader& reader, const YamlNode& node, const std::string& key, FabricSpec& fabric) {
  const int index = read_one_of(reader, node, key, kFabricKindNames);
  if (index >= 0) fabric.kind = static_cast<FabricKind>(index);
}

void read_routing(Reader& reader, const YamlNode& node, const std::string& key, FabricSpec& fabric) {
  const int index = read_one_of(reader, node, key, kRoutingNames);
  if (index >= 0) fabric.routing = static_cast<Routing>(index);
}

void read_fabric_link(Reader& reader, const YamlNode& node, const std::string& key, FabricSpec& fabric) {
  read_link(reader, node, key, fabric.link);
}

void read_switch_latency(Reader& reader, const YamlNode& node, const std::string& key, FabricSpec& fabric) {
  double picoseconds = 0;
  if (read_number(reader, node, key, Dimension::time, kTime, picoseconds)) {
    fabric.switch_latency = Duration(static_cast<std::int64_t>(picoseconds + 0.5));
  }
}

using FabricRow = FieldRow<FabricSpec>;
constexpr Range kOversubscription{1, 1024};
constexpr std::array kFabricRows{
    FabricRow{"kind", &read_fabric_kind, {}, "single-switch, leaf-spine, fat-tree or rail-optimized", true},
    FabricRow{"link", &read_fabric_link, {}, "one cable between switches; default: the link of the first nodes' NICs"},
    FabricRow{"switch_latency", &read_switch_latency, {}, "added by each switch, such as 300 ns; default: the link's"},
    FabricRow{"nodes_per_leaf", &FabricSpec::nodes_per_leaf, kNodes,
              "nodes below one leaf switch (rail-optimized: of one unit); default: 32"},
    FabricRow{"leaves_per_pod", &FabricSpec::leaves_per_pod, kNodes, "fat-tree: default: 32"},
    FabricRow{"oversubscription", &FabricSpec::oversubscription, kOversubscription,
              "capacity down over capacity up at the leaf; default: 1"},
    FabricRow{"core_oversubscription", &FabricSpec::core_oversubscription, kOversubscription,
              "fat-tree: the same at the aggregation tier; default: 1"},
    FabricRow{"routing", &read_routing, {}, "adaptive, ecmp or fixed; default: adaptive"},
};

struct Counts {
  std::int64_t nodes = 0;  // 0: not given
  std::int64_t gpus = 0;
};

void read_counts(Reader& reader, const YamlNode& node, const std::string& key, Counts& counts) {
  const auto read = [&](std::string_view name, Range range, std::int64_t& out) {
    const YamlEntry* entry = node.find(name);
    if (entry == nullptr || entry->value.is_null()) return;
    read_integer(reader, entry->value, child_key(key, name), range, out);
  };
  read("nodes", kNodes, counts.nodes);
  read("gpus", kGpus, counts.gpus);
}

// Reports keys of `map` that are none of `known`, and remembers where the others stand.
void check_keys(Reader& reader, const YamlNode& map, const std::string& key, std::span<const std::string_view> known) {
  for (const YamlEntry& entry : map.entries) {
    const std::string path = child_key(key, entry.key);
    reader.locate(path, entry.value.place);
    if (std::find(known.begin(), known.end(), entry.key) == known.end()) {
      report_unknown_key(reader, entry, path, std::vector<std::string>(known.begin(), known.end()));
    }
  }
}

// Nodes enough for `gpus`; the GPUs must fill whole nodes, but for the last.
void settle_one_kind(Reader& reader, const YamlNode& block, const Counts& counts, Scenario& scenario) {
  NodeGroup& group = scenario.cluster.groups.front();
  const std::int64_t per_node = group.node.gpus;
  if (counts.nodes == 0 && counts.gpus == 0) {
    report_missing_key(reader, block, "cluster", "nodes", "how many nodes, or gpus: how many GPUs");
    return;
  }
  const std::int64_t nodes = counts.nodes > 0 ? counts.nodes : divide_up(counts.gpus, per_node);
  if (nodes > static_cast<std::int64_t>(kNodes.most)) {
    reader.problem(reader.place_of("cluster.gpus"), "cluster.gpus",
                   fmt::format("{} GPUs need {} nodes of {}", counts.gpus, nodes, per_node), "at most 1000000 nodes");
    return;
  }
  group.count = static_cast<int>(nodes);
  scenario.gpus = counts.gpus > 0 ? counts.gpus : nodes * per_node;
  const bool fits = scenario.gpus <= nodes * per_node && scenario.gpus > (nodes - 1) * per_node;
  if (!fits) {
    reader.problem(
        reader.place_of("cluster.gpus"), "cluster.gpus",
        fmt::format("{} GPUs do not fill {} nodes of {} GPUs", counts.gpus, nodes, per_node),
        fmt::format("nearest valid: {} nodes, or {} GPUs", divide_up(counts.gpus, per_node), nodes * per_node));
  }
}

void settle_groups(Reader& reader, const Counts& counts, Scenario& scenario) {
  std::int64_t total = 0;
  for (const NodeGroup& group : scenario.cluster.groups) total += std::int64_t{group.count} * group.node.gpus;
  scenario.gpus = counts.gpus > 0 ? counts.gpus : total;
  const std::int64_t last = scenario.cluster.groups.back().node.gpus;
  if (scenario.gpus > total || scenario.gpus <= total - last) {
    reader.problem(reader.place_of("cluster.gpus"), "cluster.gpus",
                   fmt::format("{} GPUs do not fill groups of {} GPUs in all", scenario.gpus, total),
                   "only the last node may be used in part");
  }
}

bool read_group(Reader& reader, const YamlNode& node, const std::string& key, NodeGroup& group) {
  constexpr std::string_view kKeys[] = {"node", "nodes"};
  reader.locate(key, node.place);
  if (!expect_map(reader, node, key, "- {node: dgx-a100-80gb, nodes: 4}")) return false;
  check_keys(reader, node, key, kKeys);
  const YamlEntry* kind = node.find("node");
  std::int64_t count = 1;
  if (const YamlEntry* nodes = node.find("nodes")) {
    if (!read_integer(reader, nodes->value, child_key(key, "nodes"), kNodes, count)) return false;
  }
  group.count = static_cast<int>(count);
  if (kind == nullptr) {
    report_missing_key(reader, node, key, "node", "a catalogue name, or an inline node");
    return false;
  }
  return read_node(reader, kind->value, child_key(key, "node"), group.node);
}

bool read_groups(Reader& reader, const YamlNode& node, ClusterSpec& cluster) {
  constexpr std::size_t kGroupsMax = 10'000;
  if (!expect_list(reader, node, "cluster.groups", "groups: [{node: dgx-a100-80gb, nodes: 4}]")) return false;
  if (node.items.empty() || node.items.size() > kGroupsMax) {
    reader.problem(node.place, "cluster.groups", fmt::format("cluster.groups has {} groups", node.items.size()),
                   "from 1 to 10000");
    return false;
  }
  bool good = true;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    cluster.groups.emplace_back();
    good = read_group(reader, node.items[i], child_key("cluster.groups", i), cluster.groups.back()) && good;
  }
  return good;
}

void read_fabric(Reader& reader, const YamlNode& block, bool nodes_good, ClusterSpec& cluster) {
  if (nodes_good) cluster.fabric.link = cluster.groups.front().node.nic;
  const YamlEntry* entry = block.find("fabric");
  if (entry == nullptr || entry->value.is_null()) return;
  const YamlNode& node = entry->value;
  if (node.is_scalar()) {
    read_fabric_kind(reader, node, "cluster.fabric", cluster.fabric);
  } else if (expect_map(reader, node, "cluster.fabric", "fabric: {kind: leaf-spine, link: hdr-infiniband}")) {
    read_fields<FabricSpec>(reader, node, "cluster.fabric", kFabricRows, cluster.fabric);
  }
}

}  // namespace

void read_cluster(Reader& reader, const YamlNode& node, Scenario& scenario) {
  constexpr std::string_view kKeys[] = {"node", "groups", "nodes", "gpus", "fabric"};
  if (!expect_map(reader, node, "cluster", "cluster: {node: dgx-a100-80gb, nodes: 4}")) return;
  check_keys(reader, node, "cluster", kKeys);
  Counts counts;
  const std::size_t before = reader.problems().size();
  read_counts(reader, node, "cluster", counts);
  const bool counts_good = reader.problems().size() == before;
  const YamlEntry* kind = node.find("node");
  const YamlEntry* groups = node.find("groups");
  bool nodes_good = false;
  if (kind != nullptr && groups != nullptr) {
    reader.problem(groups->key_place, "cluster.groups", "cluster has both node and groups", "keep one of them");
  } else if (kind != nullptr) {
    scenario.cluster.groups.emplace_back();
    nodes_good = read_node(reader, kind->value, "cluster.node", scenario.cluster.groups.front().node);
    if (nodes_good && counts_good) settle_one_kind(reader, node, counts, scenario);
  } else if (groups != nullptr) {
    nodes_good = read_groups(reader, groups->value, scenario.cluster);
    if (counts.nodes > 0) {
      reader.problem(reader.place_of("cluster.nodes"), "cluster.nodes", "groups have their own numbers of nodes",
                     "write nodes: inside each group");
    } else if (nodes_good && counts_good) {
      settle_groups(reader, counts, scenario);
    }
  } else {
    report_missing_key(reader, node, "cluster", "node", "a catalogue name, an inline node, or groups: of them");
  }
  read_fabric(reader, node, nodes_good, scenario.cluster);
}

void append_cluster_docs(std::vector<KeyDoc>& docs) {
  docs.push_back({"cluster.node", "", "", "a catalogue name, or an inline node", true});
  docs.push_back({"cluster.nodes", "integer", "128", "how many nodes", false});
  docs.push_back({"cluster.gpus", "integer", "1024",
                  "in place of nodes: how many GPUs; the last node may be used in part", false});
  docs.push_back({"cluster.groups", "", "[{node: dgx-a100-80gb, nodes: 4}]",
                  "in place of node and nodes: nodes of several kinds", false});
  append_docs<FabricSpec>(docs, "cluster.fabric", kFabricRows);
}

}  // namespace orrery
