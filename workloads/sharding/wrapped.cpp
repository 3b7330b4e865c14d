#include "workloads/sharding/wrapped.hpp"

#include <utility>

#include "workloads/sharding/offload.hpp"

namespace orrery {

namespace {

using Level = WrapUnit::Level;

class WrappedStrategy final : public ShardingStrategy {
 public:
  WrappedStrategy(const Stage& stage, const std::vector<WrapUnit>& units, std::unique_ptr<UnitHooks> hooks)
      : stage_(stage),
        hooks_(std::move(hooks)),
        unit_of_(stage.parameters.size(), 0),
        gradients_(stage.parameters.size(), 0),
        blocks_of_(stage.units.size()),
        roots_of_(static_cast<std::size_t>(stage.chunks)) {
    const std::vector<bool> trained = trained_parameters(stage);
    for (std::size_t u = 0; u < units.size(); ++u) {
      std::vector<std::size_t> trained_here;
      for (const std::size_t p : units[u].parameters) {
        unit_of_[p] = u;
        if (trained[p]) trained_here.push_back(p);
      }
      states_.push_back({.level = units[u].level,
                         .parameters = units[u].parameters.size(),
                         .trained = std::move(trained_here),
                         .in_backward = units[u].backward,
                         .chunk = units[u].chunk,
                         .stage_unit = units[u].stage_unit});
      if (units[u].level == Level::block) blocks_of_[units[u].stage_unit].push_back(u);
      if (units[u].level == Level::root) roots_of_[static_cast<std::size_t>(units[u].chunk)].push_back(u);
    }
  }

  void resident(ProgramBuilder& program) override { hooks_->resident(program); }

  void before_forward(StageEmitter& out, std::size_t unit) override {
    if (begins_chunk(unit)) {
      hooks_->begin_forward(out);
      for (const std::size_t root : roots(unit)) hooks_->pre_forward(out, root);
    }
    for (const std::size_t block : blocks_of_[unit]) hooks_->pre_forward(out, block);
  }

  // Kernel sequences end at operators, so that copies on other streams get their turn there.
  void before_use(StageEmitter& out, std::size_t parameter) override {
    out.flush();
    const std::size_t u = unit_of_[parameter];
    close_used(out, u);
    State& state = states_[u];
    if (state.level != Level::inner) return;
    if (!state.open) {
      state.open = true;
      open_.push_back(u);
      hooks_->pre_forward(out, u);
    }
    ++state.used;
  }

  void after_forward(StageEmitter& out, std::size_t unit) override {
    for (const std::size_t u : std::exchange(open_, {})) close(out, u);
    for (const std::size_t block : blocks_of_[unit]) hooks_->post_forward(out, block);
    if (!ends_chunk(unit)) return;
    for (const std::size_t root : roots(unit)) hooks_->post_forward(out, root);
    hooks_->end_forward(out);
  }

  void before_backward(StageEmitter& out, std::size_t unit) override {
    running_ = true;
    if (ends_chunk(unit)) {
      for (const std::size_t root : roots(unit)) begin_backward(out, root);
    }
    for (const std::size_t block : blocks_of_[unit]) begin_backward(out, block);
  }

  void before_backward_use(StageEmitter& out, std::size_t parameter) override {
    out.flush();
    const std::size_t u = unit_of_[parameter];
    State& state = states_[u];
    if (state.level != Level::inner) return;
    end_complete(out, [&](std::size_t other) { return other != u && states_[other].level == Level::inner; });
    if (state.backward) return;
    state.backward = true;
    in_backward_.push_back(u);
    hooks_->pre_backward(out, u);
  }

  void gradient_ready(StageEmitter& out, std::size_t parameter, bool last) override {
    const std::size_t u = unit_of_[parameter];
    State& state = states_[u];
    hooks_->gradient(out, parameter, u);
    ++gradients_[parameter];
    // Where halves of backward passes interleave, some gradients of the next micro-batch come before the last of this.
    for (const std::size_t p : state.trained) {
      if (gradients_[p] <= state.complete) return;
    }
    ++state.complete;
    if (running_ && state.trained.size() < state.parameters) {  // frozen ones may be used yet
      complete_.push_back({u, last});
    } else {
      hooks_->post_backward(out, u, last);
    }
  }

  // Gradients may be complete much later, where weight halves come after all of a backward pass.
  void after_backward(StageEmitter& out, std::size_t unit) override {
    for (const std::size_t u : std::exchange(in_backward_, {})) states_[u].backward = false;
    running_ = false;
    const bool begins = begins_chunk(unit);
    end_complete(out, [&](std::size_t u) { return begins || states_[u].level != Level::root; });
    for (std::size_t u = 0; u < states_.size(); ++u) {
      const State& state = states_[u];
      if (!state.trained.empty() || state.chunk != stage_.units[unit].chunk) continue;
      if (begins || (state.level != Level::root && state.stage_unit == unit)) hooks_->end_frozen(out, u, false);
    }
    if (begins) hooks_->end_backward(out);
  }

  // Weight halves come after the rest of a backward pass.
  void reduce_rest(StageEmitter& out) override {
    for (std::size_t u = 0; u < states_.size(); ++u) {
      if (states_[u].trained.empty()) hooks_->end_frozen(out, u, true);
    }
    hooks_->end_backward(out);
  }

  [[nodiscard]] std::int64_t zeroed_gradients(const Stage& /*stage*/) const override { return 0; }
  [[nodiscard]] std::int64_t gradient_parts() const override { return hooks_->gradient_parts(); }
  [[nodiscard]] OptimizerWork optimizer_work() const override { return hooks_->optimizer_work(); }
  [[nodiscard]] GroupKindId norm_group() const override { return hooks_->norm_group(); }

  // Gradients in host memory are read there for their norm, and nothing has to be cast or copied after the update: the
  // next gather takes the weights from there.
  [[nodiscard]] bool updates_on_host() const override { return hooks_->off_device(); }
  void before_optimizer(StageEmitter& out) override {
    if (!hooks_->off_device()) return;
    const OptimizerWork work = hooks_->optimizer_work();
    if (work.elements == 0) return;
    work_on_host(out, work.elements, static_cast<double>(work.gradient_bytes), "norm on the CPU");
  }
  void update_on_host(StageEmitter& out, double bytes) override {
    work_on_host(out, hooks_->optimizer_work().elements, bytes, "update on the CPU");
  }

 private:
  struct State {
    Level level = Level::root;
    std::size_t parameters = 0;
    std::vector<std::size_t> trained = {};
    std::size_t used = 0;       // in this forward pass
    std::int64_t complete = 0;  // micro-batches of which all gradients are there
    bool open = false;          // in its forward pass
    bool backward = false;      // in its backward pass
    bool in_backward = true;    // has one
    std::int32_t chunk = 0;
    std::size_t stage_unit = 0;
  };

  // A unit that is partly frozen, and has all its gradients.
  struct Complete {
    std::size_t unit = 0;
    bool last = false;
  };

  void begin_backward(StageEmitter& out, std::size_t u) {
    if (states_[u].in_backward) hooks_->pre_backward(out, u);
  }

  // Units whose gradients are all there, and which the backward pass has left.
  template <class Left>
  void end_complete(StageEmitter& out, Left&& left) {
    for (const Complete& each : std::exchange(complete_, {})) {
      if (left(each.unit)) {
        hooks_->post_backward(out, each.unit, each.last);
      } else {
        complete_.push_back(each);
      }
    }
  }

  // Those that the backward pass computes a gradient of.
  static std::vector<bool> trained_parameters(const Stage& stage) {
    std::vector<bool> trained(stage.parameters.size(), false);
    for (const Unit& unit : stage.units) {
      for (const Step& step : unit.block->backward) {
        for (const ParameterIndex i : step.gradients) {
          trained[unit.first_parameter + static_cast<std::size_t>(i)] = true;
        }
      }
    }
    return trained;
  }

  [[nodiscard]] bool begins_chunk(std::size_t unit) const {
    for (std::size_t u = 0; u < unit; ++u) {
      if (stage_.units[u].chunk == stage_.units[unit].chunk) return false;
    }
    return true;
  }
  [[nodiscard]] bool ends_chunk(std::size_t unit) const {
    for (std::size_t u = unit + 1; u < stage_.units.size(); ++u) {
      if (stage_.units[u].chunk == stage_.units[unit].chunk) return false;
    }
    return true;
  }
  [[nodiscard]] const std::vector<std::size_t>& roots(std::size_t unit) const {
    return roots_of_[static_cast<std::size_t>(stage_.units[unit].chunk)];
  }

  void close(StageEmitter& out, std::size_t u) {
    states_[u].open = false;
    states_[u].used = 0;
    hooks_->post_forward(out, u);
  }

  // Units that have used all they have are over when another's turn comes.
  void close_used(StageEmitter& out, std::size_t next) {
    std::vector<std::size_t> still;
    for (const std::size_t u : std::exchange(open_, {})) {
      if (u == next || states_[u].used < states_[u].parameters) {
        still.push_back(u);
      } else {
        close(out, u);
      }
    }
    open_ = std::move(still);
  }

  const Stage& stage_;
  std::unique_ptr<UnitHooks> hooks_;
  std::vector<std::size_t> unit_of_;                 // [parameters]
  std::vector<std::int64_t> gradients_;              // [parameters] micro-batches that it is there of
  std::vector<std::vector<std::size_t>> blocks_of_;  // [stage units]
  std::vector<std::vector<std::size_t>> roots_of_;   // [chunks]
  std::vector<State> states_;                        // [units]
  std::vector<std::size_t> open_;                    // parts of blocks in their forward pass
  std::vector<std::size_t> in_backward_;             // and in their backward pass
  std::vector<Complete> complete_;                   // in this backward pass
  bool running_ = false;                             // a backward pass of a stage's unit
};

}  // namespace

std::unique_ptr<ShardingStrategy> wrapped_strategy(const Stage& stage, const std::vector<WrapUnit>& units,
                                                   std::unique_ptr<UnitHooks> hooks) {
  return std::make_unique<WrappedStrategy>(stage, units, std::move(hooks));
}

}  // namespace orrery
