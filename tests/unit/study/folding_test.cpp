// Folded runs are the same as unfolded ones: plans as users write them, on clusters with every kind of irregularity.
//
// A case is a scenario of up to 64 GPUs drawn from a seed: fabric and routing, nodes that leaves do not divide evenly,
// two kinds of nodes, nodes that are used in part, model, degrees, schedule, sharding, recomputation, fidelity,
// collective algorithm and protocol, a slow GPU, a slow link, jitter. Every rank's tasks are recorded in both runs.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/load.hpp"
#include "sim/base/random.hpp"
#include "sim/exec/collectives/algorithm.hpp"
#include "sim/study/simulate.hpp"
#include "tests/support/same_run.hpp"
#include "topology/topology.hpp"
#include "workloads/build.hpp"

using namespace orrery;

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

 private:
  RandomStream random_;
};

std::string fabric(Draws& draws) {
  const std::string_view kind =
      draws.one_of<std::string_view>({"single-switch", "leaf-spine", "fat-tree", "rail-optimized"});
  std::string text = fmt::format("{{kind: {}", kind);
  if (kind != "single-switch") {
    text += fmt::format(", link: 10-gigabit-ethernet, nodes_per_leaf: {}, oversubscription: {}, routing: {}",
                        draws.between(1, 4), draws.one_of({1, 2, 4}),
                        draws.one_of<std::string_view>({"adaptive", "ecmp", "fixed"}));
  }
  if (kind == "fat-tree") text += fmt::format(", leaves_per_pod: {}", draws.between(1, 3));
  return text + "}";
}

struct Nodes {
  std::string_view name;
  std::int64_t gpus = 0;
};

// The scenario of a seed, as YAML. The plan may not fit the model or the cluster: then loading it says so.
std::string scenario_of(std::uint64_t seed) {
  Draws draws(seed);
  const std::int64_t tensor = draws.one_of<std::int64_t>({1, 1, 2, 4});
  const std::int64_t pipeline = draws.one_of<std::int64_t>({1, 1, 2, 4});
  const std::int64_t data = draws.between(1, 64 / (tensor * pipeline));
  const std::int64_t gpus = tensor * pipeline * data;
  const Nodes nodes = draws.one_of<Nodes>({{"dgx-a100-40gb", 8},
                                           {"dgx-h100", 8},
                                           {"dgx1-v100-16gb", 8},
                                           {"pcie-4x-rtx-4090", 4},
                                           {"single-a100-80gb", 1},
                                           {"hgx-a100-80gb-4nic", 8}});
  const std::int64_t count = (gpus + nodes.gpus - 1) / nodes.gpus;
  std::string text = "name: a random case\ncluster:\n";
  if (count > 1 && draws.once_in(4)) {
    const Nodes other = nodes.gpus == 8 ? Nodes{"hgx-a100-80gb-4nic", 8}
                                        : Nodes{nodes.gpus == 4 ? "pcie-4x-a100-40gb" : "single-h100-80gb", nodes.gpus};
    const std::int64_t first = draws.between(1, count - 1);
    text += fmt::format("  groups: [{{node: {}, nodes: {}}}, {{node: {}, nodes: {}}}]\n", nodes.name, first, other.name,
                        count - first);
  } else {
    text += fmt::format("  node: {}\n  nodes: {}\n", nodes.name, count);
  }
  text += fmt::format("  gpus: {}\n  fabric: {}\n", gpus, fabric(draws));
  text += fmt::format(
      "model: {{layers: {}, hidden: 256, heads: 4, kv_heads: {}, ffn_hidden: 1024, vocabulary: 1024, positions: "
      "256}}\n",
      4 * draws.between(1, 2), tensor == 1 ? draws.one_of({1, 4}) : 4);
  const std::int64_t micro_batches = draws.between(1, 2) * pipeline;
  text += fmt::format(
      "training: {{sequence_length: 256, global_batch: {}, micro_batch: 1, precision: fp16, optimizer: adamw, "
      "recompute: {}, framework: {}}}\n",
      data * micro_batches, draws.one_of<std::string_view>({"none", "selective", "full"}),
      draws.one_of<std::string_view>({"megatron-lm", "pytorch-eager", "megatron-lm-graphs"}));
  std::string_view schedule = draws.one_of<std::string_view>({"1f1b", "gpipe", "interleaved-1f1b"});
  if (pipeline == 1 && schedule == "interleaved-1f1b") schedule = "1f1b";
  text += fmt::format(
      "parallelism: {{tensor: {}, pipeline: {}, data: {}, sequence_parallel: {}, schedule: {}, sharding: {}}}\n",
      tensor, pipeline, data, tensor > 1 && draws.once_in(2), schedule,
      draws.one_of<std::string_view>({"none", "distributed-optimizer"}));
  const auto rows = collective_algorithm_rows();
  const std::string algorithm =
      draws.once_in(2)
          ? "auto"
          : std::string(
                rows[static_cast<std::size_t>(draws.between(0, static_cast<std::int64_t>(rows.size()) - 1))].name);
  text += fmt::format("collectives: {{algorithm: {}, protocol: {}}}\n", algorithm,
                      draws.one_of<std::string_view>({"auto", "auto", "simple", "ll", "ll128"}));
  text += fmt::format("simulation: {{seed: {}, fidelity: {}}}\n", seed,
                      draws.one_of<std::string_view>({"message", "coupled", "coupled"}));
  std::vector<std::string> slow;
  if (draws.once_in(4)) slow.push_back(fmt::format("{{gpu: {}, compute: 0.9}}", draws.between(0, gpus - 1)));
  if (draws.once_in(4)) {
    slow.push_back(fmt::format("{{link: node{}.nic0->{}, bandwidth: 0.5}}", draws.between(0, count - 1), "FABRIC"));
  }
  const bool jitter = draws.once_in(12);
  if (!slow.empty() || jitter) {
    text += fmt::format("variation: {{kernel_jitter: {} %, slow: [{}]}}\n", jitter ? 2 : 0, fmt::join(slow, ", "));
  }
  return text;
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

struct Tally {
  int played = 0;
  int folded = 0;
  std::map<std::string, int> by;  // what was covered
};

void play_text(const std::string& text, Tally& tally) {
  CAPTURE(text);
  const Result<Scenario> scenario = load_scenario_text(text, "case.yaml");
  if (!scenario) return;
  SimulationOptions options;
  options.record_all = true;
  options.fold = false;
  const Result<Simulation> all = simulate(*scenario, options);
  options.fold = true;
  const Result<Simulation> classes = simulate(*scenario, options);
  REQUIRE(all.ok());
  REQUIRE(classes.ok());
  for (const std::string& difference : test::differences(all->run, classes->run)) FAIL_CHECK(difference);
  ++tally.played;
  if (classes->run.ranks.size() < all->run.ranks.size()) ++tally.folded;
  ++tally.by[all->summary.simulation.fidelity];
  ++tally.by[scenario->collectives.algorithm];
  if (!scenario->variation.slow.empty()) ++tally.by["slow"];
  if (scenario->cluster.groups.size() > 1) ++tally.by["mixed"];
  if (scenario->cluster.fabric.routing == Routing::ecmp) ++tally.by["ecmp"];
}

void play(std::uint64_t seed, Tally& tally) {
  CAPTURE(seed);
  play_text(with_names(scenario_of(seed)), tally);
}

}  // namespace

TEST_CASE("a slowed NIC is not taken for one that is as slow by nature: transfers over it run on more blocks") {
  const std::string node =
      "node: {gpus: 1, gpu: h100-80gb-sxm, nics: 1, pcie: {bandwidth: 8000 Gb/s, latency: 1 us}, "
      "nic: {bandwidth: ";
  std::string groups;
  for (const auto& [bandwidth, nodes] : {std::pair(3200, 1), std::pair(1600, 1), std::pair(3200, 2)}) {
    groups += fmt::format("  - {{{}{} Gb/s, latency: 1 us}}}}, nodes: {}}}\n", node, bandwidth, nodes);
  }
  Tally tally;
  play_text("cluster:\n  groups:\n" + groups +
                "  fabric: {kind: single-switch}\n"
                "model: {layers: 8, hidden: 4096, heads: 32, vocabulary: 1024, positions: 2048}\n"
                "training: {sequence_length: 2048, global_batch: 16, micro_batch: 1}\n"
                "parallelism: {pipeline: 2, data: 2, schedule: {kind: interleaved-1f1b, virtual_stages: 2}}\n"
                "simulation: {fidelity: coupled}\n"
                "variation: {slow: [{link: node0.nic0, bandwidth: 0.5}]}\n",
            tally);
  CHECK(tally.played == 1);
}

TEST_CASE("communicators that cross leaves differently are counted apart, though no uplink ever decides") {
  // 8 ranks of a tensor group lie on leaves of 5: groups have their boundary at different places.
  for (const char* algorithm : {"ring", "halving_doubling", "tree", "auto"}) {
    CAPTURE(algorithm);
    Tally tally;
    play_text(fmt::format("cluster:\n  node: single-a100-80gb\n  nodes: 40\n"
                          "  fabric: {{kind: leaf-spine, link: ndr-infiniband, nodes_per_leaf: 5}}\n"
                          "model: {{layers: 2, hidden: 512, heads: 16, vocabulary: 1024, positions: 256}}\n"
                          "training: {{sequence_length: 256, global_batch: 5, micro_batch: 1}}\n"
                          "parallelism: {{tensor: 8, data: 5}}\n"
                          "collectives: {{algorithm: {}}}\nsimulation: {{fidelity: coupled}}\n",
                          algorithm),
              tally);
    CHECK(tally.folded == 1);
  }
}

TEST_CASE("plans on irregular clusters run folded as unfolded") {
  Tally tally;
  for (std::uint64_t seed = 0; seed < 420; ++seed) play(seed, tally);
  std::string covered;
  for (const auto& [what, count] : tally.by) covered += fmt::format(" {} {},", what, count);
  MESSAGE(tally.played << " cases, " << tally.folded << " folded:" << covered);
  CHECK(tally.played >= 300);
  CHECK(tally.folded >= 150);
  for (const char* what : {"message", "coupled", "slow", "mixed", "ecmp"}) CHECK(tally.by[what] >= 20);
}
