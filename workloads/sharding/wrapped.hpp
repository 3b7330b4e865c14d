// From the hooks of a stage's program to those of the units that FSDP wraps.
//
// The root's forward pass is its chunk's; a block's is that of its block; that of a part of a block lasts from the
// first use of one of its parameters to the first operator of others after it has used all of its own. Backward, a part
// begins with the first use of a parameter, and every unit ends when the last of its gradients is complete, in
// whichever half of the backward pass that is; one that is partly frozen when its last operator has run, one that is
// frozen with its block. Parts of a block that is recomputed as a whole are gathered when recomputation comes to them,
// and stay for the backward pass.
#pragma once

#include <memory>
#include <vector>

#include "workloads/sharding/strategy.hpp"
#include "workloads/sharding/wrap.hpp"

namespace orrery {

// What happens to units. The order of calls is that of the program.
class UnitHooks {
 public:
  virtual ~UnitHooks() = default;

  virtual void resident(ProgramBuilder& program) = 0;
  virtual void begin_forward(StageEmitter& /*out*/) {}  // of a chunk, before its root's
  virtual void pre_forward(StageEmitter& out, std::size_t unit) = 0;
  virtual void post_forward(StageEmitter& out, std::size_t unit) = 0;
  virtual void end_forward(StageEmitter& /*out*/) {}
  virtual void pre_backward(StageEmitter& out, std::size_t unit) = 0;
  // A gradient of this micro-batch has been computed.
  virtual void gradient(StageEmitter& out, std::size_t parameter, std::size_t unit) = 0;
  // All gradients of a unit are complete; `last`: no later micro-batch will add to them.
  virtual void post_backward(StageEmitter& out, std::size_t unit, bool last) = 0;
  // The same of a unit that has nothing trained; `last`: no later backward pass comes to it.
  virtual void end_frozen(StageEmitter& out, std::size_t unit, bool last) = 0;
  virtual void end_backward(StageEmitter& out) = 0;

  // State in host memory, which the CPUs update.
  [[nodiscard]] virtual bool off_device() const { return false; }
  [[nodiscard]] virtual OptimizerWork optimizer_work() const = 0;
  [[nodiscard]] virtual std::int64_t gradient_parts() const = 0;
  [[nodiscard]] virtual GroupKindId norm_group() const = 0;
};

// `units` as wrap_units() gives them.
[[nodiscard]] std::unique_ptr<ShardingStrategy> wrapped_strategy(const Stage& stage, const std::vector<WrapUnit>& units,
                                                                 std::unique_ptr<UnitHooks> hooks);

}  // namespace orrery
