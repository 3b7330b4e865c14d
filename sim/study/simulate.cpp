#include "sim/study/simulate.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/slow_parts.hpp"
#include "sim/exec/collectives/algorithm.hpp"
#include "sim/study/algorithms.hpp"
#include "sim/study/curriculum.hpp"
#include "sim/study/fidelity.hpp"
#include "sim/study/off_device.hpp"
#include "sim/study/micro_batch.hpp"
#include "topology/topology.hpp"
#include "workloads/build.hpp"

namespace orrery {

namespace {

std::string_view name_of(TrafficFidelity fidelity) {
  return fidelity == TrafficFidelity::message ? "message" : "coupled";
}

// The first rank of every role: of pipeline stages, the one with the least rank.
std::vector<RankId> first_of_every_role(const Workload& workload) {
  std::vector<RankId> first(workload.programs.size());
  for (std::size_t rank = 0; rank < workload.ranks(); ++rank) {
    RankId& found = first[workload.role_of[rank].index()];
    if (!found.valid()) found = RankId(rank);
  }
  std::erase_if(first, [](RankId rank) { return !rank.valid(); });
  std::sort(first.begin(), first.end());
  return first;
}

Result<ExecutionOptions> execution_options(const Scenario& scenario, const Topology& topology, const Workload& workload,
                                           const Placement& placement, const SimulationOptions& wanted) {
  const FrameworkSpec& framework = scenario.training.framework;
  ExecutionOptions options;
  options.traffic = {.algorithm = scenario.collectives.algorithm,
                     .channels = scenario.collectives.channels,
                     .protocol = scenario.collectives.protocol,
                     .sharp = scenario.collectives.sharp,
                     .pxn = scenario.collectives.pxn};
  options.traffic.fidelity = resolve(scenario.simulation.fidelity, topology, workload, placement, options.traffic);
  options.seed = scenario.simulation.seed;
  options.launch = framework.launch;
  options.collective_launch = framework.collective_launch;
  options.driver_launch = framework.driver_launch;
  options.graphs = framework.graphs;
  options.fold = wanted.fold;
  options.record_all = wanted.record_all;
  if (wanted.record) options.record = first_of_every_role(workload);
  options.kernel_jitter = scenario.variation.kernel_jitter;
  const Result<SlowParts> slow = find_slow_parts(scenario.variation, topology, scenario.gpus);
  if (!slow) return slow.problems();
  for (const auto& [gpu, factor] : slow->gpus) options.slow_gpus.push_back({gpu, factor});
  for (const auto& [link, factor] : slow->links) options.slow_links.push_back({link, factor});
  return options;
}

// What the summary needs to know about the machine that the ranks run on.
RunFacts facts_of(const Scenario& scenario, const Topology& topology, const Workload& workload,
                  const Placement& placement, const RunResult& run) {
  RunFacts facts;
  facts.scenario = scenario.name;
  facts.model = scenario.model.name;
  facts.gpus = static_cast<std::int64_t>(placement.gpu_of.size());
  facts.remarks = scenario.remarks;
  facts.tokens = scenario.training.tokens;
  facts.images = scenario.training.images;
  facts.images_per_step = scenario.model.images() ? scenario.training.global_batch : 0;
  facts.full_recompute = scenario.training.recompute == Recompute::full;

  const TrainingSpec& training = scenario.training;
  const ParallelismSpec& parallelism = scenario.parallelism;
  facts.plan = {.tensor = parallelism.tensor,
                .pipeline = parallelism.pipeline,
                .data = facts.gpus / (parallelism.tensor * parallelism.pipeline * parallelism.context),
                .global_batch = training.global_batch,
                .micro_batch = training.micro_batch,
                .sequence_length = training.sequence_length,
                .schedule = parallelism.pipeline > 1 ? parallelism.schedule.kind : "",
                .sharding = parallelism.sharding.kind,
                .precision = std::string(name_of(training.precision)),
                .recompute = std::string(name_of(training.recompute)),
                .framework = training.framework.name};

  std::vector<std::string> kinds;  // in order of first appearance
  std::vector<NodeId> nodes;
  bool peak_known = true;
  for (const GpuId gpu : placement.gpu_of) {
    const GpuSpec& spec = topology.gpu_spec(gpu);
    if (std::find(kinds.begin(), kinds.end(), spec.name) == kinds.end()) kinds.push_back(spec.name);
    nodes.push_back(topology.node_of(gpu));
    facts.peak += spec.peak_of(workload.precision);
    peak_known = peak_known && spec.peak_of(workload.precision).count() > 0;
  }
  std::sort(nodes.begin(), nodes.end());
  facts.nodes = std::unique(nodes.begin(), nodes.end()) - nodes.begin();
  for (const std::string& kind : kinds) facts.gpu += (facts.gpu.empty() ? "" : ", ") + kind;
  if (!peak_known) facts.peak = FlopsPerSecond(0);
  facts.off_device = off_device_use(topology, workload, placement);
  for (const RankResult& rank : run.ranks) {
    facts.memory_limits.push_back(topology.gpu_spec(placement.gpu_of[rank.rank.index()]).memory);
  }
  return facts;
}

// Why hardly any ranks are alike; empty where folding was not asked for, or has saved more than half.
//
// These are the settings that are known to tell ranks apart, not what refinement found: there a rank is told apart by
// its neighbours, which differ by theirs, and no single split is the cause. To name it by experiment would be to fold
// again without each setting.
std::string unfolded_because(const Scenario& scenario, const Topology& topology, const ExecutionOptions& options,
                             const RunResult& run) {
  constexpr std::size_t kFew = 64;  // ranks that nobody needs to fold
  if (!options.fold || run.class_of.size() <= kFew || 2 * run.ranks.size() <= run.class_of.size()) return "";
  std::string reasons;
  const auto add = [&](bool holds, std::string_view reason) {
    if (holds) reasons += fmt::format("{}{}", reasons.empty() ? "" : "; ", reason);
  };
  const FabricSpec& fabric = scenario.cluster.fabric;
  add(options.kernel_jitter > 0, "every rank has jitter of its own (variation.kernel_jitter)");
  // Between nodes of one leaf there is one route.
  const bool several_routes = fabric.kind != FabricKind::single_switch && topology.nodes() > fabric.nodes_per_leaf;
  add(several_routes && fabric.routing == Routing::ecmp,
      "hashing loads each cable of the fabric differently (cluster.fabric.routing: ecmp)");
  add(several_routes && fabric.routing == Routing::fixed,
      "fixed routes load each cable of the fabric differently (cluster.fabric.routing: fixed)");
  add(options.traffic.fidelity == TrafficFidelity::message,
      "message by message, members of a ring differ by their distance from what is slow or out of step "
      "(simulation.fidelity: message)");
  return reasons.empty() ? "groups of ranks are out of step with nodes and switches" : reasons;
}

// The step of the same cluster with nothing slow in it.
std::optional<Duration> without_slow_parts(const Topology& topology, const Workload& workload,
                                           const Placement& placement, ExecutionOptions options) {
  if (options.slow_gpus.empty() && options.slow_links.empty()) return std::nullopt;
  options.slow_gpus.clear();
  options.slow_links.clear();
  options.record.clear();
  options.record_all = false;
  const Result<RunResult> run = execute(topology, workload, placement, options);
  if (!run) return std::nullopt;
  return run->step_time;
}

Result<Simulation> simulate_as_given(const Scenario& scenario, const SimulationOptions& options);

// Finds the micro-batch, and simulates the step with it. What was simulated for its memory is the answer, unless there
// is more to record.
Result<Simulation> simulate_largest(Scenario scenario, const SimulationOptions& options) {
  SimulationOptions trial = options;
  trial.record = trial.record_all = false;
  std::optional<Simulation> last;
  const auto memory = [&](std::int64_t micro_batch) -> Result<Summary::Memory> {
    scenario.training.micro_batch = micro_batch;
    Result<Simulation> simulation = simulate_as_given(scenario, trial);
    if (!simulation) return simulation.problems();
    last = std::move(simulation).value();
    return last->summary.memory;
  };
  const Result<MicroBatchChoice> choice = choose_micro_batch(scenario, memory);
  if (!choice) return choice.problems();
  scenario.remarks.push_back(choice->why);
  if (options.record || options.record_all) return simulate_as_given(scenario, options);
  last->summary.remarks = scenario.remarks;
  return std::move(*last);
}

// What was simulated is the last part.
Result<Simulation> with_curriculum(Scenario scenario, SimulationOptions options, Simulation last) {
  const std::vector<CurriculumStage> stages = std::exchange(scenario.training.curriculum, {});
  scenario.training.micro_batch = last.summary.plan.micro_batch;
  options.record = options.record_all = false;
  std::vector<Summary> steps;
  for (std::size_t i = 0; i + 1 < stages.size(); ++i) {
    scenario.training.sequence_length = stages[i].sequence_length;
    Result<Simulation> step = simulate_as_given(scenario, options);
    if (!step) return step.problems();
    steps.push_back(std::move(step).value().summary);
  }
  add_curriculum(last.summary, stages, steps);
  return last;
}

}  // namespace

LoadOptions for_running(LoadOptions options) {
  options.collective_algorithms.clear();
  for (const CollectiveAlgorithm& row : collective_algorithm_rows()) {
    options.collective_algorithms.emplace_back(row.name);
  }
  return options;
}

Result<Simulation> simulate(const Scenario& scenario, const SimulationOptions& options) {
  Result<Simulation> simulated = scenario.training.micro_batch == kLargestMicroBatch
                                     ? simulate_largest(scenario, options)
                                     : simulate_as_given(scenario, options);
  if (!simulated || scenario.training.curriculum.empty()) return simulated;
  return with_curriculum(scenario, options, std::move(simulated).value());
}

namespace {

Result<Simulation> simulate_as_given(const Scenario& scenario, const SimulationOptions& options) {
  const auto started = std::chrono::steady_clock::now();
  const auto log = [&](const std::string& line) {
    if (options.log) options.log(line);
  };

  // The cluster: devices, links and routes. Frozen from here on.
  const Result<Topology> topology = Topology::build(scenario.cluster, scenario.simulation.seed);
  if (!topology) return topology.problems();
  log(fmt::format("cluster: {} GPUs on {} nodes, {} links", topology->gpus(), topology->nodes(), topology->links()));

  // The step: a program per role, and who talks to whom. On no hardware yet.
  Result<Workload> built = build_workload(scenario.model, scenario.training, scenario.parallelism, scenario.gpus);
  if (!built) return built.problems();
  Workload workload = std::move(built).value();
  log(fmt::format("step: {} ranks in {} roles, {} communicators", workload.ranks(), workload.programs.size(),
                  workload.communicators.size()));

  // Ranks onto GPUs.
  const Placement placement = place_in_order(workload);

  // What varies, how traffic is played out, and what is recorded.
  Result<ExecutionOptions> execution = execution_options(scenario, *topology, workload, placement, options);
  if (!execution) return execution.problems();
  execution.value().progress = options.progress;
  log(fmt::format("traffic: {} fidelity", name_of(execution->traffic.fidelity)));

  // Event by event.
  Result<RunResult> executed = execute(*topology, workload, placement, *execution);
  if (!executed) return executed.problems();
  RunResult run = std::move(executed).value();
  log(fmt::format("played out: {} events, {} flows, fingerprint {}", run.events, run.flows, run.fingerprint));

  // In figures.
  RunFacts facts = facts_of(scenario, *topology, workload, placement, run);
  facts.fidelity = name_of(execution->traffic.fidelity);
  facts.algorithms = main_algorithms(*topology, workload, placement, execution->traffic);
  facts.unfolded_because = unfolded_because(scenario, *topology, *execution, run);
  facts.without_slow_parts = without_slow_parts(*topology, workload, placement, *execution);
  facts.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  Summary summary = summarize(run, workload, facts);
  return Simulation{std::move(workload), std::move(run), std::move(summary)};
}

}  // namespace

}  // namespace orrery
