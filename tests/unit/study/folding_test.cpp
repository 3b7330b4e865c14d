// Folded runs are the same as unfolded ones: plans as users write them, on clusters with every kind of irregularity.
//
// A case is a scenario of up to 64 GPUs drawn from a seed: fabric and routing, nodes that leaves do not divide evenly,
// two kinds of nodes, nodes that are used in part, groups that lie unevenly on nodes, model, degrees, schedule,
// sharding, recomputation, fidelity, collective algorithm and protocol, a slow GPU, a slow link, jitter. Every rank's
// tasks are recorded in both runs. What the cases covered is counted, by the rows of the tables too, and asserted.
//
// Every draw is a statement of its own, so that all compilers see the same cases.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/load.hpp"
#include "sim/base/random.hpp"
#include "sim/exec/collectives/algorithm.hpp"
#include "sim/study/algorithms.hpp"
#include "sim/study/simulate.hpp"
#include "tests/fuzz/path_laws.hpp"
#include "tests/support/same_run.hpp"
#include "topology/registry.hpp"
#include "topology/topology.hpp"
#include "workloads/build.hpp"
#include "workloads/registry.hpp"

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
  std::int64_t data = 1;

  [[nodiscard]] std::int64_t gpus() const { return tensor * pipeline * data; }
};

Degrees draw_degrees(Draws& draws) {
  Degrees degrees;
  degrees.tensor = draws.one_of<std::int64_t>({1, 1, 2, 3, 4, 8});
  degrees.pipeline = draws.one_of<std::int64_t>({1, 1, 2, 4});
  degrees.data = draws.between(1, 64 / (degrees.tensor * degrees.pipeline));
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

std::string draw_plan(Draws& draws, const Degrees& degrees) {
  const std::int64_t layers = 4 * draws.between(1, 2);
  const int kv_heads = degrees.tensor == 1 ? draws.one_of({1, 24}) : 24;
  const std::int64_t micro_batches = draws.between(1, 2) * degrees.pipeline;
  const auto recompute = draws.one_of<std::string_view>({"none", "selective", "full"});
  const auto framework = draws.one_of<std::string_view>({"megatron-lm", "pytorch-eager", "megatron-lm-graphs"});
  const bool sequence_parallel = degrees.tensor > 1 && draws.once_in(2);
  const std::string_view schedule = draws.row_of(schedule_rows()).name;
  const std::string_view sharding = draws.row_of(sharding_rows()).name;
  std::string text = fmt::format(
      "model: {{layers: {}, hidden: 384, heads: 24, kv_heads: {}, ffn_hidden: 1536, vocabulary: 1024, positions: "
      "240}}\n",
      layers, kv_heads);
  text += fmt::format(
      "training: {{sequence_length: 240, global_batch: {}, micro_batch: 1, precision: fp16, optimizer: adamw, "
      "recompute: {}, framework: {}}}\n",
      degrees.data * micro_batches, recompute, framework);
  text += fmt::format("parallelism: {{tensor: {}, pipeline: {}, data: {}, sequence_parallel: {}, sharding: {}",
                      degrees.tensor, degrees.pipeline, degrees.data, sequence_parallel, sharding);
  if (degrees.pipeline > 1) text += fmt::format(", schedule: {}", schedule);
  return text + "}\n";
}

std::string draw_traffic(Draws& draws, std::uint64_t seed) {
  const bool any = draws.once_in(2);
  const std::string_view algorithm = draws.row_of(collective_algorithm_rows()).name;
  const auto protocol = draws.one_of<std::string_view>({"auto", "auto", "simple", "ll", "ll128"});
  const auto fidelity = draws.one_of<std::string_view>({"message", "coupled", "coupled"});
  return fmt::format("collectives: {{algorithm: {}, protocol: {}}}\nsimulation: {{seed: {}, fidelity: {}}}\n",
                     any ? "auto" : algorithm, protocol, seed, fidelity);
}

// A link is named by its node and NIC, and FABRIC for the switch that it leads to.
std::string draw_variation(Draws& draws, std::int64_t gpus, std::int64_t nodes) {
  std::vector<std::string> slow;
  if (draws.once_in(4)) slow.push_back(fmt::format("{{gpu: {}, compute: 0.9}}", draws.between(0, gpus - 1)));
  if (draws.once_in(4)) {
    slow.push_back(fmt::format("{{link: node{}.nic0->{}, bandwidth: 0.5}}", draws.between(0, nodes - 1), "FABRIC"));
  }
  const bool jitter = draws.once_in(12);
  if (slow.empty() && !jitter) return "";
  return fmt::format("variation: {{kernel_jitter: {} %, slow: [{}]}}\n", jitter ? 2 : 0, fmt::join(slow, ", "));
}

// The scenario of a seed, as YAML. The plan may not fit the model or the cluster: then loading it says so.
std::string scenario_of(std::uint64_t seed) {
  Draws draws(seed);
  const Degrees degrees = draw_degrees(draws);
  const DrawnCluster cluster = draw_cluster(draws, degrees.gpus());
  std::string text = "name: a random case\n" + cluster.text;
  text += draw_plan(draws, degrees);
  text += draw_traffic(draws, seed);
  text += draw_variation(draws, degrees.gpus(), cluster.nodes);
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

// A user's own table of slots is a schedule like any other, and cannot be drawn.
bool reads_a_file(const RegistryRow& row) {
  return std::any_of(row.options.begin(), row.options.end(), [](const OptionDoc& o) { return o.name == "file"; });
}

// Everything that the cases together are to cover.
std::vector<std::string> to_be_covered() {
  std::vector<std::string> all{"fidelity message", "fidelity coupled",     "a node in part", "a slow GPU",
                               "a slow link",      "two kinds of GPUs",    "jitter",         "nothing slow",
                               "uneven placement", "sequence parallelism", "recomputation"};
  for (const FabricInfo& row : kFabrics) all.push_back(fmt::format("fabric {}", row.name));
  for (const RoutingInfo& row : kRoutings) all.push_back(fmt::format("routing {}", row.name));
  for (const CollectiveAlgorithm& row : collective_algorithm_rows())
    all.push_back(fmt::format("algorithm {}", row.name));
  for (const RegistryRow& row : sharding_rows()) all.push_back(fmt::format("sharding {}", row.name));
  for (const RegistryRow& row : schedule_rows()) {
    if (!reads_a_file(row)) all.push_back(fmt::format("schedule {}", row.name));
  }
  return all;
}

// Whether some communicator has more members on one of its nodes than on another.
bool lies_unevenly(const Topology& topology, const Workload& workload) {
  return std::any_of(workload.communicators.begin(), workload.communicators.end(), [&](const Communicator& group) {
    std::map<NodeId, int> members;
    for (const RankId rank : group.ranks) ++members[topology.node_of(GpuId(rank.index()))];
    return std::any_of(members.begin(), members.end(),
                       [&](const auto& node) { return node.second != members.begin()->second; });
  });
}

// `algorithms`: those that carry a hundredth of the bytes or more.
void count_covered(const Scenario& scenario, const Topology& topology, const Workload& workload,
                   const std::map<std::string, std::string>& algorithms, Tally& tally) {
  const auto add = [&](bool holds, const std::string& what) {
    if (holds) ++tally.by[what];
  };
  const auto slow = [&](auto part) {
    return std::any_of(scenario.variation.slow.begin(), scenario.variation.slow.end(), part);
  };
  add(scenario.gpus < topology.gpus(), "a node in part");
  add(slow([](const SlowPart& part) { return part.link.empty(); }), "a slow GPU");
  add(slow([](const SlowPart& part) { return !part.link.empty(); }), "a slow link");
  add(!(topology.gpu_spec(GpuId(0)) == topology.gpu_spec(GpuId(topology.gpus() - 1))), "two kinds of GPUs");
  add(scenario.variation.kernel_jitter > 0, "jitter");
  add(lies_unevenly(topology, workload), "uneven placement");
  add(scenario.parallelism.sequence_parallel, "sequence parallelism");
  add(scenario.training.recompute != Recompute::none, "recomputation");
  const FabricSpec& fabric = scenario.cluster.fabric;
  const FabricInfo& kind = fabric_info(fabric.kind);
  add(topology.nodes() > 1, fmt::format("fabric {}", kind.name));
  const bool routes = std::any_of(kind.parameters.begin(), kind.parameters.end(),
                                  [](const FabricParameter& parameter) { return parameter.name == "routing"; });
  const auto& routing = *std::find_if(kRoutings.begin(), kRoutings.end(),
                                      [&](const RoutingInfo& row) { return row.routing == fabric.routing; });
  add(routes && topology.nodes() > fabric.nodes_per_leaf, fmt::format("routing {}", routing.name));
  std::vector<std::string> used;
  for (const auto& [what, algorithm] : algorithms) used.push_back(algorithm);
  std::sort(used.begin(), used.end());
  used.erase(std::unique(used.begin(), used.end()), used.end());
  for (const std::string& algorithm : used) add(true, "algorithm " + algorithm);
  add(scenario.parallelism.data > 1, "sharding " + scenario.parallelism.sharding.kind);
  add(scenario.parallelism.pipeline > 1, "schedule " + scenario.parallelism.schedule.kind);
}

void compare(const RunResult& all, const RunResult& classes, Tally& tally) {
  for (const std::string& difference : test::differences(all, classes)) FAIL_CHECK(difference);
  ++tally.played;
  if (classes.ranks.size() < all.ranks.size()) ++tally.folded;
}

// No plan has an all-to-all yet: the program with one in place of each all-reduce.
Program with_all_to_all(const Program& program) {
  ProgramBuilder builder;
  for (const Stream& stream : program.streams()) builder.stream(stream.name, stream.compute);
  for (const MemoryOperation& operation : program.resident_memory()) builder.resident(operation);
  for (const Task& task : program.tasks()) {
    const TaskOptions options{.stream = task.stream,
                              .phase = task.phase,
                              .label = program.label(task),
                              .after = program.dependencies(task),
                              .memory = program.memory(task),
                              .micro_batch = task.micro_batch,
                              .layer = task.layer,
                              .blocks_host = task.blocks_host};
    if (task.kind == TaskKind::kernels) builder.kernels(program.sequence(task), options);
    if (task.kind == TaskKind::send) builder.send(program.transfer(task), options);
    if (task.kind == TaskKind::receive) builder.receive(program.transfer(task), options);
    if (task.kind == TaskKind::copy) builder.copy(program.copy(task), options);
    if (task.kind == TaskKind::host) builder.host(program.host_work(task), options);
    if (task.kind != TaskKind::collective) continue;
    CollectiveCall call = program.collective(task);
    if (call.op == CollectiveOp::all_reduce) call.op = CollectiveOp::all_to_all;
    builder.collective(call, options);
  }
  return std::move(builder).freeze();
}

void play_all_to_all(const Scenario& scenario, const Topology& topology, Workload workload, Tally& tally) {
  for (Program& program : workload.programs) program = with_all_to_all(program);
  const Placement placement = place_in_order(workload);
  ExecutionOptions options;
  const bool message = scenario.simulation.fidelity == Fidelity::message;
  options.traffic.fidelity = message ? TrafficFidelity::message : TrafficFidelity::coupled;
  for (std::size_t rank = 0; rank < workload.ranks(); ++rank) options.record.emplace_back(rank);
  options.fold = false;
  const Result<RunResult> all = execute(topology, workload, placement, options);
  options.fold = true;
  const Result<RunResult> classes = execute(topology, workload, placement, options);
  REQUIRE(all.ok());
  REQUIRE(classes.ok());
  compare(*all, *classes, tally);
  count_covered(scenario, topology, workload, main_algorithms(topology, workload, placement, options.traffic), tally);
}

void play_text(const std::string& text, bool all_to_all, Tally& tally) {
  CAPTURE(text);
  const Result<Scenario> scenario = load_scenario_text(text, "case.yaml");
  if (!scenario) return;
  if (all_to_all) {
    const Result<Topology> topology = Topology::build(scenario->cluster, scenario->simulation.seed);
    Result<Workload> workload =
        build_workload(scenario->model, scenario->training, scenario->parallelism, scenario->gpus);
    REQUIRE(topology.ok());
    REQUIRE(workload.ok());
    return play_all_to_all(*scenario, *topology, std::move(workload).value(), tally);
  }
  SimulationOptions options;
  options.record_all = true;
  options.fold = false;
  const Result<Simulation> all = simulate(*scenario, options);
  options.fold = true;
  const Result<Simulation> classes = simulate(*scenario, options);
  REQUIRE(all.ok());
  REQUIRE(classes.ok());
  compare(all->run, classes->run, tally);
  for (const auto& run : {&*all, &*classes}) {
    for (const std::string& law : fuzz::broken_path_laws(run->run, run->workload)) FAIL_CHECK(law);
  }
  const Result<Topology> topology = Topology::build(scenario->cluster, scenario->simulation.seed);
  count_covered(*scenario, *topology, all->workload, all->summary.simulation.algorithms, tally);
  ++tally.by["fidelity " + all->summary.simulation.fidelity];
  if (scenario->variation.slow.empty() && scenario->cluster.groups.size() == 1) ++tally.by["nothing slow"];
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
            false, tally);
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
              false, tally);
    CHECK(tally.folded == 1);
  }
}

TEST_CASE("plans on irregular clusters run folded as unfolded") {
  Tally tally;
  for (std::uint64_t seed = 0; seed < 480; ++seed) {
    CAPTURE(seed);
    play_text(with_names(scenario_of(seed)), seed % 12 == 11, tally);
  }
  std::string covered;
  for (const auto& [what, count] : tally.by) covered += fmt::format(" {} {},", what, count);
  MESSAGE(tally.played << " cases, " << tally.folded << " folded:" << covered);
  CHECK(tally.played >= 300);
  CHECK(tally.folded >= 150);
  for (const std::string& what : to_be_covered()) {
    CAPTURE(what);
    CHECK(tally.by[what] > 0);
  }
}
