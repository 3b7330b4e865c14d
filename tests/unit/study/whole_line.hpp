// Whole runs with closed-form results: a real model, a real topology and the executor, on hardware without overheads.
//
// The GPU is steady: no kernel asks for more than a thousandth of memory bandwidth and none is bound by arithmetic, so
// what a kernel takes is its bytes over its rate, whatever communication runs beside it. Links have no latency, and
// traffic runs with the "ideal" protocol over rings. What is left is what the textbook formulas are about.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/exec/execute.hpp"
#include "sim/exec/kernel_time.hpp"
#include "tests/support/same_run.hpp"
#include "workloads/build.hpp"

namespace orrery::test {

using namespace literals;

inline GpuSpec steady_gpu() {
  GpuSpec gpu;
  gpu.name = "steady";
  gpu.peak.fill(FlopsPerSecond(1e15));
  gpu.vector_peak = FlopsPerSecond(1e15);
  gpu.memory = 100_GiB;
  gpu.memory_bandwidth = 1000_GBps;
  gpu.multiprocessors = 128;
  KernelConstants& k = gpu.kernels;
  k.measured = true;
  k.gemm_rate.fill(1);
  k.gemm_tile_overhead = k.gemm_depth_overhead = k.gemm_last_wave = 0;
  k.attention_forward_rate = k.attention_backward_rate = 1;
  k.attention_head_overhead = k.attention_depth_overhead = 0;
  k.attention_forward_tail = k.attention_backward_tail = 0;
  k.gemm_fixed = k.attention_fixed = k.memory_fixed = k.kernel_gap = Duration{};
  k.memory_ceiling = 1;
  k.memory_rate.fill(1e-3);
  return gpu;
}

inline LinkSpec wire(std::string name, double bytes_per_second, Duration latency = Duration{}) {
  LinkSpec link;
  link.name = std::move(name);
  link.bandwidth = BytesPerSecond(bytes_per_second);
  link.latency = latency;
  return link;
}

// `nodes` nodes of `gpus` GPUs on an NVSwitch, a NIC for each, all on one switch. The host's PCIe is fast.
inline ClusterSpec line_cluster(int nodes, int gpus, double nvlink, double nic, const GpuSpec& gpu = steady_gpu()) {
  NodeSpec node;
  node.name = "line";
  node.gpu = gpu;
  node.gpus = gpus;
  node.wiring = gpus > 1 ? GpuWiring::nvswitch : GpuWiring::none;
  node.nvlink = wire("nvlink", nvlink);
  node.pcie = wire("pcie", 1e14);
  node.nics = gpus;
  node.nic = wire("nic", nic);
  ClusterSpec cluster;
  cluster.groups.push_back({node, nodes});
  cluster.fabric.link = wire("cable", nic);
  return cluster;
}

// A GPT: no tied tables, so that first and last stage exchange nothing, and hardly any vocabulary.
inline ModelSpec line_model(std::int64_t layers, std::int64_t hidden = 256) {
  ModelSpec m;
  m.name = "line";
  m.layers = layers;
  m.hidden = hidden;
  m.heads = m.kv_heads = 4;
  m.head_dim = hidden / 4;
  m.ffn_hidden = 4 * hidden;
  m.vocabulary = 8;
  m.positions = 2048;
  m.position = PositionKind::none;
  m.norm = NormKind::layer_norm;
  return m;
}

inline TrainingSpec line_training(std::int64_t sequence, std::int64_t global_batch) {
  TrainingSpec t;
  t.sequence_length = sequence;
  t.global_batch = global_batch;
  t.optimizer = {"sgd", {}};
  return t;
}

inline ParallelismSpec degrees(std::int64_t tensor, std::int64_t pipeline, std::int64_t data) {
  ParallelismSpec p;
  p.tensor = tensor;
  p.pipeline = pipeline;
  p.data = data;
  return p;
}

inline std::string first_message(const Problems& problems) {
  return problems.empty() ? std::string() : problems[0].key + ": " + problems[0].message;
}

inline Workload workload_of(const ModelSpec& model, const TrainingSpec& training, const ParallelismSpec& parallelism) {
  auto built = build_workload(model, training, parallelism,
                              parallelism.tensor * parallelism.pipeline * std::max<std::int64_t>(1, parallelism.data));
  if (!built) FAIL(first_message(built.problems()));
  return std::move(built).value();
}

inline ExecutionOptions ideal_traffic(TrafficFidelity fidelity = TrafficFidelity::coupled) {
  ExecutionOptions options;
  options.traffic.fidelity = fidelity;
  options.traffic.algorithm = "ring";
  options.traffic.protocol = "ideal";
  options.traffic.channels = 1;
  return options;
}

// Runs the workload with every rank recorded; ranks on GPUs in order unless `placement` says otherwise.
inline RunResult run_line(const ClusterSpec& cluster, const Workload& workload, ExecutionOptions options,
                          Placement placement = {}) {
  const auto topology = Topology::build(cluster);
  if (!topology) FAIL(first_message(topology.problems()));
  if (placement.gpu_of.empty()) placement = place_in_order(workload);
  for (std::size_t r = 0; r < workload.ranks(); ++r) options.record.emplace_back(r);
  options.fold = false;
  auto result = execute(*topology, workload, placement, options);
  if (!result) FAIL(first_message(result.problems()));
  options.fold = true;
  const auto folded = execute(*topology, workload, placement, options);
  if (!folded) FAIL(first_message(folded.problems()));
  for (const std::string& difference : differences(*result, *folded)) FAIL_CHECK("folded: " << difference);
  return std::move(result).value();
}

inline double seconds(Duration d) { return to_seconds(d); }

inline Duration exposed(const RankResult& rank, const std::string& kind) {
  const auto found = rank.times.exposed_communication.find(kind);
  return found == rank.times.exposed_communication.end() ? Duration{} : found->second;
}

}  // namespace orrery::test
