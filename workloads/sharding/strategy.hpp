// How the replicas of a model share its state: what each keeps, and when gradients and parameters travel.
//
// A strategy is asked at fixed points of a stage's program (the order of calls is that of the program), and answers by
// adding tasks to the emitter. Micro-batches before a chunk's last one only accumulate (`no_sync`), unless a strategy
// acts on them. Adding one: a file here, and a row in table.cpp.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "workloads/emit/layout.hpp"
#include "workloads/emit/stage.hpp"
#include "workloads/optimizers/optimizer.hpp"
#include "workloads/plan.hpp"
#include "workloads/registry.hpp"

namespace orrery {

// What a strategy may know about its stage. Outlives the strategy.
struct StrategyContext {
  const Stage* stage = nullptr;
  StorageFormat storage;
  Groups groups;
  std::int64_t replicas = 1;  // members of the data group
  KernelPool* pool = nullptr;
  std::int64_t optimizer_state = 0;  // bytes per parameter
  bool fused = true;
};

class ShardingStrategy {
 public:
  virtual ~ShardingStrategy() = default;

  // Weights, gradients, optimizer state and buffers held for the whole step.
  virtual void resident(ProgramBuilder& program) = 0;

  virtual void begin_step(StageEmitter& /*out*/) {}
  // Around the forward and backward pass of a unit; `unit` indexes Stage::units.
  virtual void before_forward(StageEmitter& /*out*/, std::size_t /*unit*/) {}
  // Before the operator that is the first to use a parameter, as the hooks of its module run; in forward order.
  virtual void before_use(StageEmitter& /*out*/, std::size_t /*parameter*/) {}
  virtual void after_forward(StageEmitter& /*out*/, std::size_t /*unit*/) {}
  virtual void before_backward(StageEmitter& /*out*/, std::size_t /*unit*/) {}
  virtual void after_backward(StageEmitter& /*out*/, std::size_t /*unit*/) {}
  // A parameter's gradient of this micro-batch is complete; `last`: no later micro-batch will add to it.
  virtual void gradient_ready(StageEmitter& /*out*/, std::size_t /*parameter*/, bool /*last*/) {}
  // All backward passes are done: send what is left, and let compute wait for what is under way.
  virtual void reduce_rest(StageEmitter& /*out*/) {}

  // What this rank updates, and over whom the gradients' norm is summed.
  [[nodiscard]] virtual OptimizerWork optimizer_work() const = 0;
  [[nodiscard]] virtual GroupKindId norm_group() const = 0;

  virtual void after_optimizer(StageEmitter& /*out*/) {}
};

struct ShardingRow {
  RegistryRow row;
  std::unique_ptr<ShardingStrategy> (*make)(const StrategyContext& context, const Choice& choice,
                                            const RegistryRow& row) = nullptr;
  bool needs_world = false;  // has communicators over all ranks
};

[[nodiscard]] const ShardingRow* find_sharding(std::string_view name);

[[nodiscard]] std::unique_ptr<ShardingStrategy> make_replicated(const StrategyContext& context, const Choice& choice,
                                                                const RegistryRow& row);
[[nodiscard]] std::unique_ptr<ShardingStrategy> make_zero1(const StrategyContext& context, const Choice& choice,
                                                           const RegistryRow& row);

}  // namespace orrery
