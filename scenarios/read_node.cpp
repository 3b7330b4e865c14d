// Links and nodes: the catalogue's files, and those that a scenario describes itself.
#include <fmt/format.h>

#include <array>

#include "scenarios/named.hpp"
#include "scenarios/readers.hpp"
#include "topology/registry.hpp"

namespace orrery {

namespace {

// What an inline node's PCIe is where it does not say: the generation that most servers of the catalogue's GPUs have.
constexpr std::string_view kDefaultPcie = "pcie4";
constexpr Range kParts{1, 4096};  // of one node
constexpr Range kPartsOrNone{0, 4096};

using LinkRow = FieldRow<LinkSpec>;
constexpr std::array kLinkRows{
    LinkRow{"bandwidth", &LinkSpec::bandwidth, kDataRate, "of one direction, nominal", true},
    LinkRow{"latency", &LinkSpec::latency, kTime, "cable and ports, from sender to receiver", true},
    LinkRow{"efficiency", &LinkSpec::efficiency, kPositiveFraction,
            "fraction of nominal that payload reaches; default: 1", false, Dimension::fraction},
    LinkRow{"adapter_latency", &LinkSpec::adapter_latency, kTime, "added by a NIC at the end of such a link"},
    LinkRow{"switch_latency", &LinkSpec::switch_latency, kTime, "added by a switch made for such links"},
    LinkRow{"in_network_reduction",
            &LinkSpec::in_network_reduction,
            {},
            "whether a switch made for such links adds up what its ports send (SHARP); default: false"},
};

void read_wiring(Reader& reader, const YamlNode& node, const std::string& key, NodeSpec& out) {
  std::array<std::string_view, kWirings.size()> names{};
  for (std::size_t i = 0; i < kWirings.size(); ++i) names[i] = kWirings[i].name;
  const int index = read_one_of(reader, node, key, names);
  if (index >= 0) out.wiring = kWirings[static_cast<std::size_t>(index)].wiring;
}

std::string_view name_of(GpuWiring wiring) {
  for (const WiringInfo& info : kWirings) {
    if (info.wiring == wiring) return info.name;
  }
  return "";
}

// [0, 1, 2]: two links between GPUs 0 and 1; [0, 1]: one.
void read_mesh_edge(Reader& reader, const YamlNode& node, const std::string& key, NodeSpec& out) {
  if (!node.is_sequence() || node.items.size() < 2 || node.items.size() > 3) {
    reader.problem(node.place, key, fmt::format("{} must be two GPUs and a number of links", key),
                   "write it as in [0, 1, 2]: two links between GPUs 0 and 1");
    return;
  }
  std::array<std::int64_t, 3> numbers{0, 0, 1};
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    if (!read_integer(reader, node.items[i], child_key(key, i), i < 2 ? kPartsOrNone : kParts, numbers[i])) return;
  }
  out.mesh_links.push_back({static_cast<int>(numbers[0]), static_cast<int>(numbers[1]), static_cast<int>(numbers[2])});
}

void read_mesh(Reader& reader, const YamlNode& node, const std::string& key, NodeSpec& out) {
  if (!expect_list(reader, node, key, "mesh_links: [[0, 1, 2], [0, 2, 1]]")) return;
  out.mesh_links.clear();
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    reader.locate(child_key(key, i), node.items[i].place);
    read_mesh_edge(reader, node.items[i], child_key(key, i), out);
  }
}

template <LinkSpec NodeSpec::*member>
void read_node_link(Reader& reader, const YamlNode& node, const std::string& key, NodeSpec& out) {
  read_link(reader, node, key, out.*member);
}

void read_node_gpu(Reader& reader, const YamlNode& node, const std::string& key, NodeSpec& out) {
  read_gpu(reader, node, key, out.gpu);
}

using NodeRow = FieldRow<NodeSpec>;
constexpr std::array kNodeRows{
    NodeRow{"gpus", &NodeSpec::gpus, kParts, "GPUs of the node", true},
    NodeRow{"gpu", &read_node_gpu, {}, "their kind: a catalogue name, or peak, memory, ... inline", true},
    NodeRow{"wiring", &read_wiring, {}, "between GPUs: none (PCIe only), nvswitch or mesh"},
    NodeRow{"nvlink",
            &read_node_link<&NodeSpec::nvlink>,
            {},
            "nvswitch: one GPU's total into the switch; mesh: one link; per direction"},
    NodeRow{"mesh_links", &read_mesh, {}, "mesh: a list of [GPU, GPU, links]"},
    NodeRow{"sockets", &NodeSpec::sockets, kParts, "CPU sockets"},
    NodeRow{"switches_per_socket", &NodeSpec::switches_per_socket, kPartsOrNone, "PCIe switches below each socket"},
    NodeRow{"pcie", &read_node_link<&NodeSpec::pcie>, {}, "PCIe link of a GPU, a NIC and a switch's uplink"},
    NodeRow{"socket_link", &read_node_link<&NodeSpec::socket_link>, {}, "between any two sockets; default: not joined"},
    NodeRow{"nics", &NodeSpec::nics, kPartsOrNone, "network ports of the node"},
    NodeRow{"nic", &read_node_link<&NodeSpec::nic>, {}, "the link of such a port"},
    NodeRow{"host_memory", &NodeSpec::host_memory, kSize, "main memory of the node"},
    NodeRow{"memory_link",
            &read_node_link<&NodeSpec::memory_link>,
            {},
            "memory of one socket, reads and writes together; without it nothing is offloaded"},
    NodeRow{"drives", &NodeSpec::drives, kPartsOrNone, "local drives, striped; default: 0"},
    NodeRow{"drive_read", &read_node_link<&NodeSpec::drive_read>, {}, "reading from one of them"},
    NodeRow{"drive_write", &read_node_link<&NodeSpec::drive_write>, {}, "writing to one of them"},
    NodeRow{"drive_capacity", &NodeSpec::drive_capacity, kSize, "of one drive"},
    NodeRow{"host_power", &NodeSpec::host_power, kPower, "of everything but the GPUs, at load"},
    NodeRow{"cost_usd_per_hour", &NodeSpec::cost_usd_per_hour, Range{0, 1e6}, "cloud price of the whole node"},
};

// The NVLink of the first catalogue node that wires the same GPU in the same way.
bool nvlink_of_like_node(Reader& reader, NodeSpec& out) {
  for (const std::string& name : reader.catalog().names(CatalogKind::node)) {
    const Result<NodeSpec>& node = reader.catalog().node(name);
    if (node && node->gpu.name == out.gpu.name && node->wiring == out.wiring) {
      out.nvlink = node->nvlink;
      return true;
    }
  }
  return false;
}

// What an inline node leaves out, where there is a sensible default; a problem where there is none.
void complete_node(Reader& reader, const YamlNode& node, const std::string& key, NodeSpec& out) {
  const auto given = [&](std::string_view name) { return node.find(name) != nullptr; };
  if (out.wiring != GpuWiring::none && !given("nvlink") && !nvlink_of_like_node(reader, out)) {
    report_missing_key(
        reader, node, key, "nvlink",
        fmt::format("wiring {} needs it, such as nvlink: {{bandwidth: 300 GB/s, latency: 1 us}}", name_of(out.wiring)));
  }
  if (out.wiring == GpuWiring::mesh && out.mesh_links.empty()) {
    report_missing_key(reader, node, key, "mesh_links", "such as mesh_links: [[0, 1, 2]]");
  }
  if (!given("pcie")) {
    const Result<LinkSpec>& pcie = reader.catalog().link(std::string(kDefaultPcie));
    if (pcie) {
      out.pcie = pcie.value();
    } else {
      report_missing_key(reader, node, key, "pcie", "such as pcie: {bandwidth: 32 GB/s, latency: 500 ns}");
    }
  }
  if (out.nics > 0 && !given("nic")) {
    report_missing_key(reader, node, key, "nic", "such as nic: {bandwidth: 25 Gb/s, latency: 2 us}; or nics: 0");
  }
}

}  // namespace

void read_link_entry(Reader& reader, const YamlNode& root, LinkSpec& link) {
  read_fields<LinkSpec>(reader, root, "", kLinkRows, link, true, kSourceKeys);
}

void read_node_entry(Reader& reader, const YamlNode& root, NodeSpec& node) {
  const std::size_t before = reader.problems().size();
  read_fields<NodeSpec>(reader, root, "", kNodeRows, node, true, kSourceKeys);
  if (reader.problems().size() == before) complete_node(reader, root, "", node);
}

bool read_link(Reader& reader, const YamlNode& node, const std::string& key, LinkSpec& link) {
  constexpr std::string_view kOwn[] = {kBaseKey, "name"};
  const Given given = read_base<LinkSpec>(reader, node, key, &Catalog::link, link);
  if (given == Given::wrong) return false;
  if (given == Given::name) return true;
  const std::size_t before = reader.problems().size();
  const bool changes = given == Given::changes || !link.name.empty();  // of a base here, or of the node's own link
  read_fields<LinkSpec>(reader, node, key, kLinkRows, link, !changes, kOwn);
  if (const YamlEntry* name = node.find("name")) read_text(reader, name->value, child_key(key, "name"), link.name);
  if (link.name.empty()) link.name = "inline";
  return reader.problems().size() == before;
}

bool read_node(Reader& reader, const YamlNode& node, const std::string& key, NodeSpec& out) {
  constexpr std::string_view kOwn[] = {kBaseKey, "name"};
  const Given given = read_base<NodeSpec>(reader, node, key, &Catalog::node, out);
  if (given == Given::wrong) return false;
  if (given == Given::name) return true;
  const std::size_t before = reader.problems().size();
  read_fields<NodeSpec>(reader, node, key, kNodeRows, out, given == Given::inline_map, kOwn);
  if (const YamlEntry* name = node.find("name")) read_text(reader, name->value, child_key(key, "name"), out.name);
  if (out.name.empty()) out.name = "inline";
  if (given == Given::inline_map && reader.problems().size() == before) complete_node(reader, node, key, out);
  return reader.problems().size() == before;
}

void append_link_docs(std::vector<KeyDoc>& docs, const std::string& prefix) {
  append_docs<LinkSpec>(docs, prefix, kLinkRows);
}

void append_node_docs(std::vector<KeyDoc>& docs, const std::string& prefix) {
  append_docs<NodeSpec>(docs, prefix, kNodeRows);
}

}  // namespace orrery
