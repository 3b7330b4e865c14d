// Folded runs are the same as unfolded ones: plans as users write them, on clusters with every kind of irregularity.
//
// A case is a scenario drawn from a seed (drawn_scenarios.hpp). Every rank's tasks are recorded in both runs. What the
// cases covered is counted, by the rows of the tables too, and asserted.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/load.hpp"
#include "sim/exec/collectives/algorithm.hpp"
#include "sim/study/algorithms.hpp"
#include "sim/study/simulate.hpp"
#include "tests/fuzz/path_laws.hpp"
#include "tests/support/same_run.hpp"
#include "tests/unit/study/drawn_scenarios.hpp"
#include "topology/registry.hpp"
#include "topology/topology.hpp"
#include "workloads/build.hpp"
#include "workloads/registry.hpp"

using namespace orrery;

namespace {

// Data parallelism over nodes whose switches all reduce, so that every algorithm can run.
std::string scenario_of_algorithm(std::string_view algorithm, int nodes, int nodes_per_leaf, std::string_view fidelity,
                                  bool slow) {
  std::string text = fmt::format(
      "cluster:\n  node: dgx-h100\n  nodes: {}\n"
      "  fabric: {{kind: leaf-spine, link: ndr-infiniband, nodes_per_leaf: {}, oversubscription: 2}}\n"
      "model: {{layers: 2, hidden: 256, heads: 8, vocabulary: 1024, positions: 256}}\n"
      "training: {{sequence_length: 256, global_batch: {}, micro_batch: 1}}\n"
      "collectives: {{algorithm: {}}}\nsimulation: {{fidelity: {}}}\n",
      nodes, nodes_per_leaf, 8 * nodes, algorithm, fidelity);
  if (slow) text += "variation: {slow: [{link: node0.nic0, bandwidth: 0.5}]}\n";
  return text;
}

struct Tally {
  int played = 0;
  int folded = 0;
  std::map<std::string, int> by;  // what was covered
};

// Everything that the cases together are to cover.
std::vector<std::string> to_be_covered() {
  std::vector<std::string> all{"fidelity message",
                               "fidelity coupled",
                               "a node in part",
                               "a slow GPU",
                               "a slow link",
                               "two kinds of GPUs",
                               "jitter",
                               "nothing slow",
                               "uneven placement",
                               "sequence parallelism",
                               "recomputation",
                               "uneven stages",
                               "overlapped tensor communication",
                               "channels",
                               "sharding options"};
  for (const FabricInfo& row : kFabrics) all.push_back(fmt::format("fabric {}", row.name));
  for (const RoutingInfo& row : kRoutings) all.push_back(fmt::format("routing {}", row.name));
  for (const CollectiveAlgorithm& row : collective_algorithm_rows())
    all.push_back(fmt::format("algorithm {}", row.name));
  for (const RegistryRow& row : sharding_rows()) all.push_back(fmt::format("sharding {}", row.name));
  for (const RegistryRow& row : context_rows()) all.push_back(fmt::format("context {}", row.name));
  for (const RegistryRow& row : dispatch_rows()) all.push_back(fmt::format("dispatch {}", row.name));
  for (const RegistryRow& row : schedule_rows()) {
    if (!test::reads_a_file(row)) all.push_back(fmt::format("schedule {}", row.name));
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
  add(scenario.parallelism.tp_comm_overlap, "overlapped tensor communication");
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
  add(!scenario.parallelism.stage_layers.empty(), "uneven stages");
  add(scenario.collectives.channels > 0, "channels");
  add(scenario.parallelism.data > 1 && !scenario.parallelism.sharding.options.empty(), "sharding options");
  add(scenario.parallelism.context > 1, "context " + scenario.parallelism.context_kind.kind);
  add(scenario.parallelism.expert > 1, "dispatch " + scenario.parallelism.dispatch.kind);
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
                              .blocks_host = task.blocks_host,
                              .issue = task.issue};
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
  options.traffic.algorithm = scenario.collectives.algorithm;
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
  // Some nodes have no drives to offload to.
  if (!all.ok() && all.problems()[0].key == "cluster.node.drives") {
    CHECK(!classes.ok());
    return;
  }
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
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    CAPTURE(seed);
    play_text(test::drawn_scenario(seed), seed % 12 == 11, tally);
  }
  for (const CollectiveAlgorithm& row : collective_algorithm_rows()) {
    for (const std::string_view fidelity : {"message", "coupled"}) {
      const int nodes = row.name == "nvls" ? 1 : 3;
      for (const bool exchanges : {false, true}) {
        if (!row.has(exchanges ? CollectiveOp::all_to_all : CollectiveOp::all_reduce)) continue;
        play_text(scenario_of_algorithm(row.name, nodes, 2, fidelity, true), exchanges, tally);
        play_text(scenario_of_algorithm(row.name, nodes + nodes / 2, 4, fidelity, false), exchanges, tally);
      }
    }
  }
  std::string covered;
  for (const auto& [what, count] : tally.by) covered += fmt::format(" {} {},", what, count);
  MESSAGE(tally.played << " cases, " << tally.folded << " folded:" << covered);
  CHECK(tally.played >= 400);
  CHECK(tally.folded >= 200);
  for (const std::string& what : to_be_covered()) {
    CAPTURE(what);
    CHECK(tally.by[what] > 0);
  }
}
