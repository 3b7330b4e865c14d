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
  PrecisionRecipe precision = PrecisionRecipe::bf16;
  Groups groups;
  std::int64_t replicas = 1;         // members of the data group
  std::int64_t expert_replicas = 1;  // members of the expert-data group
  DataRuns runs;                     // that the data group is cut into (ShardingRow::runs)
  std::int64_t micro_batches = 1;
  KernelPool* pool = nullptr;
  const OptimizerRow* optimizer = nullptr;
  const Choice* optimizer_choice = nullptr;
  bool fused = true;

  // What the optimizer keeps for what a rank updates, master weights aside.
  [[nodiscard]] std::int64_t state_bytes(const OptimizerWork& work) const {
    return optimizer->state_bytes(*optimizer_choice, optimizer->row, work);
  }

  // The same of one parameter in a flat buffer.
  [[nodiscard]] std::int64_t flat_state_bytes() const { return state_bytes({.elements = 1, .tensors = 1}); }

  // Who holds the same parameter: over whom it is reduced, and over whom it may be split.
  struct Holders {
    GroupKindId group;
    std::int64_t members = 1;
  };
  [[nodiscard]] Holders holders_of(const ParameterTensor& parameter) const {
    return parameter.expert ? Holders{groups.expert_data, expert_replicas} : Holders{groups.data, replicas};
  }
};

class ShardingStrategy {
 public:
  virtual ~ShardingStrategy() = default;

  // Weights, gradients, optimizer state and buffers held for the whole step.
  virtual void resident(ProgramBuilder& program) = 0;

  virtual void begin_step(StageEmitter& /*out*/) {}
  // Around the forward and backward pass of a unit; `unit` indexes Stage::units.
  virtual void before_forward(StageEmitter& /*out*/, std::size_t /*unit*/) {}
  // Before the operator that uses a parameter, as the hooks of its module run, in the pass's order. Backward passes
  // include what is recomputed.
  virtual void before_use(StageEmitter& /*out*/, std::size_t /*parameter*/) {}
  virtual void before_backward_use(StageEmitter& /*out*/, std::size_t /*parameter*/) {}
  virtual void after_forward(StageEmitter& /*out*/, std::size_t /*unit*/) {}
  virtual void before_backward(StageEmitter& /*out*/, std::size_t /*unit*/) {}
  virtual void after_backward(StageEmitter& /*out*/, std::size_t /*unit*/) {}
  // A parameter's gradient of this micro-batch is complete; `last`: no later micro-batch will add to it.
  virtual void gradient_ready(StageEmitter& /*out*/, std::size_t /*parameter*/, bool /*last*/) {}
  // All backward passes are done: send what is left, and let compute wait for what is under way.
  virtual void reduce_rest(StageEmitter& /*out*/) {}

  // Elements whose gradients are filled with zeros when the step begins; frameworks that drop gradients have none.
  [[nodiscard]] virtual std::int64_t zeroed_gradients(const Stage& stage) const { return stage.trained_elements(); }
  // Over how many ranks gradients are split once they are reduced.
  [[nodiscard]] virtual std::int64_t gradient_parts() const { return 1; }
  virtual void before_optimizer(StageEmitter& /*out*/) {}

  // What this rank updates, and over whom the gradients' norm is summed.
  [[nodiscard]] virtual OptimizerWork optimizer_work() const = 0;
  [[nodiscard]] virtual GroupKindId norm_group() const = 0;

  // State in host memory: the CPUs update it, once the gradients' norm is known. `bytes` of an element pass between
  // cores and memory in clipping and update.
  [[nodiscard]] virtual bool updates_on_host() const { return false; }
  virtual void update_on_host(StageEmitter& /*out*/, double /*bytes*/) {}

  virtual void after_optimizer(StageEmitter& /*out*/) {}
};

// What a row may know of the plan before anything is built.
struct ShardingPlan {
  const Choice& choice;
  const RegistryRow& row;
  PrecisionRecipe precision = PrecisionRecipe::bf16;
  bool autocast = false;
  std::int64_t replicas = 1;  // members of the data group
  std::int64_t pipeline = 1;
  std::int64_t expert = 1;
  std::int64_t micro_batches = 1;
  std::string_view schedule = "1f1b";
};

struct ShardingRow {
  RegistryRow row;
  std::unique_ptr<ShardingStrategy> (*make)(const StrategyContext& context, const Choice& choice,
                                            const RegistryRow& row) = nullptr;
  bool needs_world = false;  // has communicators over all ranks
  // What the framework refuses, or cannot be split as asked. Keys below "parallelism.sharding". Null: nothing.
  Problems (*check)(const ShardingPlan& plan) = nullptr;
  // How the framework holds weights and gradients, where it has a way of its own. Null: as the recipe has it.
  void (*adapt)(const ShardingPlan& plan, OperatorShape& shape) = nullptr;
  DataRuns (*runs)(const ShardingPlan& plan) = nullptr;
  double tasks_per_layer = 0;  // of one pass of one micro-batch, beside those of the layer itself
  // Counts gradients parameter by parameter, so that backward passes may run by halves, of several micro-batches at one
  // time.
  bool backward_halves = false;
};

[[nodiscard]] const ShardingRow* find_sharding(std::string_view name);

[[nodiscard]] std::unique_ptr<ShardingStrategy> make_replicated(const StrategyContext& context, const Choice& choice,
                                                                const RegistryRow& row);
[[nodiscard]] std::unique_ptr<ShardingStrategy> make_zero12(const StrategyContext& context, const Choice& choice,
                                                            const RegistryRow& row);
[[nodiscard]] std::unique_ptr<ShardingStrategy> make_bf16_optimizer(const StrategyContext& context,
                                                                    const Choice& choice, const RegistryRow& row);
[[nodiscard]] std::unique_ptr<ShardingStrategy> make_zero3(const StrategyContext& context, const Choice& choice,
                                                           const RegistryRow& row);
[[nodiscard]] std::unique_ptr<ShardingStrategy> make_fsdp(const StrategyContext& context, const Choice& choice,
                                                          const RegistryRow& row);
[[nodiscard]] std::unique_ptr<ShardingStrategy> make_distributed_optimizer(const StrategyContext& context,
                                                                           const Choice& choice,
                                                                           const RegistryRow& row);

}  // namespace orrery
