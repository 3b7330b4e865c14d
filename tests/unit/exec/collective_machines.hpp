// Clusters to play collectives on, and a way to time one.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "sim/exec/machine.hpp"
#include "sim/exec/traffic.hpp"

namespace orrery::testing {

inline LinkSpec link_of(double gigabytes, double efficiency, Duration latency) {
  LinkSpec link;
  link.bandwidth = BytesPerSecond(gigabytes * 1e9);
  link.efficiency = efficiency;
  link.latency = latency;
  return link;
}

inline GpuSpec gpu_of(double bf16_petaflops, bool fp8, double memory_gigabytes) {
  GpuSpec gpu;
  gpu.peak[static_cast<std::size_t>(Precision::bf16)] = FlopsPerSecond(bf16_petaflops * 1e15);
  if (fp8) gpu.peak[static_cast<std::size_t>(Precision::fp8)] = FlopsPerSecond(2 * bf16_petaflops * 1e15);
  gpu.nvlink_sharp = fp8;  // both came with Hopper
  gpu.vector_peak = FlopsPerSecond(2e13);
  gpu.memory = Bytes(std::int64_t{80} << 30);
  gpu.memory_bandwidth = BytesPerSecond(memory_gigabytes * 1e9);
  gpu.multiprocessors = 108;
  return gpu;
}

inline Topology build(const ClusterSpec& spec) {
  Result<Topology> built = Topology::build(spec);
  REQUIRE_MESSAGE(built.ok(), to_string(built.problems()));
  return std::move(built).value();
}

// `nodes` of one GPU on one switch, where only the NIC's port takes time: `gigabytes` a second, `latency` a message.
inline ClusterSpec ideal_cluster(int nodes, double gigabytes, Duration latency) {
  NodeSpec node;
  node.name = "ideal";
  node.gpu = gpu_of(0.3, false, 1e6);
  node.gpus = 1;
  node.pcie = link_of(1e5, 1, Duration::zero());
  node.nics = 1;
  node.nic = link_of(gigabytes, 1, latency / 2);  // out of the sender's port and into the receiver's
  ClusterSpec cluster;
  cluster.groups = {{node, nodes}};
  cluster.fabric.kind = FabricKind::single_switch;
  cluster.fabric.switch_latency = Duration::zero();
  return cluster;
}

// Nodes with the figures of the catalogue (topology/catalog), on one switch.
inline NodeSpec dgx_a100() {
  NodeSpec node;
  node.name = "dgx-a100-40gb";
  node.gpu = gpu_of(0.312, false, 1555);
  node.gpus = 8;
  node.wiring = GpuWiring::nvswitch;
  node.nvlink = link_of(300, 0.775, Duration(250'000));
  node.sockets = 2;
  node.switches_per_socket = 2;
  node.pcie = link_of(31.5, 0.832, Duration(150'000));
  node.socket_link = link_of(144, 0.111, Duration(100'000));
  node.nics = 8;
  node.nic = link_of(25, 0.984, Duration(50'000));
  node.nic.adapter_latency = Duration(550'000);
  return node;
}

inline NodeSpec dgx_h100() {
  NodeSpec node = dgx_a100();
  node.name = "dgx-h100";
  node.gpu = gpu_of(0.989, true, 3352);
  node.nvlink = link_of(450, 0.796, Duration(250'000));
  node.switches_per_socket = 4;
  node.pcie = link_of(63, 0.876, Duration(150'000));
  node.nic = link_of(50, 0.94, Duration(50'000));
  node.nic.adapter_latency = Duration(550'000);
  return node;
}

inline NodeSpec dgx1_v100() {
  NodeSpec node = dgx_a100();
  node.name = "dgx1-v100";
  node.gpu = gpu_of(0, false, 900);
  node.gpu.peak[static_cast<std::size_t>(Precision::fp16)] = FlopsPerSecond(1.25e14);
  node.wiring = GpuWiring::mesh;
  node.nvlink = link_of(25, 0.8, Duration(250'000));
  // A DGX-1 as NCCL's topology dump shows it: six links a GPU.
  node.mesh_links = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
                     {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
  node.pcie = link_of(15.75, 0.76, Duration(150'000));
  node.socket_link = link_of(19.2, 0.5, Duration(100'000));
  node.nics = 4;
  node.nic = link_of(12.5, 0.97, Duration(50'000));
  return node;
}

inline NodeSpec pcie_box() {
  NodeSpec node = dgx_a100();
  node.name = "pcie-8x-a100";
  node.wiring = GpuWiring::none;
  node.nics = 1;
  return node;
}

inline ClusterSpec cluster_of(const NodeSpec& node, int nodes, FabricKind fabric = FabricKind::single_switch) {
  ClusterSpec cluster;
  cluster.groups = {{node, nodes}};
  cluster.fabric.kind = fabric;
  cluster.fabric.link = node.nic;
  cluster.fabric.switch_latency = Duration(130'000);
  cluster.fabric.nodes_per_leaf = 2;
  return cluster;
}

inline std::vector<GpuId> all_gpus(const Topology& topology) {
  std::vector<GpuId> gpus;
  for (int i = 0; i < topology.gpus(); ++i) gpus.emplace_back(i);
  return gpus;
}

// A machine with traffic on it that notes when each operation ends.
class TrafficRun : public TrafficListener {
 public:
  explicit TrafficRun(const Topology& topology, const TrafficOptions& options = {},
                      const std::vector<LinkSlowdown>& slow = {})
      : machine(topology, {}, slow), traffic(machine, options, *this) {}

  void operation_ended(std::uint64_t token) override { ended[token] = machine.now() - Instant{}; }
  void run() {
    Nobody nobody;
    machine.run(nobody, traffic);
  }

  Machine machine;
  Traffic traffic;
  std::map<std::uint64_t, Duration> ended;

 private:
  struct Nobody {
    void handle(std::uint32_t /*target*/) {}
    void flow_completed(std::uint32_t /*target*/) {}
    void after_event() {}
  };
};

inline CollectiveCall call_of(CollectiveOp op, std::int64_t bytes) {
  CollectiveCall call;
  call.op = op;
  call.bytes = Bytes(bytes);
  return call;
}

inline Duration time_of(const Topology& topology, const std::vector<GpuId>& members, CollectiveOp op,
                        std::int64_t bytes, const TrafficOptions& options, const std::vector<LinkSlowdown>& slow = {}) {
  TrafficRun run(topology, options, slow);
  run.traffic.start_collective(members, call_of(op, bytes), 1, 0, 7);
  run.run();
  REQUIRE(run.ended.count(7) == 1);
  return run.ended[7];
}

inline TrafficOptions options_of(TrafficFidelity fidelity, const std::string& algorithm = "auto",
                                 const std::string& protocol = "auto") {
  TrafficOptions options;
  options.fidelity = fidelity;
  options.algorithm = algorithm;
  options.protocol = protocol;
  return options;
}

}  // namespace orrery::testing
