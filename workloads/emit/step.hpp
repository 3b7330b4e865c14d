// The training step of one pipeline stage as a program.
#pragma once

#include <span>
#include <vector>

#include "sim/graph/program.hpp"
#include "workloads/emit/layout.hpp"
#include "workloads/emit/stage.hpp"
#include "workloads/operators/shape.hpp"
#include "workloads/optimizers/optimizer.hpp"
#include "workloads/schedules/schedule.hpp"
#include "workloads/sharding/strategy.hpp"

namespace orrery {

// How activations and gradients go from stage to stage.
struct TransferOptions {
  bool scatter_gather = false;  // 1/tensor per tensor rank, gathered on arrival
  bool overlap = false;         // receives posted ahead, sends not waited for
  bool block_host = false;      // the host waits for each (not with overlap)
  bool streams_per_chunk = false;
  bool overlap_pairs = false;  // Schedule::overlaps_pairs, where rows travel; needs `overlap`
};

struct StepContext {
  const Stage* stage = nullptr;
  OperatorShape shape;
  Groups groups;
  TransferOptions transfers;
  Duration step_overhead{};
  Bytes framework_memory{};
  Bytes user_buffers{};  // of overlapped tensor-parallel communication
  KernelPool* pool = nullptr;
  const OptimizerRow* optimizer = nullptr;
  Choice optimizer_choice;
};

// Load, forward and backward passes in the order of `slots`, gradient reduction, clipping, update.
[[nodiscard]] Program emit_step(const StepContext& context, std::span<const Slot> slots, ShardingStrategy& strategy);

}  // namespace orrery
