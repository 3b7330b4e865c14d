// A run made by hand: two pipeline stages of two ranks each, whose every figure the tests can derive.
#pragma once

#include "sim/graph/workload.hpp"
#include "sim/results/run_result.hpp"
#include "sim/results/summary.hpp"

namespace orrery::made {

using namespace orrery::literals;

inline Instant at(Duration d) { return Instant(d); }

// Role of a stage: forward (kernels), a tensor all-reduce, a send, and the optimizer's kernels.
inline Program stage_program() {
  ProgramBuilder builder;
  const StreamId compute = builder.stream("compute", true);
  const StreamId tensor = builder.stream("tensor");
  const StreamId pipeline = builder.stream("pipeline");
  const TaskId forward = builder.kernels(
      {KernelId(0), KernelId(0)},
      {.stream = compute, .phase = Phase::forward, .label = "layer 0 forward", .micro_batch = 0, .layer = 0});
  const TaskId after_forward[] = {forward};
  builder.collective({CollectiveOp::all_reduce, GroupKindId(0), 4_MiB},
                     {.stream = tensor, .phase = Phase::forward, .label = "activations", .after = after_forward});
  builder.send({PeerKindId(0), 0, 1_MiB},
               {.stream = pipeline, .phase = Phase::forward, .label = "send \"forward\"", .after = after_forward});
  builder.kernels({KernelId(0)}, {.stream = compute, .phase = Phase::optimizer, .label = "optimizer"});
  return std::move(builder).freeze();
}

inline Workload workload() {
  Workload w;
  w.kernels.push_back({.name = "up.forward"});
  w.programs.push_back(stage_program());
  w.role_of.assign(4, RoleId(0));
  w.group_kinds = {{"tensor"}};
  w.peer_kinds = {{"pipeline_next", {}}};
  w.parameters = 1'000'000'000;
  w.active_parameters = 1'000'000'000;
  w.tokens_per_step = 8192;
  w.model_flops = Flops(6e9 * 8192);
  w.hardware_flops = Flops(8e9 * 8192);
  return w;
}

// Ranks 0 and 1 (one class) compute 60 ms of 100, wait 25 for tensor, 11 in the bubble and 4 for each other; ranks 2
// and 3 compute 80 and wait 5 for tensor, 5 for data parallel, 6 for input and 4 for the host.
inline RunResult run() {
  RunResult r;
  r.step_time = 100_ms;
  RankResult first;
  first.rank = RankId(0);
  first.role = RoleId(0);
  first.multiplicity = 2;
  first.times = {.compute = 60_ms, .exposed_communication = {{"tensor", 25_ms}}, .bubble = 11_ms, .waiting = 4_ms};
  first.memory.peak = 30_GiB;
  first.memory.by_tag[static_cast<std::size_t>(MemoryTag::weights)] = 10_GiB;
  first.memory.by_tag[static_cast<std::size_t>(MemoryTag::activations)] = 20_GiB;
  first.memory.when = at(50_ms);
  first.memory.task = TaskId(1);
  first.tasks = {{TaskId(0), at(0_ms), at(0_ms), at(40_ms)},
                 {TaskId(1), at(40_ms), at(45_ms), at(70_ms)},
                 {TaskId(2), at(40_ms), at(40_ms), at(50_ms)},
                 {TaskId(3), at(70_ms), at(70_ms), at(90_ms)}};
  first.memory_over_time = {{at(0_ms), 10_GiB}, {at(50_ms), 30_GiB}, {at(80_ms), 12_GiB}};
  RankResult second;
  second.rank = RankId(2);
  second.role = RoleId(0);
  second.multiplicity = 2;
  second.times = {
      .compute = 80_ms, .exposed_communication = {{"tensor", 5_ms}, {"data", 5_ms}}, .data_stall = 6_ms, .other = 4_ms};
  second.memory.peak = 25_GiB;
  second.memory.by_tag[static_cast<std::size_t>(MemoryTag::weights)] = 25_GiB;
  r.ranks = {first, second};
  r.class_of = {0, 0, 1, 1};
  r.traffic_by_kind = {{"tensor", {24, 50'000'000}}, {"pipeline", {2, 2'097'152}}};
  r.bytes_by_link_kind = {{"nvlink", 104'194'304}};
  r.utilization_by_link_kind = {{"nvlink", 0.125}};
  r.busiest_links = {{"node0.gpu0->nvswitch", "nvlink", 26'000'000, 0.25}};
  r.events = 1234;
  r.flows = 26;
  r.fingerprint = "0123456789abcdef";
  r.warnings = {"constants of x100 are not measured"};
  return r;
}

inline RunFacts facts() {
  RunFacts f;
  f.scenario = "made by hand";
  f.model = "one-billion";
  f.gpus = 4;
  f.nodes = 1;
  f.gpu = "x100-40gb";
  f.peak = FlopsPerSecond(4 * 200e12);
  f.memory_limits = {40_GiB, 40_GiB};
  f.tokens = 20e9;
  f.full_recompute = true;
  f.fidelity = "message";
  f.algorithms = {{"data all_reduce", "ring"}};
  f.remarks = {"micro_batch is not given: 1"};
  return f;
}

}  // namespace orrery::made
