// FSDP2 (torch.distributed.fsdp.fully_shard): parameters are split one by one along their first dimension, and units
// are gathered through buffers.
//
// Followed here (torch/distributed/fsdp/_fully_shard: _fsdp_param_group.py, _fsdp_collectives.py, _fsdp_state.py):
//
//  - A gather is a copy-in (with the cast to param_dtype) on a stream of its own, the all-gather, and a copy-out into
//  the
//    parameters on the compute stream (unshard, wait_for_unshard). Gathers are not prefetched explicitly in the forward
//    pass: the host runs ahead and issues the next one while the GPU computes. In the forward pass the gather streams
//    wait for the copy-out of the unit before, and its buffer is freed there, so that a copy-out overlaps the next
//    gather; in the backward pass they wait for the unit's own copy-out.
//  - The backward pass prefetches the next unit when it begins one (_backward_prefetch).
//  - After a unit's backward pass (post_backward): weights are given up; compute waits for the reduction before, whose
//    input is freed then; gradients are copied into one buffer on the compute stream (chunk_cat) and freed;
//    reduce-scatter; with hybrid sharding an all-reduce of the part; cast to fp32, and addition to what earlier
//    micro-batches left. bf16 and fp32 are averaged by NCCL; fp16 is divided before and after.
//  - At the end of a backward pass compute waits for all reductions.
//  - The root keeps its weights between forward and backward (_fully_shard.py: reshard_after_forward None).
//  - Under a pipeline the weights stay, and gradients are summed, until a chunk's last backward pass
//    (torch/distributed/pipelining/stage.py, backward_maybe_with_nosync).
//  - reshard_after_forward: n keeps 1/n of the weights, cloned on the compute stream, for the backward pass's gather.
//  - Float8 weights (torchao, fsdp_utils.py): linear layers are cast before the gather, and one byte travels.
//
// Memory is freed when the host says so, and reused by what the host issues next: nothing but streams bounds how far
// gathers run ahead. What the hooks cost the host, and padding by rows instead of elements, are left out.
#include <algorithm>
#include <array>
#include <utility>

#include "workloads/sharding/fsdp.hpp"

namespace orrery {

namespace {

// Kernels that a unit needs, made once.
struct UnitKernels {
  KernelId copy_in;
  KernelId copy_out;
  KernelId reshard;       // clone of a part for a smaller group, and its copy-in
  KernelId widen;         // gradients to reduce_dtype, kept for later micro-batches
  KernelId add;           // the same, added to what is there
  KernelId copy_reduce;   // gradients into the buffer
  KernelId copy_widened;  // kept ones
  KernelId before;        // fp16's divisions
  KernelId after;
  KernelId finish;         // cast to fp32
  KernelId finish_adding;  // and addition
};

class Fsdp2 final : public UnitHooks {
 public:
  Fsdp2(const StrategyContext& context, const FsdpOptions& options, const std::vector<WrapUnit>& units)
      : context_(context),
        o_(options),
        pipelined_(context.stage->stages > 1),
        states_(units.size()),
        has_gradient_(context.stage->parameters.size(), false) {
    for (const WrapUnit& unit : units) {
      add_unit(unit);
      parameters_.push_back(unit.parameters);
    }
  }

  void resident(ProgramBuilder& program) override { hold_shards(program, context_, o_, units_); }

  // The gathers of a forward pass come after the update of the weights, and after whatever is computed before.
  void begin_forward(StageEmitter& out) override { gather_after_ = out.flush(); }

  void pre_forward(StageEmitter& out, std::size_t u) override {
    unshard(out, u);
    wait(out, u, true);
    if (o_.forward_prefetch && u + 1 < units_.size() && units_[u + 1].chunk == units_[u].chunk) unshard(out, u + 1);
  }

  void post_forward(StageEmitter& out, std::size_t u) override {
    if (units_[u].backward) order_.passed(u);
    if (!o_.reshards() || units_[u].root) return;
    free_weights(out, u);
    if (o_.reshard_size == 0 || !units_[u].backward) return;
    if (units_[u].groups.shard != context_.groups.data) return;  // experts keep nothing
    // Cloned before the whole is given up.
    out.kernel(kernels_[u].reshard, Phase::forward);
    out.memory({part_bytes(u), MemoryTag::gathered_parameters});
    states_[u].kept_part = out.flush();
  }

  void end_forward(StageEmitter& out) override { free_held(out); }

  void pre_backward(StageEmitter& out, std::size_t u) override {
    unshard(out, u);
    wait(out, u, false);
    if (o_.backward_prefetch == BackwardPrefetch::none) return;
    if (const auto next = order_.before(u); next && units_[*next].chunk == units_[u].chunk) unshard(out, *next);
  }

  void gradient(StageEmitter& out, std::size_t parameter, std::size_t /*u*/) override {
    // Without a sum in reduce_dtype it is added to what is there.
    const bool added = !widens() && has_gradient_[parameter];
    has_gradient_[parameter] = true;
    if (added) return;
    out.memory({Bytes(context_.stage->parameters[parameter].elements * o_.parameter_bytes), MemoryTag::gradients});
  }

  void post_backward(StageEmitter& out, std::size_t u, bool last) override {
    State& state = states_[u];
    const bool reduces = last || (!pipelined_ && !o_.no_sync);
    const std::int64_t n = units_[u].trained;
    if (widens() && (state.summed || !reduces)) {
      if (!state.summed) out.memory({Bytes(n * o_.reduce_bytes), MemoryTag::gradients});
      out.kernel(state.summed ? kernels_[u].add : kernels_[u].widen, Phase::backward);
      out.memory({Bytes(-n * o_.parameter_bytes), MemoryTag::gradients});
    }
    if (last || !pipelined_) free_weights(out, u);
    if (!reduces) {
      state.summed = true;
      return;
    }
    reduce(out, u);
    state.summed = false;
    for (const std::size_t p : parameters_[u]) has_gradient_[p] = false;
  }

  void end_frozen(StageEmitter& out, std::size_t u, bool last) override {
    if (last || !pipelined_) free_weights(out, u);
  }

  void end_backward(StageEmitter& out) override {
    const std::vector<TaskId> reductions = std::exchange(reductions_, {});
    // The host waits for copies of gradients that are under way (FSDPParamGroup.finalize_backward).
    if (o_.offloads && !reductions.empty()) out.host_waits_for(reductions, "end of offloading");
    for (const TaskId task : reductions) out.wait_for(task);
    free_reduce_input(out);
  }
  [[nodiscard]] bool off_device() const override { return o_.offloads; }

  [[nodiscard]] OptimizerWork optimizer_work() const override {
    std::int64_t tensors = 0;
    for (const ShardedUnit& unit : units_) tensors += unit.tensors;
    return shard_work(context_, units_, tensors);
  }
  [[nodiscard]] std::int64_t gradient_parts() const override {
    return o_.hybrid() ? context_.runs.shard : context_.replicas;
  }
  [[nodiscard]] GroupKindId norm_group() const override { return context_.groups.world; }

 private:
  enum class Weights : std::uint8_t { split, under_way, whole };
  struct State {
    Weights weights = Weights::split;
    TaskId gather;
    TaskId kept_part;          // the copy of a part of the weights for a smaller group
    bool summed = false;       // gradients of earlier micro-batches are there
    bool has_reduced = false;  // in this step
    std::int64_t gather_bytes_per_rank = 0;
    std::int64_t weight_bytes = 0;
  };

  [[nodiscard]] bool widens() const { return o_.reduce_bytes != o_.parameter_bytes; }

  // Matrices of linear layers, which torchao converts: not the tables, and not the head.
  [[nodiscard]] bool in_float8(const WrapUnit& unit, const ParameterTensor& p) const {
    return o_.float8 && context_.stage->units[unit.stage_unit].layer >= 0 && unit.level != WrapUnit::Level::root &&
           p.name.ends_with(".weight") && p.name.find("norm") == std::string::npos;
  }

  void add_unit(const WrapUnit& unit) {
    ShardedUnit sharded{.groups = unit_groups(context_, o_, unit),
                        .chunk = unit.chunk,
                        .root = unit.level == WrapUnit::Level::root,
                        .trained = unit.trained,
                        .backward = unit.backward};
    State& state = states_[units_.size()];
    double read = 0;
    for (const std::size_t p : unit.parameters) {
      const ParameterTensor& parameter = context_.stage->parameters[p];
      const std::int64_t width = in_float8(unit, parameter) ? 1 : o_.parameter_bytes;
      const std::int64_t shard = divide_up(parameter.elements, sharded.groups.shard_members);
      sharded.elements += parameter.elements;
      sharded.shard += shard;
      if (parameter.trained) {
        ++sharded.tensors;
        sharded.gradient_shard += shard;
        sharded.state_shard += shard;
        sharded.pieces.push_back({shard, parameter.columns, parameter.matrices, parameter.table});
      } else {
        sharded.frozen_shard += shard;
      }
      state.gather_bytes_per_rank += shard * width;
      state.weight_bytes += parameter.elements * width;
      // Scales of fp8 need the largest value first.
      const std::int64_t held = parameter.trained ? 4 : o_.parameter_bytes;
      read += static_cast<double>(shard * held) * (in_float8(unit, parameter) ? 2 : 1);
    }
    units_.push_back(sharded);
    make_kernels(sharded, state, read);
  }

  void make_kernels(const ShardedUnit& unit, const State& state, double read) {
    const auto p = static_cast<double>(o_.parameter_bytes);
    const std::int64_t members = unit.groups.shard_members;
    const auto gathered = static_cast<double>(state.gather_bytes_per_rank * members);
    const auto kernel = [&](const char* name, std::int64_t elements, double bytes) {
      return context_.pool->add(movement(name, elements, bytes));
    };
    const auto shard = static_cast<double>(unit.shard);
    const auto whole = static_cast<double>(unit.whole());
    UnitKernels k;
    k.copy_in = kernel("fsdp.copy_in", unit.shard, (read + static_cast<double>(state.gather_bytes_per_rank)) / shard);
    k.copy_out = kernel("fsdp.copy_out", unit.whole(), (gathered + static_cast<double>(state.weight_bytes)) / whole);
    if (o_.reshard_size > 0) {
      k.reshard = kernel("fsdp.reshard", divide_up(unit.elements, o_.reshard_size), 2 * p);
    }
    if (unit.trained > 0) make_gradient_kernels(unit, k);
    kernels_.push_back(k);
  }

  void make_gradient_kernels(const ShardedUnit& unit, UnitKernels& k) {
    const auto p = static_cast<double>(o_.parameter_bytes);
    const auto r = static_cast<double>(o_.reduce_bytes);
    const auto kernel = [&](const char* name, std::int64_t elements, double bytes) {
      return context_.pool->add(movement(name, elements, bytes));
    };
    k.widen = kernel("fsdp.widen_gradients", unit.trained, p + r);
    k.add = kernel("fsdp.add_gradients", unit.trained, p + 2 * r);
    k.copy_reduce = kernel("fsdp.copy_gradients", unit.whole_gradient(), p + r);
    k.copy_widened = kernel("fsdp.copy_gradients", unit.whole_gradient(), 2 * r);
    k.before = kernel("fsdp.divide", unit.whole_gradient(), 2 * r);
    k.after = kernel("fsdp.divide", unit.gradient_shard, 2 * r);
    k.finish = kernel("fsdp.cast_gradients", unit.gradient_shard, r + 4);
    k.finish_adding = kernel("fsdp.accumulate", unit.gradient_shard, r + 8);
  }

  [[nodiscard]] Bytes part_bytes(std::size_t u) const {
    return Bytes(divide_up(states_[u].weight_bytes, o_.reshard_size));
  }
  [[nodiscard]] Bytes gather_bytes(std::size_t u) const {
    return Bytes(states_[u].gather_bytes_per_rank * units_[u].groups.shard_members);
  }

  void unshard(StageEmitter& out, std::size_t u) {
    State& state = states_[u];
    if (state.weights != Weights::split) return;
    state.weights = Weights::under_way;
    const bool near = state.kept_part.valid();
    const GroupKindId group = near ? context_.groups.near_shard : units_[u].groups.shard;
    std::vector<TaskId> after;
    if (gather_after_.valid()) after.push_back(gather_after_);
    if (near) after.push_back(state.kept_part);
    const std::array buffer{MemoryOperation{gather_bytes(u), MemoryTag::communication_buffers}};
    // Weights in host memory come over as they are held; what is kept for the backward pass on a smaller group does
    // not.
    const Bytes wide(o_.offloads && !near ? units_[u].held_bytes(o_.parameter_bytes) : 0);
    std::array buffers{buffer[0], MemoryOperation{Bytes() - wide, MemoryTag::gathered_parameters}};
    if (wide > Bytes()) {
      const std::array memory{MemoryOperation{wide, MemoryTag::gathered_parameters}};
      after.push_back(out.side_copy(CopyDirection::host_to_device, wide,
                                    {.stream = "gather_copies",
                                     .phase = Phase::parameter_gather,
                                     .label = "copy parameters to the GPU",
                                     .after = after,
                                     .memory = memory}));
    }
    const TaskId copied = out.side_kernels({near ? kernels_[u].reshard : kernels_[u].copy_in},
                                           {.stream = "gather_copies",
                                            .phase = Phase::parameter_gather,
                                            .label = "copy in parameters",
                                            .after = after,
                                            .memory = std::span(buffers).first(wide > Bytes() ? 2 : 1)});
    state.gather = copied;
    if (!group.valid()) return;
    after.push_back(copied);
    state.gather = out.side_collective({CollectiveOp::all_gather, group, gather_bytes(u)},
                                       {.stream = stream_of(context_.groups, group),
                                        .phase = Phase::parameter_gather,
                                        .label = "gather parameters",
                                        .after = after});
  }

  void wait(StageEmitter& out, std::size_t u, bool forward) {
    State& state = states_[u];
    if (state.weights != Weights::under_way) return;
    if (forward) free_held(out);
    out.wait_for(state.gather);
    out.memory({Bytes(state.weight_bytes), MemoryTag::gathered_parameters});
    if (std::exchange(state.kept_part, TaskId()).valid()) {
      out.memory({Bytes(-part_bytes(u).count()), MemoryTag::gathered_parameters});
    }
    out.kernel(kernels_[u].copy_out, Phase::parameter_gather);
    const TaskId copied = out.flush();
    state.weights = Weights::whole;
    held_ = {copied, gather_bytes(u)};
    if (!forward) free_held(out);
  }

  // The buffer of a gather is free when its copy-out has ended, which the gather streams then wait for.
  void free_held(StageEmitter& out) {
    if (!held_.copied.valid()) return;
    gather_after_ = held_.copied;
    out.memory({Bytes(-held_.bytes.count()), MemoryTag::communication_buffers});
    held_ = {};
  }

  void free_weights(StageEmitter& out, std::size_t u) {
    State& state = states_[u];
    if (state.weights != Weights::whole) return;
    state.weights = Weights::split;
    out.memory({Bytes(-state.weight_bytes), MemoryTag::gathered_parameters});
  }

  void free_reduce_input(StageEmitter& out) {
    out.wait_for(last_scatter_);
    last_scatter_ = TaskId();
    if (reduce_input_.count() > 0) {
      out.memory({Bytes(-reduce_input_.count()), MemoryTag::communication_buffers});
    }
    reduce_input_ = Bytes();
  }

  void reduce(StageEmitter& out, std::size_t u) {
    const ShardedUnit& unit = units_[u];
    State& state = states_[u];
    free_reduce_input(out);
    reduce_input_ = Bytes(unit.whole_gradient() * o_.reduce_bytes);
    const Bytes part(unit.gradient_shard * o_.reduce_bytes);
    const bool widened = state.summed && widens();
    out.memory({reduce_input_, MemoryTag::communication_buffers});
    out.kernel(widened ? kernels_[u].copy_widened : kernels_[u].copy_reduce, Phase::gradient_reduction);
    TaskId task = out.flush();
    out.memory({Bytes(-unit.trained * (widened ? o_.reduce_bytes : o_.parameter_bytes)), MemoryTag::gradients});

    KernelSequence end;
    const bool divides = o_.reduces_in_fp16 && unit.groups.shard_members > 1;
    if (divides) {
      task = side(out, {kernels_[u].before}, "divide gradients", task, {});
      end.push_back(kernels_[u].after);
    }
    const std::array whole_part{MemoryOperation{part, MemoryTag::communication_buffers}};
    task = collective(out, CollectiveOp::reduce_scatter, unit.groups.shard, reduce_input_, task, whole_part);
    if (unit.groups.shard.valid()) last_scatter_ = task;
    if (unit.groups.replicate.valid()) {
      task = collective(out, CollectiveOp::all_reduce, unit.groups.replicate, part, task, {});
    }
    const bool adds = state.has_reduced;
    if (adds && !o_.offloads) {
      end.push_back(kernels_[u].finish_adding);
    } else if (o_.reduce_bytes != 4) {
      end.push_back(kernels_[u].finish);
    }
    const std::array no_part{MemoryOperation{Bytes(-part.count()), MemoryTag::communication_buffers}};
    if (end.empty()) {
      out.memory(no_part[0]);  // the result is the gradient, which is counted already
    } else {
      task = side(out, end, "finish gradients", task, no_part);
    }
    if (o_.offloads) task = gradients_to_host(out, u, adds, task);
    reductions_.push_back(task);
    state.has_reduced = true;
  }

  // The part in fp32, from the stream of the reductions. Where it is added to what is there, the host waits for it and
  // adds (foreach_reduce).
  TaskId gradients_to_host(StageEmitter& out, std::size_t u, bool adds, TaskId after) const {
    const TaskId task = out.side_copy(CopyDirection::device_to_host, Bytes(units_[u].gradient_shard * 4),
                                      {.stream = "reduce_copies",
                                       .phase = Phase::gradient_reduction,
                                       .label = "copy gradients to the host",
                                       .after = std::span(&after, 1)},
                                      adds);
    if (!adds) return task;
    return out.side_copy(CopyDirection::in_host_memory, Bytes(units_[u].gradient_shard * 12),
                         {.stream = "cpu",
                          .phase = Phase::gradient_reduction,
                          .label = "add gradients on the CPU",
                          .after = std::span(&task, 1)},
                         true);
  }

  static TaskId side(StageEmitter& out, const KernelSequence& kernels, std::string_view label, TaskId after,
                     std::span<const MemoryOperation> memory) {
    return out.side_kernels(kernels, {.stream = "reduce_copies",
                                      .phase = Phase::gradient_reduction,
                                      .label = label,
                                      .after = std::span(&after, 1),
                                      .memory = memory});
  }

  TaskId collective(StageEmitter& out, CollectiveOp op, GroupKindId group, Bytes bytes, TaskId after,
                    std::span<const MemoryOperation> memory) const {
    if (!group.valid()) {
      for (const MemoryOperation& operation : memory) out.memory(operation);
      return after;
    }
    return out.side_collective({op, group, bytes}, {.stream = stream_of(context_.groups, group),
                                                    .phase = Phase::gradient_reduction,
                                                    .label = "reduce gradients",
                                                    .after = std::span(&after, 1),
                                                    .memory = memory});
  }

  // A gather's buffer that the copy-out before the next one still reads.
  struct Held {
    TaskId copied;
    Bytes bytes{};
  };

  StrategyContext context_;
  FsdpOptions o_;
  bool pipelined_;
  std::vector<ShardedUnit> units_;
  std::vector<State> states_;
  std::vector<bool> has_gradient_;                    // [parameters] that is not reduced yet
  std::vector<std::vector<std::size_t>> parameters_;  // [units]
  std::vector<UnitKernels> kernels_;
  ForwardOrder order_;
  Held held_;
  TaskId gather_after_;  // what the gather streams have been told to wait for
  TaskId last_scatter_;
  Bytes reduce_input_{};
  std::vector<TaskId> reductions_;  // of this backward pass
};

}  // namespace

std::unique_ptr<UnitHooks> make_fsdp2(const StrategyContext& context, const FsdpOptions& options,
                                      const std::vector<WrapUnit>& units) {
  return std::make_unique<Fsdp2>(context, options, units);
}

}  // namespace orrery
