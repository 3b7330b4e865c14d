// What DeepSpeed's ZeRO stages have in common.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "workloads/sharding/offload.hpp"
#include "workloads/sharding/strategy.hpp"

namespace orrery {

struct ZeroOptions {
  std::int64_t stage = 1;
  std::int64_t reduce_bucket = 0;  // elements
  std::int64_t gather_bucket = 0;  // elements
  bool overlap = false;
  bool contiguous = true;
  bool reduce_scatter = true;
  // Stage 3.
  std::int64_t prefetch = 0;
  std::int64_t persistence = 0;
  std::int64_t live = 0;
  std::int64_t reuse_distance = 0;
  bool quantized_weights = false;
  bool quantized_gradients = false;
  std::int64_t secondary = 1;  // ranks over which a second copy of the weights is split (hpZ); 1: none
  std::int64_t mics = 0;       // ranks over which all state is split (MiCS); 0: all
  std::int64_t node = 0;       // quantised gradients: ranks of a node
  OffloadOptions offload;

  [[nodiscard]] bool offloads_optimizer() const { return offload.optimizer != OffloadDevice::none; }
};

[[nodiscard]] ZeroOptions zero_options(const ShardingPlan& plan);

[[nodiscard]] Problems check_zero(const ShardingPlan& plan);
void adapt_zero(const ShardingPlan& plan, OperatorShape& shape);
[[nodiscard]] Problems check_bf16_optimizer(const ShardingPlan& plan);
void adapt_bf16_optimizer(const ShardingPlan& plan, OperatorShape& shape);
[[nodiscard]] DataRuns zero_runs(const ShardingPlan& plan);

// Reduces gradients in stage 3: a bucket for each kind of holder, on a stream beside compute where overlap_comm is on.
class ZeroReducer {
 public:
  ZeroReducer(const StrategyContext& context, const ZeroOptions& options);

  // The buffer that gradients are copied into.
  void resident(ProgramBuilder& program) const;
  // A parameter's gradient of this micro-batch is there; `last`: of the last one.
  void add(StageEmitter& out, std::size_t parameter, bool last);
  // The backward pass is over: what is left is reduced, and the host waits for it.
  void flush(StageEmitter& out);

  // A rank's part of a parameter, padding included.
  [[nodiscard]] std::int64_t part(std::size_t parameter) const;

 private:
  struct Open {
    std::vector<std::size_t> parameters;
    std::int64_t elements = 0;
    std::int64_t loose = 0;  // elements that are not in the buffer
    bool last = false;
  };

  void reduce(StageEmitter& out, Open& bucket);
  TaskId scatter(StageEmitter& out, const StrategyContext::Holders& over, std::int64_t padded, TaskId after);
  TaskId offload(StageEmitter& out, std::int64_t own, bool adds, bool last, TaskId after,
                 std::span<const MemoryOperation> freed);
  TaskId copy(StageEmitter& out, CopyDirection direction, std::int64_t bytes, TaskId after,
              std::span<const MemoryOperation> memory = {}, bool blocks_host = false);
  TaskId exchange_quantized(StageEmitter& out, std::int64_t padded, TaskId after);
  TaskId kernels(StageEmitter& out, const std::vector<Kernel>& kernels, TaskId after,
                 std::span<const MemoryOperation> memory = {});
  TaskId collective(StageEmitter& out, CollectiveOp op, GroupKindId group, std::int64_t bytes, TaskId after,
                    std::span<const MemoryOperation> memory = {});
  [[nodiscard]] StrategyContext::Holders holders(std::size_t parameter) const;

  StrategyContext context_;
  ZeroOptions o_;
  std::vector<Open> open_;  // dense, experts
  std::vector<TaskId> events_;
  std::size_t awaited_ = 0;
  TaskId last_;                    // work of the reduction stream
  std::vector<bool> has_reduced_;  // [parameters] in this step
};

}  // namespace orrery
