// Block `cluster`: which nodes, how many, and the fabric between them.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "scenarios/named.hpp"
#include "scenarios/readers.hpp"
#include "topology/registry.hpp"

namespace orrery {

namespace {

constexpr Range kNodes{1, 1e6};
constexpr Range kGpus{1, 1e7};

int index_in(Reader& reader, const YamlNode& node, const std::string& key, const auto& table) {
  std::vector<std::string_view> names;
  for (const auto& row : table) names.push_back(row.name);
  return read_one_of(reader, node, key, names);
}

const FabricInfo* read_fabric_kind(Reader& reader, const YamlNode& node, const std::string& key) {
  const int index = index_in(reader, node, key, kFabrics);
  return index < 0 ? nullptr : &kFabrics[static_cast<std::size_t>(index)];
}

// One parameter, by the type of the member that it sets.
class FabricParameterReader {
 public:
  FabricParameterReader(Reader& reader, const YamlNode& node, std::string key, const FabricParameter& parameter,
                        FabricSpec& fabric)
      : reader_(reader), node_(node), key_(std::move(key)), parameter_(parameter), fabric_(fabric) {}

  void operator()(LinkSpec FabricSpec::*member) const { read_link(reader_, node_, key_, fabric_.*member); }

  void operator()(std::optional<Duration> FabricSpec::*member) const {
    double picoseconds = 0;
    const Range range{parameter_.least * kPicosecondsPerSecond, parameter_.most * kPicosecondsPerSecond};
    if (read_number(reader_, node_, key_, Dimension::time, range, picoseconds)) {
      fabric_.*member = Duration(static_cast<std::int64_t>(picoseconds + 0.5));
    }
  }

  void operator()(int FabricSpec::*member) const {
    std::int64_t value = 0;
    if (read_integer(reader_, node_, key_, range(), value)) fabric_.*member = static_cast<int>(value);
  }

  void operator()(double FabricSpec::*member) const {
    read_number(reader_, node_, key_, Dimension::number, range(), fabric_.*member);
  }

  void operator()(Routing FabricSpec::*member) const {
    const int index = index_in(reader_, node_, key_, kRoutings);
    if (index >= 0) fabric_.*member = kRoutings[static_cast<std::size_t>(index)].routing;
  }

 private:
  [[nodiscard]] Range range() const { return {parameter_.least, parameter_.most}; }

  Reader& reader_;
  const YamlNode& node_;
  std::string key_;
  const FabricParameter& parameter_;
  FabricSpec& fabric_;
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

void read_fabric_parameters(Reader& reader, const YamlNode& node, const FabricInfo& info, FabricSpec& fabric) {
  for (const YamlEntry& entry : node.entries) {
    const std::string key = child_key("cluster.fabric", entry.key);
    reader.locate(key, entry.value.place);
    if (entry.key == "kind") continue;
    const auto parameter = std::find_if(info.parameters.begin(), info.parameters.end(),
                                        [&](const FabricParameter& known) { return known.name == entry.key; });
    if (parameter == info.parameters.end()) {
      std::vector<std::string> known{"kind"};
      for (const FabricParameter& row : info.parameters) known.emplace_back(row.name);
      report_unknown_key(reader, entry, key, known);
    } else if (!entry.value.is_null()) {
      std::visit(FabricParameterReader(reader, entry.value, key, *parameter, fabric), parameter->field);
    }
  }
}

// A kind alone, or {kind: ..., parameter: ...}. The cables are those of the first nodes' NICs unless said otherwise.
void read_fabric(Reader& reader, const YamlNode& block, bool nodes_good, ClusterSpec& cluster) {
  if (nodes_good) cluster.fabric.link = cluster.groups.front().node.nic;
  const YamlEntry* entry = block.find("fabric");
  if (entry == nullptr || entry->value.is_null()) return;
  const YamlNode& node = entry->value;
  const YamlEntry* kind = node.find("kind");
  if (node.is_map() && kind == nullptr) {
    report_missing_key(reader, node, "cluster.fabric", "kind", "such as kind: leaf-spine");
    return;
  }
  const FabricInfo* info = node.is_map() ? read_fabric_kind(reader, kind->value, "cluster.fabric.kind")
                                         : read_fabric_kind(reader, node, "cluster.fabric");
  if (info == nullptr) return;
  cluster.fabric.kind = info->kind;
  if (node.is_map()) read_fabric_parameters(reader, node, *info, cluster.fabric);
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
  docs.push_back(
      {"cluster.fabric.kind", "", "leaf-spine", "single-switch, leaf-spine, ...; default: single-switch", false});
  for (const FabricInfo& info : kFabrics) {
    for (const FabricParameter& parameter : info.parameters) {
      docs.push_back({child_key("cluster.fabric", parameter.name), "", std::string(parameter.default_text),
                      fmt::format("{}: {}", info.name, parameter.doc), false});
    }
  }
}

}  // namespace orrery
