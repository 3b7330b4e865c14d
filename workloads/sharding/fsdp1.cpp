// FSDP1 (torch.distributed.fsdp.FullyShardedDataParallel): the parameters of a unit are one flat parameter, of which
// each rank has a part.
//
// Followed here (torch/distributed/fsdp: _runtime_utils.py, _flat_param.py, _limiter_utils.py):
//
//  - A gather (_unshard) casts the rank's part to param_dtype on a stream of its own, then gathers into a fresh buffer
//    that the parameters are views of: no copies. Its stream waits for compute at the beginning of a forward pass only.
//  - Rate limiter: with limit_all_gathers the host does not issue a gather before the compute that used the unit two
//    gathers back (_FreeEventQueue holds two events) has ended. Buffers are freed by a stream that has not made them,
//    so that without it the host could allocate for many units at once.
//  - forward_prefetch issues the next unit's gather before this unit's forward pass; BACKWARD_PRE before, BACKWARD_POST
//    after its backward pass.
//  - The root is not resharded after forward (_post_forward_reshard).
//  - Gradients of the views are put together into one flat gradient by autograd (the backward of split): a copy on the
//    compute stream. Post-backward work runs on a stream of its own: cast to reduce_dtype, division, reduce-scatter,
//    division, cast to fp32, addition to what earlier micro-batches left (_reduce_grad). Hybrid sharding all-reduces
//    the part. At the end of the backward pass compute waits for that stream.
//  - NO_SHARD casts and all-reduces whole units.
//  - CPUOffload(offload_params=True): a unit's fp32 part is copied to the GPU before the cast, and the reduced gradient
//    to host memory after it, in the streams of these. A clone of the gradient in fp32 is counted for neither.
//  - Flat parameters are padded so that parameters begin at 16 bytes and parts are equal.
#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "workloads/sharding/fsdp.hpp"

namespace orrery {

namespace {

constexpr std::int64_t kAlignment = 16;  // bytes (FlatParamHandle._get_aligned_numel)

struct UnitKernels {
  KernelId cast;     // weights to param_dtype
  KernelId flatten;  // gradients of views to one
  KernelId add;      // to that of earlier micro-batches
  KernelId widen;    // to reduce_dtype
  KernelId before;
  KernelId after;
  KernelId finish;
  KernelId accumulate;
};

class Fsdp1 final : public UnitHooks {
 public:
  Fsdp1(const StrategyContext& context, const FsdpOptions& options, const std::vector<WrapUnit>& units)
      : context_(context), o_(options), states_(units.size()) {
    for (const WrapUnit& unit : units) add_unit(unit);
  }

  void resident(ProgramBuilder& program) override { hold_shards(program, context_, o_, units_); }

  void begin_forward(StageEmitter& out) override { gather_after_ = out.flush(); }

  void pre_forward(StageEmitter& out, std::size_t u) override {
    unshard(out, u);
    wait(out, u);
    if (o_.forward_prefetch && u + 1 < units_.size() && units_[u + 1].chunk == units_[u].chunk) unshard(out, u + 1);
  }

  void post_forward(StageEmitter& out, std::size_t u) override {
    if (units_[u].backward) {
      order_.passed(u);
      ++states_[u].backward_left;
    }
    if (o_.kind == FsdpKind::no_shard || (o_.reshards() && !units_[u].root)) give_up(out, u);
  }

  void pre_backward(StageEmitter& out, std::size_t u) override {
    --states_[u].backward_left;
    unshard(out, u);
    wait(out, u);
    if (o_.backward_prefetch == BackwardPrefetch::pre) prefetch(out, u);
  }

  // Autograd's gradients of the views, which become one flat gradient.
  void gradient(StageEmitter& out, std::size_t parameter, std::size_t /*u*/) override {
    out.memory({Bytes(context_.stage->parameters[parameter].elements * o_.parameter_bytes), MemoryTag::gradients});
  }

  void post_backward(StageEmitter& out, std::size_t u, bool last) override {
    State& state = states_[u];
    const ShardedUnit& unit = units_[u];
    const Bytes flat(unit.whole() * o_.parameter_bytes);
    out.memory({flat, MemoryTag::gradients});
    out.kernel(kernels_[u].flatten, Phase::backward);
    out.memory({Bytes(-unit.trained * o_.parameter_bytes), MemoryTag::gradients});
    if (state.summed) {
      out.kernel(kernels_[u].add, Phase::backward);
      out.memory({Bytes(-flat.count()), MemoryTag::gradients});
    }
    const TaskId computed = out.flush();
    const bool reduces = last || !o_.no_sync;
    if (reduces || o_.reshards()) give_up(out, u);
    if (o_.backward_prefetch == BackwardPrefetch::post) prefetch(out, u);
    state.summed = !reduces;
    if (reduces) reduce(out, u, computed);
  }

  // _register_post_backward_reshard_only_hook.
  void end_frozen(StageEmitter& out, std::size_t u, bool /*last*/) override { give_up(out, u); }

  void end_backward(StageEmitter& out) override {
    // With offloading the host waits for the copies (_post_backward_final_callback).
    const std::vector<TaskId> reductions = std::exchange(reductions_, {});
    if (o_.offloads && !reductions.empty()) out.host_waits_for(reductions, "end of offloading");
    for (const TaskId task : reductions) out.wait_for(task);
  }
  [[nodiscard]] bool off_device() const override { return o_.offloads; }

  [[nodiscard]] OptimizerWork optimizer_work() const override {
    std::int64_t flat = 0;
    for (const ShardedUnit& unit : units_) flat += unit.tensors;
    return shard_work(context_, units_, flat);
  }
  [[nodiscard]] std::int64_t gradient_parts() const override {
    if (o_.kind == FsdpKind::no_shard) return 1;
    return o_.hybrid() ? context_.runs.shard : context_.replicas;
  }
  [[nodiscard]] GroupKindId norm_group() const override {
    return o_.kind == FsdpKind::no_shard ? context_.groups.model : context_.groups.world;
  }

 private:
  enum class Weights : std::uint8_t { split, under_way, whole };
  struct State {
    Weights weights = Weights::split;
    TaskId gather;
    std::int32_t backward_left = 0;  // backward passes that are to come
    bool summed = false;
    bool has_reduced = false;
  };

  void add_unit(const WrapUnit& unit) {
    ShardedUnit sharded{.groups = unit_groups(context_, o_, unit),
                        .chunk = unit.chunk,
                        .root = unit.level == WrapUnit::Level::root,
                        .trained = unit.trained,
                        .backward = unit.backward};
    reduce_members_.push_back(sharded.groups.shard_members);
    if (o_.kind == FsdpKind::no_shard) {
      sharded.groups.replicate = std::exchange(sharded.groups.shard, GroupKindId());
      sharded.groups.shard_members = 1;
    }
    const std::int64_t aligned = kAlignment / 4;  // the flat parameter is in fp32
    std::int64_t flat = 0;
    for (const std::size_t p : unit.parameters) {
      const std::int64_t elements = context_.stage->parameters[p].elements;
      sharded.elements += elements;
      flat = divide_up(flat, aligned) * aligned + elements;
    }
    sharded.shard = divide_up(flat, sharded.groups.shard_members);
    if (unit.trained == 0) {
      sharded.frozen_shard = sharded.shard;
    } else {
      sharded.tensors = 1;
      sharded.gradient_shard = sharded.shard;
      sharded.state_shard =
          unit.trained == sharded.elements ? sharded.shard : divide_up(unit.trained, sharded.groups.shard_members);
      sharded.pieces.push_back({.elements = sharded.state_shard});
    }
    units_.push_back(sharded);
    make_kernels(sharded, reduce_members_.back());
  }

  void make_kernels(const ShardedUnit& unit, std::int64_t members) {
    const auto p = static_cast<double>(o_.parameter_bytes);
    const auto r = static_cast<double>(o_.reduce_bytes);
    const auto kernel = [&](const char* name, std::int64_t elements, double bytes) {
      return context_.pool->add(movement(name, elements, bytes));
    };
    UnitKernels k;
    k.cast = kernel("fsdp.cast_parameters", unit.shard, 4 + p);
    k.flatten = kernel("fsdp.flatten_gradients", unit.whole(), 2 * p);
    k.add = kernel("fsdp.add_gradients", unit.whole(), 3 * p);
    k.widen = kernel("fsdp.widen_gradients", unit.whole(), p + r);
    k.finish = kernel("fsdp.cast_gradients", unit.shard, r + 4);
    k.accumulate = kernel("fsdp.accumulate", unit.shard, 12);
    const DivideFactors factors = divide_factors(members);
    if (factors.before > 1) k.before = kernel("fsdp.divide", unit.whole(), 2 * r);
    if (factors.after > 1) k.after = kernel("fsdp.divide", unit.shard, 2 * r);
    kernels_.push_back(k);
  }

  [[nodiscard]] bool casts(std::size_t u) const { return o_.parameter_bytes != 4 && units_[u].trained > 0; }
  [[nodiscard]] Bytes whole_bytes(std::size_t u) const { return Bytes(units_[u].whole() * o_.parameter_bytes); }

  // The root comes last after backward: the unit before it in the order has had its turn (_needs_pre_backward_unshard).
  void prefetch(StageEmitter& out, std::size_t u) {
    const auto next = order_.before(u);
    if (next && units_[*next].chunk == units_[u].chunk && states_[*next].backward_left > 0) unshard(out, *next);
  }

  // With neither a cast nor a group, the parameter is used as it is.
  [[nodiscard]] bool in_place(std::size_t u) const {
    return !casts(u) && !o_.offloads && units_[u].groups.shard_members == 1;
  }

  void unshard(StageEmitter& out, std::size_t u) {
    State& state = states_[u];
    if (state.weights != Weights::split) return;
    state.weights = Weights::under_way;
    state.gather = TaskId();
    if (in_place(u)) return;
    std::vector<TaskId> after;
    if (gather_after_.valid()) after.push_back(gather_after_);
    const Bytes part(units_[u].shard * o_.parameter_bytes);
    const Bytes wide(o_.offloads ? units_[u].held_bytes(o_.parameter_bytes) : 0);
    if (o_.offloads) {
      const std::array memory{MemoryOperation{wide, MemoryTag::gathered_parameters}};
      state.gather = out.side_copy(CopyDirection::host_to_device, wide,
                                   {.stream = "unshard_copies",
                                    .phase = Phase::parameter_gather,
                                    .label = "copy parameters to the GPU",
                                    .after = after,
                                    .memory = memory});
      after.push_back(state.gather);
    }
    if (casts(u)) {
      const std::array memory{MemoryOperation{part, MemoryTag::gathered_parameters},
                              MemoryOperation{Bytes() - wide, MemoryTag::gathered_parameters}};
      state.gather = out.side_kernels({kernels_[u].cast}, {.stream = "unshard_copies",
                                                           .phase = Phase::parameter_gather,
                                                           .label = "cast parameters",
                                                           .after = after,
                                                           .memory = memory});
      after.push_back(state.gather);
    }
    const GroupKindId group = units_[u].groups.shard;
    if (!group.valid()) return;
    limit(out);
    const std::array memory{MemoryOperation{whole_bytes(u), MemoryTag::gathered_parameters},
                            MemoryOperation{Bytes() - (casts(u) ? part : wide), MemoryTag::gathered_parameters}};
    state.gather = out.side_collective({CollectiveOp::all_gather, group, whole_bytes(u)},
                                       {.stream = stream_of(context_.groups, group),
                                        .phase = Phase::parameter_gather,
                                        .label = "gather parameters",
                                        .after = after,
                                        .memory = memory});
  }

  // _FreeEventQueue.dequeue_if_needed.
  void limit(StageEmitter& out) {
    if (!o_.limit_all_gathers || static_cast<std::int64_t>(freed_.size()) < o_.in_flight) return;
    const TaskId event = freed_.front();
    freed_.pop_front();
    out.host_waits_for(std::span(&event, 1), "rate limiter");
  }

  void wait(StageEmitter& out, std::size_t u) {
    State& state = states_[u];
    if (state.weights != Weights::under_way) return;
    out.wait_for(state.gather);
    state.weights = Weights::whole;
  }

  void give_up(StageEmitter& out, std::size_t u) {
    State& state = states_[u];
    if (state.weights != Weights::whole) return;
    state.weights = Weights::split;
    if (in_place(u)) return;
    const TaskId computed = out.flush();
    if (units_[u].groups.shard.valid() && o_.limit_all_gathers) freed_.push_back(computed);
    out.memory({Bytes(-whole_bytes(u).count()), MemoryTag::gathered_parameters});
  }

  void reduce(StageEmitter& out, std::size_t u, TaskId computed) {
    const ShardedUnit& unit = units_[u];
    State& state = states_[u];
    const Bytes flat(unit.whole() * o_.parameter_bytes);
    const Bytes input(unit.whole() * o_.reduce_bytes);
    const Bytes part(unit.shard * o_.reduce_bytes);
    const bool reduced = unit.groups.shard.valid() || unit.groups.replicate.valid();
    TaskId task = computed;
    KernelSequence begin;
    std::vector<MemoryOperation> memory;
    if (o_.reduce_bytes != o_.parameter_bytes) {
      begin.push_back(kernels_[u].widen);
      memory = {{input, MemoryTag::gradients}, {Bytes(-flat.count()), MemoryTag::gradients}};
    }
    if (reduced && kernels_[u].before.valid()) begin.push_back(kernels_[u].before);
    if (!begin.empty()) task = side(out, begin, "prepare gradients", task, memory);
    if (unit.groups.shard.valid()) {
      const std::array scattered{MemoryOperation{part, MemoryTag::communication_buffers},
                                 MemoryOperation{Bytes(-input.count()), MemoryTag::gradients}};
      task = collective(out, CollectiveOp::reduce_scatter, unit.groups.shard, input, task, scattered);
    }
    if (unit.groups.replicate.valid()) {
      task = collective(out, CollectiveOp::all_reduce, unit.groups.replicate, part, task, {});
    }
    finish(out, u, task, reduced,
           unit.groups.shard.valid() ? MemoryOperation{Bytes() - part, MemoryTag::communication_buffers}
                                     : MemoryOperation{Bytes() - input, MemoryTag::gradients});
    state.has_reduced = true;
  }

  void finish(StageEmitter& out, std::size_t u, TaskId task, bool reduced, MemoryOperation freed) {
    KernelSequence end;
    if (reduced && kernels_[u].after.valid()) end.push_back(kernels_[u].after);
    if (o_.reduce_bytes != 4) end.push_back(kernels_[u].finish);
    if (states_[u].has_reduced) end.push_back(kernels_[u].accumulate);
    if (end.empty()) {
      out.memory(freed);
    } else {
      task = side(out, end, "finish gradients", task, std::span(&freed, 1));
    }
    if (o_.offloads) task = gradients_to_host(out, u, task);
    reductions_.push_back(task);
  }

  // The part in fp32, from the stream of post-backward work (_offload_grad).
  TaskId gradients_to_host(StageEmitter& out, std::size_t u, TaskId after) const {
    return out.side_copy(CopyDirection::device_to_host, Bytes(units_[u].gradient_shard * 4),
                         {.stream = "post_backward",
                          .phase = Phase::gradient_reduction,
                          .label = "copy gradients to the host",
                          .after = std::span(&after, 1)});
  }

  static TaskId side(StageEmitter& out, const KernelSequence& kernels, std::string_view label, TaskId after,
                     std::span<const MemoryOperation> memory) {
    return out.side_kernels(kernels, {.stream = "post_backward",
                                      .phase = Phase::gradient_reduction,
                                      .label = label,
                                      .after = std::span(&after, 1),
                                      .memory = memory});
  }

  TaskId collective(StageEmitter& out, CollectiveOp op, GroupKindId group, Bytes bytes, TaskId after,
                    std::span<const MemoryOperation> memory) const {
    return out.side_collective({op, group, bytes}, {.stream = stream_of(context_.groups, group),
                                                    .phase = Phase::gradient_reduction,
                                                    .label = "reduce gradients",
                                                    .after = std::span(&after, 1),
                                                    .memory = memory});
  }

  StrategyContext context_;
  FsdpOptions o_;
  std::vector<ShardedUnit> units_;
  std::vector<std::int64_t> reduce_members_;
  std::vector<State> states_;
  std::vector<UnitKernels> kernels_;
  ForwardOrder order_;
  std::deque<TaskId> freed_;  // compute after which weights were given up
  TaskId gather_after_;
  std::vector<TaskId> reductions_;  // of this backward pass
};

}  // namespace

std::unique_ptr<UnitHooks> make_fsdp1(const StrategyContext& context, const FsdpOptions& options,
                                      const std::vector<WrapUnit>& units) {
  return std::make_unique<Fsdp1>(context, options, units);
}

}  // namespace orrery
