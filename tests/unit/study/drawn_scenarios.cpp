#include "tests/unit/study/drawn_scenarios.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <initializer_list>
#include <map>
#include <span>
#include <string_view>
#include <vector>

#include "scenarios/load.hpp"
#include "sim/base/random.hpp"
#include "sim/exec/collectives/algorithm.hpp"
#include "topology/registry.hpp"
#include "topology/topology.hpp"

namespace orrery::test {

namespace {

class Draws {
 public:
  explicit Draws(std::uint64_t seed) : random_(seed) {}

  std::int64_t between(std::int64_t least, std::int64_t most) {
    return least + static_cast<std::int64_t>(random_.below(static_cast<std::uint64_t>(most - least + 1)));
  }
  bool once_in(std::int64_t n) { return between(1, n) == 1; }
  template <class Item>
  Item one_of(std::initializer_list<Item> items) {
    return *(items.begin() + between(0, static_cast<std::int64_t>(items.size()) - 1));
  }
  template <class Rows>
  const auto& row_of(const Rows& rows) {
    return rows[static_cast<std::size_t>(between(0, static_cast<std::int64_t>(rows.size()) - 1))];
  }

 private:
  RandomStream random_;
};

struct Degrees {
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t context = 1;
  std::int64_t data = 1;

  [[nodiscard]] std::int64_t gpus() const { return tensor * pipeline * context * data; }
};

Degrees draw_degrees(Draws& draws) {
  Degrees degrees;
  degrees.tensor = draws.one_of<std::int64_t>({1, 1, 2, 3, 4, 8});
  degrees.pipeline = draws.one_of<std::int64_t>({1, 1, 2, 4});
  if (draws.once_in(6) && degrees.tensor * degrees.pipeline <= 16) degrees.context = 2;
  degrees.data = draws.between(1, 64 / (degrees.tensor * degrees.pipeline * degrees.context));
  return degrees;
}

// All parameters but the latency, which has no bearing on symmetry.
std::string draw_fabric(Draws& draws) {
  const FabricInfo& kind = draws.row_of(kFabrics);
  const std::int64_t nodes_per_leaf = draws.between(1, 4);
  const std::int64_t leaves_per_pod = draws.between(1, 3);
  const int oversubscription = draws.one_of({1, 2, 4});
  const int core_oversubscription = draws.one_of({1, 1, 2});
  const std::string_view routing = draws.row_of(kRoutings).name;
  const std::map<std::string_view, std::string> values{
      {"link", "10-gigabit-ethernet"},
      {"nodes_per_leaf", fmt::to_string(nodes_per_leaf)},
      {"leaves_per_pod", fmt::to_string(leaves_per_pod)},
      {"oversubscription", fmt::to_string(oversubscription)},
      {"core_oversubscription", fmt::to_string(core_oversubscription)},
      {"routing", std::string(routing)},
  };
  std::string text = fmt::format("{{kind: {}", kind.name);
  for (const FabricParameter& parameter : kind.parameters) {
    const auto value = values.find(parameter.name);
    if (value != values.end()) text += fmt::format(", {}: {}", value->first, value->second);
  }
  return text + "}";
}

struct Nodes {
  std::string_view name;
  std::int64_t gpus = 0;
};

struct DrawnCluster {
  std::string text;
  std::int64_t nodes = 0;
};

DrawnCluster draw_cluster(Draws& draws, std::int64_t gpus) {
  const Nodes nodes = draws.one_of<Nodes>({{"dgx-a100-40gb", 8},
                                           {"dgx-h100", 8},
                                           {"dgx-h100", 8},
                                           {"dgx1-v100-16gb", 8},
                                           {"pcie-4x-rtx-4090", 4},
                                           {"single-a100-80gb", 1},
                                           {"hgx-a100-80gb-4nic", 8}});
  const std::int64_t count = (gpus + nodes.gpus - 1) / nodes.gpus;
  std::string text = "cluster:\n";
  if (count > 1 && draws.once_in(4)) {
    const Nodes other = nodes.gpus == 8 ? Nodes{"hgx-a100-80gb-4nic", 8}
                                        : Nodes{nodes.gpus == 4 ? "pcie-4x-a100-40gb" : "single-h100-80gb", nodes.gpus};
    const std::int64_t first = draws.between(1, count - 1);
    text += fmt::format("  groups: [{{node: {}, nodes: {}}}, {{node: {}, nodes: {}}}]\n", nodes.name, first, other.name,
                        count - first);
  } else {
    text += fmt::format("  node: {}\n  nodes: {}\n", nodes.name, count);
  }
  text += fmt::format("  gpus: {}\n  fabric: {}\n", gpus, draw_fabric(draws));
  return {text, count};
}

std::string draw_value(Draws& draws, const OptionDoc& option) {
  if (option.type == "boolean") return draws.once_in(2) ? "true" : "false";
  if (option.type == "bytes") return fmt::format("{} KiB", draws.one_of({256, 1024, 4096}));
  if (option.type == "text" && !option.values.empty()) return std::string(draws.row_of(option.values));
  if (option.type == "number") {
    return fmt::format("{}",
                       option.least + (option.most - option.least) * static_cast<double>(draws.between(0, 4)) / 4);
  }
  if (option.type != "integer" && option.type != "boolean or integer") return std::string(option.default_value);
  // Sizes in elements, or small counts.
  const auto least = static_cast<std::int64_t>(option.least);
  const bool unbounded = option.least == option.most;
  const auto most = static_cast<std::int64_t>(unbounded ? 1e9 : option.most);
  if (most >= 1'000'000) {
    return fmt::to_string(std::max(least, draws.one_of<std::int64_t>({100'000, 300'000, 2'000'000})));
  }
  return fmt::to_string(std::clamp<std::int64_t>(draws.one_of<std::int64_t>({0, 1, 2, 4}), least, most));
}

// Every fourth option is given, for half of the choices.
std::string draw_choice(Draws& draws, std::span<const RegistryRow> rows) {
  const RegistryRow& row = draws.row_of(rows);
  std::string text = fmt::format("{{kind: {}", row.name);
  const bool plain = draws.once_in(2);
  for (const OptionDoc& option : row.options) {
    const std::string value = draw_value(draws, option);
    if (draws.once_in(4) && !plain && option.type != "file") text += fmt::format(", {}: {}", option.name, value);
  }
  return text + "}";
}

// Layers of the stages, each at least one.
std::string draw_stage_layers(Draws& draws, std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> of(static_cast<std::size_t>(stages), 1);
  for (std::int64_t layer = stages; layer < layers; ++layer) {
    ++of[static_cast<std::size_t>(draws.between(0, stages - 1))];
  }
  return fmt::format("[{}]", fmt::join(of, ", "));
}

std::string draw_model(Draws& draws, const Degrees& degrees, std::int64_t layers, bool experts) {
  const int kv_heads = degrees.tensor == 1 ? draws.one_of({1, 24}) : 24;
  std::string text = fmt::format(
      "model: {{layers: {}, hidden: 384, heads: 24, kv_heads: {}, ffn_hidden: 1536, vocabulary: 1024, positions: 240",
      layers, kv_heads);
  if (experts) {
    const int shared = draws.one_of({0, 1});
    const int dense = draws.one_of({0, 0, 1});
    text += fmt::format(", experts: 8, top_k: 2, expert_ffn_hidden: 768, shared_experts: {}, dense_layers: {}", shared,
                        dense);
  }
  return text + "}\n";
}

std::string draw_plan(Draws& draws, const Degrees& degrees) {
  const std::int64_t layers = 4 * draws.between(1, 2);
  const bool experts = draws.once_in(3);
  std::string text = draw_model(draws, degrees, layers, experts);
  const std::int64_t micro_batches = draws.between(1, 2) * degrees.pipeline;
  const auto recompute = draws.one_of<std::string_view>({"none", "selective", "full"});
  const auto framework = draws.one_of<std::string_view>({"megatron-lm", "pytorch-eager", "megatron-lm-graphs"});
  const bool routed = draws.once_in(2);  // evenly where not: some kinds of dispatch know nothing else
  const std::string routing = draw_choice(draws, routing_rows());
  text += fmt::format(
      "training: {{sequence_length: 240, global_batch: {}, micro_batch: 1, precision: fp16, optimizer: adamw, "
      "recompute: {}, framework: {}{}}}\n",
      degrees.data * micro_batches, recompute, framework, experts && routed ? ", routing: " + routing : "");
  const bool sequence_parallel = degrees.tensor > 1 && draws.once_in(2);
  text += fmt::format("parallelism: {{tensor: {}, pipeline: {}, data: {}, sequence_parallel: {}, sharding: {}",
                      degrees.tensor, degrees.pipeline, degrees.data, sequence_parallel,
                      draw_choice(draws, sharding_rows()));
  if (sequence_parallel && layers == 4) text += ", tp_comm_overlap: true";
  const std::string schedule = draw_choice(draws, schedule_rows());
  const std::string stage_layers = draw_stage_layers(draws, layers, degrees.pipeline);
  if (degrees.pipeline > 1) text += fmt::format(", schedule: {}", schedule);
  if (degrees.pipeline > 1 && draws.once_in(3)) text += fmt::format(", stage_layers: {}", stage_layers);
  const std::string context_kind = draw_choice(draws, context_rows());
  if (degrees.context > 1) text += fmt::format(", context: {}, context_kind: {}", degrees.context, context_kind);
  const std::string dispatch = draw_choice(draws, dispatch_rows());
  if (experts) text += fmt::format(", expert: {}, dispatch: {}", degrees.data % 2 == 0 ? 2 : 1, dispatch);
  return text + "}\n";
}

std::string draw_traffic(Draws& draws, std::uint64_t seed) {
  const bool any = draws.once_in(2);
  const std::string_view algorithm = draws.row_of(collective_algorithm_rows()).name;
  const auto protocol = draws.one_of<std::string_view>({"auto", "auto", "simple", "ll", "ll128"});
  const auto fidelity = draws.one_of<std::string_view>({"message", "coupled", "coupled"});
  const auto channels = draws.one_of({0, 0, 1, 3});
  const bool sharp = draws.once_in(2);
  const bool pxn = !draws.once_in(4);
  return fmt::format(
      "collectives: {{algorithm: {}, protocol: {}, channels: {}, sharp: {}, pxn: {}}}\n"
      "simulation: {{seed: {}, fidelity: {}}}\n",
      any ? "auto" : algorithm, protocol, channels, sharp, pxn, seed, fidelity);
}

// A link is named by its node and NIC, and FABRIC for the switch that it leads to.
std::string draw_variation(Draws& draws, std::int64_t gpus, std::int64_t nodes) {
  std::vector<std::string> slow;
  if (draws.once_in(4)) slow.push_back(fmt::format("{{gpu: {}, compute: 0.9}}", draws.between(0, gpus - 1)));
  if (draws.once_in(4)) {
    slow.push_back(fmt::format("{{link: node{}.nic0->{}, bandwidth: 0.5}}", draws.between(0, nodes - 1), "FABRIC"));
  } else if (draws.once_in(4)) {
    // A device: all of its links, NVLink and PCIe among them.
    const auto device = draws.one_of<std::string_view>({"nic0", "gpu0"});
    slow.push_back(fmt::format("{{link: node{}.{}, bandwidth: 0.5}}", draws.between(0, nodes - 1), device));
  }
  const bool jitter = draws.once_in(12);
  if (slow.empty() && !jitter) return "";
  return fmt::format("variation: {{kernel_jitter: {} %, slow: [{}]}}\n", jitter ? 2 : 0, fmt::join(slow, ", "));
}

// On Hopper most plans are in fp8, which no draw decides, so that all other cases stay what they are.
std::string with_formats(std::string text, std::uint64_t seed) {
  const auto has = [&](std::string_view part) { return text.find(part) != std::string::npos; };
  if (has("kind: bf16-optimizer")) {
    constexpr std::string_view kHalf = "precision: fp16";
    return text.replace(text.find(kHalf), kHalf.size(), "precision: bf16");
  }
  if (!has("node: dgx-h100\n") || has("fsdp") || has("zero3")) return text;
  constexpr std::string_view kFormat = "precision: fp16, optimizer: adamw";
  const std::string_view recipe = seed % 3 == 0 ? "block" : "delayed";
  return text.replace(text.find(kFormat), kFormat.size(),
                      fmt::format("precision: fp8, fp8: {}, optimizer: adamw-8bit", recipe));
}

// Every fifth plan trains a part of its weights, which no draw decides either.
std::string with_trainable(std::string text, std::uint64_t seed) {
  constexpr std::array<std::string_view, 5> kTrained{
      "lora: {rank: 4, targets: all-linear}", "lora: {rank: 8, targets: attention, dropout: 0.1}",
      "trainable: [attention, norms]", "trainable: [mlp]", "frozen: [layers 0-1]"};
  if (seed % 5 != 2 || text.find("fp8") != std::string::npos) return text;
  constexpr std::string_view kBefore = "training: {";
  return text.insert(text.find(kBefore) + kBefore.size(), fmt::format("{}, ", kTrained[seed / 5 % kTrained.size()]));
}

std::string scenario_of(std::uint64_t seed) {
  Draws draws(seed);
  const Degrees degrees = draw_degrees(draws);
  const DrawnCluster cluster = draw_cluster(draws, degrees.gpus());
  std::string text = "name: a random case\n" + cluster.text;
  text += draw_plan(draws, degrees);
  text += draw_traffic(draws, seed);
  text += draw_variation(draws, degrees.gpus(), cluster.nodes);
  return with_trainable(with_formats(std::move(text), seed), seed);
}

// The name of the switch at the other end of a NIC's port, where the scenario says FABRIC.
std::string with_names(std::string text) {
  const std::size_t at = text.find("FABRIC");
  if (at == std::string::npos) return text;
  const std::size_t from = text.rfind("node", at);
  const std::string nic = text.substr(from, at - from);
  std::string without = text;
  const std::size_t line = without.rfind("variation:");
  without.resize(line);
  const Result<Scenario> scenario = load_scenario_text(without, "case.yaml");
  if (!scenario) return without;
  const Result<Topology> topology = Topology::build(scenario->cluster, scenario->simulation.seed);
  for (const LinkId link : topology->find_links(nic.substr(0, nic.size() - 2))) {
    const std::string name = topology->link_name(link);
    if (name.rfind(nic, 0) == 0) return text.replace(from, nic.size() + 6, name);
  }
  return without;
}

}  // namespace

std::string drawn_scenario(std::uint64_t seed) { return with_names(scenario_of(seed)); }

bool reads_a_file(const RegistryRow& row) {
  return std::any_of(row.options.begin(), row.options.end(), [](const OptionDoc& o) { return o.type == "file"; });
}

}  // namespace orrery::test
