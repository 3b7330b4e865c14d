// One all-reduce through the whole of sim/exec: routes, classes, executor and traffic, as in any run.
//
// The step is a single ring all-reduce of 1 GiB over all GPUs, eight a node, on a rail-optimised fabric. Set-up (the
// routes of the ring, and the classes where it is folded) is made once, before the clock starts, and timed by a
// benchmark of its own; every iteration then plays the same set-up. bench_fluid has the same ring, of one GPU a host,
// message by message on the bare fluid network.
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
constexpr int kGpusPerNode = 8;

LinkSpec link_of(double gigabytes, Duration latency) {
  LinkSpec link;
  link.bandwidth = BytesPerSecond(gigabytes * 1e9);
  link.latency = latency;
  return link;
}

// Nodes in the manner of a DGX H100: what matters here is their shape.
ClusterSpec cluster_of(int gpus) {
  NodeSpec node;
  node.name = "node";
  node.gpu.name = "gpu";
  node.gpu.multiprocessors = 132;
  node.gpu.memory = 80_GiB;
  node.gpu.memory_bandwidth = BytesPerSecond(3350e9);
  node.gpus = kGpusPerNode;
  node.wiring = GpuWiring::nvswitch;
  node.nvlink = link_of(450, 600_ns);
  node.sockets = 2;
  node.switches_per_socket = 4;
  node.pcie = link_of(63, 150_ns);
  node.socket_link = link_of(50, 150_ns);
  node.nics = kGpusPerNode;
  node.nic = link_of(50, 500_ns);
  ClusterSpec cluster;
  cluster.groups.push_back({node, gpus / kGpusPerNode});
  cluster.fabric.kind = FabricKind::rail_optimized;
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
  SetUp(int gpus, TrafficFidelity fidelity, bool folded)
      : topology(Topology::build(cluster_of(gpus)).value()),
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

// Arguments: GPUs, whether message by message, whether folded.
TrafficFidelity fidelity_of(const benchmark::State& state) {
  return state.range(1) != 0 ? TrafficFidelity::message : TrafficFidelity::coupled;
}

void all_reduce(benchmark::State& state) {
  const SetUp ready(static_cast<int>(state.range(0)), fidelity_of(state), state.range(2) != 0);
  RunResult result = ready.run();  // makes what the first call on a communicator makes
  for (auto _ : state) result = ready.run();
  state.counters["simulated_ms"] = to_seconds(result.step_time) * 1e3;
  state.counters["classes"] = static_cast<double>(ready.stage.partition.ranks.size());
  state.counters["events"] = static_cast<double>(result.events);
}

void set_up(benchmark::State& state) {
  for (auto _ : state) {
    const SetUp made(static_cast<int>(state.range(0)), fidelity_of(state), state.range(2) != 0);
    benchmark::DoNotOptimize(made.stage.partition.ranks.data());
  }
}

void cases(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"gpus", "message", "folded"})->Unit(benchmark::kMillisecond);
  benchmark->Args({4096, 0, 1})->Args({4096, 0, 0})->Args({512, 0, 1})->Args({512, 1, 1})->Args({512, 1, 0});
}
BENCHMARK(all_reduce)->Apply(cases);
BENCHMARK(set_up)->Apply(cases);

}  // namespace
}  // namespace orrery
