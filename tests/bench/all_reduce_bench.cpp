// One all-reduce through the whole of sim/exec: routes, classes, executor and traffic, as in any run.
//
// The step is a single ring all-reduce of 1 GiB over all GPUs: eight a node, on a rail-optimised fabric, or one a node,
// on leaves and spines, which leaves one channel. Set-up (the routes of the ring, and the classes where it is folded)
// is made once, before the clock starts, and timed by a benchmark of its own; every iteration then plays the same.
// bench_fluid has the ring of one GPU a host on the bare fluid network.
#include <benchmark/benchmark.h>

#include <memory>
#include <utility>

#include "sim/base/check.hpp"
#include "sim/exec/execute.hpp"
#include "sim/exec/executor/executor.hpp"
#include "sim/exec/folding/fold.hpp"
#include "sim/graph/workload.hpp"
#include "topology/topology.hpp"

namespace orrery {
namespace {

using namespace literals;

constexpr Bytes kBuffer = Bytes(std::int64_t{1} << 30);

LinkSpec link_of(double gigabytes, Duration latency) {
  LinkSpec link;
  link.bandwidth = BytesPerSecond(gigabytes * 1e9);
  link.latency = latency;
  return link;
}

// Nodes in the manner of a DGX H100: what matters here is their shape.
ClusterSpec cluster_of(int gpus, int gpus_per_node) {
  NodeSpec node;
  node.name = "node";
  node.gpu.name = "gpu";
  node.gpu.multiprocessors = 132;
  node.gpu.memory = 80_GiB;
  node.gpu.memory_bandwidth = BytesPerSecond(3350e9);
  node.gpus = gpus_per_node;
  if (gpus_per_node > 1) {
    node.wiring = GpuWiring::nvswitch;
    node.nvlink = link_of(450, 600_ns);
  }
  node.sockets = gpus_per_node > 1 ? 2 : 1;
  node.switches_per_socket = gpus_per_node > 1 ? 4 : 1;
  node.pcie = link_of(63, 150_ns);
  node.socket_link = link_of(50, 150_ns);
  node.nics = gpus_per_node;
  node.nic = link_of(50, 500_ns);
  ClusterSpec cluster;
  cluster.groups.push_back({node, gpus / gpus_per_node});
  cluster.fabric.kind = gpus_per_node > 1 ? FabricKind::rail_optimized : FabricKind::leaf_spine;
  cluster.fabric.link = link_of(50, 500_ns);
  return cluster;
}

// Every rank issues the all-reduce and does nothing else.
Workload one_all_reduce(std::size_t ranks) {
  Workload workload;
  workload.group_kinds.push_back({"data"});
  Communicator all{GroupKindId(std::size_t{0}), {}};
  for (std::size_t rank = 0; rank < ranks; ++rank) all.ranks.emplace_back(rank);
  workload.communicators.push_back(std::move(all));
  workload.communicator_of.emplace_back(ranks, CommunicatorId(std::size_t{0}));
  workload.role_of.assign(ranks, RoleId(std::size_t{0}));
  ProgramBuilder program;
  program.collective({CollectiveOp::all_reduce, GroupKindId(std::size_t{0}), kBuffer},
                     {.stream = program.stream("data"), .label = "all-reduce"});
  workload.programs.push_back(std::move(program).freeze());
  return workload;
}

// Everything that does not depend on simulated time.
struct SetUp {
  SetUp(int gpus, int gpus_per_node, TrafficFidelity fidelity, bool folded)
      : topology(Topology::build(cluster_of(gpus, gpus_per_node)).value()),
        workload(one_all_reduce(static_cast<std::size_t>(gpus))),
        placement(place_in_order(workload)),
        hardware(topology) {
    options.traffic.fidelity = fidelity;
    options.traffic.algorithm = "ring";
    communicators = communicator_cache(hardware, options.traffic);
    if (folded) {
      stage = fold({workload, placement.gpu_of, hardware, *communicators, fidelity});
    } else {
      stage = {unfolded_partition(workload, placement.gpu_of), unfolded_resources(hardware)};
    }
  }

  RunResult run() const {
    auto result = play(workload, hardware, stage.partition, stage.resources, options,
                       [&](Machine& machine, TrafficListener& listener) {
                         return std::make_unique<Traffic>(machine, options.traffic, listener, communicators);
                       });
    ORRERY_CHECK(result.ok(), "an all-reduce ends");
    return std::move(result).value();
  }

  Topology topology;
  Workload workload;
  Placement placement;
  Hardware hardware;
  ExecutionOptions options;
  std::shared_ptr<CommunicatorCache> communicators;
  Folded stage;
};

// Arguments: GPUs, GPUs a node, whether message by message, whether folded.
SetUp made_for(const benchmark::State& state) {
  const TrafficFidelity fidelity = state.range(2) != 0 ? TrafficFidelity::message : TrafficFidelity::coupled;
  return {static_cast<int>(state.range(0)), static_cast<int>(state.range(1)), fidelity, state.range(3) != 0};
}

void all_reduce(benchmark::State& state) {
  const SetUp ready = made_for(state);
  RunResult result = ready.run();  // makes what the first call on a communicator makes
  for (auto _ : state) result = ready.run();
  state.counters["simulated_ms"] = to_seconds(result.step_time) * 1e3;
  state.counters["classes"] = static_cast<double>(ready.stage.partition.ranks.size());
  state.counters["events"] = static_cast<double>(result.events);
  state.counters["messages"] = static_cast<double>(result.flows);
}

void set_up(benchmark::State& state) {
  for (auto _ : state) {
    const SetUp made = made_for(state);
    benchmark::DoNotOptimize(made.stage.partition.ranks.data());
  }
}

void cases(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"gpus", "per_node", "message", "folded"})->Unit(benchmark::kMillisecond);
  for (const int per_node : {8, 1}) {
    benchmark->Args({4096, per_node, 0, 1})->Args({4096, per_node, 0, 0});
    benchmark->Args({512, per_node, 1, 1})->Args({512, per_node, 1, 0});
  }
  benchmark->Args({4096, 1, 1, 0})->Args({4096, 8, 1, 0});
}
BENCHMARK(all_reduce)->Apply(cases);
BENCHMARK(set_up)->Apply(cases);

}  // namespace
}  // namespace orrery
