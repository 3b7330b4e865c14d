// The small optional blocks: `variation`, `simulation`, `collectives`.
#include <fmt/format.h>

#include <array>

#include "scenarios/readers.hpp"

namespace orrery {

namespace {

using SlowRow = FieldRow<SlowPart>;
constexpr std::array kSlowRows{
    SlowRow{"gpu", &SlowPart::gpu, {}, "number of the GPU, from 0"},
    SlowRow{"link", &SlowPart::link, {}, "name of a link, or of a device for all of its links: node3.nic0"},
    SlowRow{"compute", &SlowPart::compute, kPositiveFraction, "factor on a GPU's compute and memory rates", false,
            Dimension::fraction},
    SlowRow{"bandwidth", &SlowPart::bandwidth, kPositiveFraction, "factor on the bandwidth of a link, or of a device's",
            false, Dimension::fraction},
};

void check_slow_part(Reader& reader, const YamlNode& node, const std::string& key) {
  const bool has_gpu = node.find("gpu") != nullptr;
  const bool has_link = node.find("link") != nullptr;
  if (has_gpu == has_link) {
    reader.problem(node.place, key, fmt::format("{} must name a gpu or a link{}", key, has_gpu ? ", not both" : ""),
                   "write it as in {gpu: 17, compute: 0.9} or {link: node3.nic0, bandwidth: 0.5}");
    return;
  }
  const std::string_view factor = has_gpu ? "compute" : "bandwidth";
  const std::string_view other = has_gpu ? "bandwidth" : "compute";
  if (const YamlEntry* wrong = node.find(other)) {
    reader.problem(wrong->key_place, child_key(key, other),
                   fmt::format("{} is no property of a {}", other, has_gpu ? "gpu" : "link"),
                   fmt::format("write {}", factor));
  } else if (node.find(factor) == nullptr) {
    report_missing_key(reader, node, key, factor, "such as 0.9");
  }
}

void read_slow(Reader& reader, const YamlNode& node, const std::string& key, VariationSpec& variation) {
  if (!expect_list(reader, node, key, "slow: [{gpu: 17, compute: 0.9}]")) return;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const std::string path = child_key(key, i);
    reader.locate(path, node.items[i].place);
    if (!expect_map(reader, node.items[i], path, "{gpu: 17, compute: 0.9}")) continue;
    SlowPart part;
    read_fields<SlowPart>(reader, node.items[i], path, kSlowRows, part);
    check_slow_part(reader, node.items[i], path);
    variation.slow.push_back(part);
  }
}

using VariationRow = FieldRow<VariationSpec>;
constexpr std::array kVariationRows{
    VariationRow{"kernel_jitter", &VariationSpec::kernel_jitter, Range{0, 0.5},
                 "standard deviation of a kernel sequence's duration", false, Dimension::fraction},
    VariationRow{"slow", &read_slow, {}, "a list of {gpu, compute} and {link, bandwidth}"},
};

constexpr std::array<std::string_view, 3> kFidelityNames{"auto", "message", "coupled"};

void read_fidelity(Reader& reader, const YamlNode& node, const std::string& key, SimulationSpec& simulation) {
  const int index = read_one_of(reader, node, key, kFidelityNames);
  if (index >= 0) simulation.fidelity = static_cast<Fidelity>(index);
}

void read_seed(Reader& reader, const YamlNode& node, const std::string& key, SimulationSpec& simulation) {
  std::int64_t seed = 0;
  if (read_integer(reader, node, key, Range{0, 9e15}, seed)) simulation.seed = static_cast<std::uint64_t>(seed);
}

using SimulationRow = FieldRow<SimulationSpec>;
constexpr std::array kSimulationRows{
    SimulationRow{"fidelity", &read_fidelity, {}, "of collectives: auto, message or coupled; default: auto"},
    SimulationRow{"seed", &read_seed, {}, "of all randomness, a whole number; default: 1"},
};

constexpr std::array<std::string_view, 4> kProtocolNames{"auto", "ll", "ll128", "simple"};

void read_protocol(Reader& reader, const YamlNode& node, const std::string& key, CollectivesSpec& collectives) {
  const int index = read_one_of(reader, node, key, kProtocolNames);
  if (index >= 0) collectives.protocol = kProtocolNames[static_cast<std::size_t>(index)];
}

using CollectivesRow = FieldRow<CollectivesSpec>;
constexpr std::array kCollectivesRows{
    CollectivesRow{"algorithm",
                   &CollectivesSpec::algorithm,
                   {},
                   "ring, tree, nvls, ..., or auto (as NCCL chooses); default: auto"},
    CollectivesRow{"channels", &CollectivesSpec::channels, Range{0, 64}, "0: as many as NCCL's search would find"},
    CollectivesRow{"protocol", &read_protocol, {}, "auto, ll, ll128 or simple; default: auto"},
    CollectivesRow{"sharp",
                   &CollectivesSpec::sharp,
                   {},
                   "auto may let the network's switches reduce, where they can (NCCL_COLLNET_ENABLE); default: false"},
    CollectivesRow{"pxn",
                   &CollectivesSpec::pxn,
                   {},
                   "point-to-point messages go over NVLink to the GPU on the receiver's rail; default: true"},
};

}  // namespace

void read_variation(Reader& reader, const YamlNode& node, VariationSpec& variation) {
  if (!expect_map(reader, node, "variation", "variation: {kernel_jitter: 2 %}")) return;
  read_fields<VariationSpec>(reader, node, "variation", kVariationRows, variation);
}

void read_simulation(Reader& reader, const YamlNode& node, SimulationSpec& simulation) {
  if (!expect_map(reader, node, "simulation", "simulation: {seed: 1}")) return;
  read_fields<SimulationSpec>(reader, node, "simulation", kSimulationRows, simulation);
}

void read_collectives(Reader& reader, const YamlNode& node, CollectivesSpec& collectives) {
  if (!expect_map(reader, node, "collectives", "collectives: {algorithm: auto}")) return;
  read_fields<CollectivesSpec>(reader, node, "collectives", kCollectivesRows, collectives);
}

void append_variation_docs(std::vector<KeyDoc>& docs) {
  append_docs<VariationSpec>(docs, "variation", kVariationRows);
  append_docs<SlowPart>(docs, "variation.slow[]", kSlowRows);
}

void append_simulation_docs(std::vector<KeyDoc>& docs) {
  append_docs<SimulationSpec>(docs, "simulation", kSimulationRows);
}

void append_collectives_docs(std::vector<KeyDoc>& docs) {
  append_docs<CollectivesSpec>(docs, "collectives", kCollectivesRows);
}

}  // namespace orrery
