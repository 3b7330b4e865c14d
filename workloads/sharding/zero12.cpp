// ZeRO stages 1 and 2 as DeepSpeed runs them (deepspeed/runtime/zero/stage_1_and_2.py; engine.py, allreduce_gradients):
// all trained parameters in one flat buffer, of which each replica updates an equal part.
//
// Gradients are copied into a bucket's buffer (contiguous_gradients) as they come; a bucket that cannot take the next
// one is reduced. `reduce_scatter` is called so, but with DeepSpeed's default (use_multi_rank_bucket_allreduce) the
// bucket is flattened and all-reduced all the same, and each rank copies its part of the result; without it the bucket
// is all-reduced in place (average_tensor, allreduce_and_scatter, gradient_reduction_w_predivide). Gradients that were
// not copied as they came are flattened in any case, and the result is copied back over them (buffered_reduce_fallback,
// allreduce_and_copy).
//
//  - Stage 2 reduces with every micro-batch, in the hooks of the gradients. Stage 1 keeps all gradients and reduces at
//    the boundary of accumulation: in the hooks with overlap_comm, else after the last backward pass.
//  - With overlap_comm reductions have a stream of their own, but when one is issued compute first waits for those
//    before it, and at the end the host waits for everything (independent_gradient_partition_epilogue). Without it,
//    they are in the compute stream.
//  - After the update the flat buffer is gathered in pieces of allgather_bucket_size (all_gather_dp_groups; newer
//    versions gather it at once where PyTorch has all_gather_into_tensor: as with a large enough piece).
//
// Buffers of a whole bucket are there during the backward pass, two of them with overlap_comm.
#include <algorithm>
#include <array>
#include <utility>

#include "workloads/sharding/deepspeed.hpp"
#include "workloads/sharding/fsdp.hpp"

namespace orrery {

namespace {

constexpr std::int64_t kMasterBytes = 4;
constexpr std::int64_t kGradientBytes = 4;  // as the optimizer reads them

class Zero12 final : public ShardingStrategy {
 public:
  Zero12(const StrategyContext& context, const ZeroOptions& options)
      : context_(context), o_(options), open_(2), has_reduced_(context.stage->parameters.size(), false) {}

  void resident(ProgramBuilder& program) override {
    const StorageFormat& s = context_.storage;
    const std::int64_t n = context_.stage->trained_elements();
    const std::int64_t own = own_elements();
    program.resident({Bytes(context_.stage->weight_bytes(s.weight)), MemoryTag::weights});
    if (n == 0) return;
    if (o_.offloads_optimizer()) return resident_off_device(program, own);
    program.resident({Bytes((keeps_gradients() ? n : own) * s.gradient), MemoryTag::gradients});
    if (const std::int64_t state = own * s.master + context_.state_bytes(optimizer_work()); state > 0) {
      program.resident({Bytes(state), MemoryTag::optimizer_state});
    }
  }

  void gradient_ready(StageEmitter& out, std::size_t parameter, bool last) override {
    if (!keeps_gradients() && travels(parameter)) {
      out.memory({gradient_bytes(parameter), MemoryTag::gradients});
    }
    if (o_.stage == 1 && (!last || !o_.overlap)) return;
    add(out, parameter, last);
  }

  void after_backward(StageEmitter& out, std::size_t unit) override {
    if (o_.stage == 2 && unit == 0) finish(out);
  }

  void reduce_rest(StageEmitter& out) override {
    if (o_.stage == 2) return;
    if (!o_.overlap) {
      for (std::size_t p = 0; p < context_.stage->parameters.size(); ++p) add(out, p, true);
    }
    finish(out);
  }

  [[nodiscard]] std::int64_t zeroed_gradients(const Stage& /*stage*/) const override { return 0; }

  void before_optimizer(StageEmitter& out) override {
    if (optimizer_copy() > 0) out.memory({Bytes(optimizer_copy()), MemoryTag::gradients});
  }

  [[nodiscard]] bool updates_on_host() const override { return o_.offloads_optimizer(); }
  // All at once: the optimizer is called for whole partitions (step).
  void update_on_host(StageEmitter& out, double bytes) override {
    HostUpdate(o_.offload, context_.storage.weight, kMasterBytes + context_.flat_state_bytes())
        .emit(out, own_elements(), 0, bytes);
  }

  [[nodiscard]] OptimizerWork optimizer_work() const override {
    // DeepSpeed's CPU Adam is one pass, whatever the GPU's is.
    const bool fused = context_.fused || o_.offloads_optimizer();
    return {own_elements(), 1, o_.offloads_optimizer() ? kGradientBytes : gradient_bytes_read(), fused};
  }
  [[nodiscard]] GroupKindId norm_group() const override { return context_.groups.world; }

  void after_optimizer(StageEmitter& out) override {
    if (optimizer_copy() > 0) out.memory({Bytes(-optimizer_copy()), MemoryTag::gradients});
    for (const Sort& sort : sorts()) {
      if (!sort.over.group.valid()) continue;
      const std::int64_t whole = sort.part * sort.over.members;
      const std::int64_t pieces = std::max<std::int64_t>(1, whole / std::max<std::int64_t>(1, o_.gather_bucket));
      const std::int64_t each = std::max<std::int64_t>(1, sort.part / pieces);
      for (std::int64_t i = 0; i < pieces; ++i) {
        const std::int64_t part = i + 1 < pieces ? each : sort.part - each * (pieces - 1);
        out.wait_for(out.collective(
            {CollectiveOp::all_gather, sort.over.group, Bytes(part * sort.over.members * context_.storage.weight)},
            stream_of(context_.groups, sort.over.group), Phase::parameter_gather, "gather parameters"));
      }
    }
  }

 private:
  // Parameters with the same replicas share a flat buffer.
  struct Sort {
    StrategyContext::Holders over;
    std::int64_t part = 0;  // elements of a rank
  };

  struct Open {
    std::vector<std::size_t> parameters;
    std::int64_t elements = 0;
    bool last = false;  // no later micro-batch adds to them
  };

  [[nodiscard]] std::vector<Sort> sorts() const {
    std::array<std::int64_t, 2> elements{0, 0};
    std::array<StrategyContext::Holders, 2> holders{};
    for (const ParameterTensor& p : context_.stage->parameters) {
      if (!p.trained) continue;
      const std::size_t sort = p.expert ? 1 : 0;
      elements[sort] += p.elements;
      holders[sort] = context_.holders_of(p);
    }
    std::vector<Sort> sorts;
    for (std::size_t s = 0; s < 2; ++s) {
      if (elements[s] > 0) sorts.push_back({holders[s], divide_up(elements[s], holders[s].members)});
    }
    return sorts;
  }

  [[nodiscard]] std::int64_t own_elements() const {
    std::int64_t own = 0;
    for (const Sort& sort : sorts()) own += sort.part;
    return own;
  }

  // With the optimizer in host memory (__init__): its state, fp32 gradients and a pinned copy of the updated weights
  // are there, and a buffer for the largest parameter on either side; from the second micro-batch on, 16-bit sums too.
  void resident_off_device(ProgramBuilder& program, std::int64_t own) const {
    const StorageFormat& s = context_.storage;
    std::int64_t largest = 0;
    for (const ParameterTensor& p : context_.stage->parameters) {
      if (p.trained) largest = std::max(largest, p.elements);
    }
    if (keeps_gradients()) {
      program.resident({Bytes(context_.stage->trained_elements() * s.gradient), MemoryTag::gradients});
    }
    program.resident({Bytes(largest * s.gradient), MemoryTag::communication_buffers});
    const std::int64_t sums = sums_on_host() ? s.gradient : 0;
    const std::int64_t cast = s.weight != kMasterBytes ? s.weight : 0;
    program.keep_off_device({Bytes(own * (kMasterBytes + kGradientBytes + context_.flat_state_bytes() + sums + cast) +
                                   largest * s.gradient),
                             Bytes()});
  }

  [[nodiscard]] std::int64_t gradient_bytes_read() const {
    const StorageFormat& s = context_.storage;
    return s.main_gradient > 0 ? s.main_gradient : s.gradient;
  }

  // Whether a gradient goes anywhere: to other replicas, or to the host.
  [[nodiscard]] bool travels(std::size_t parameter) const {
    const ParameterTensor& p = context_.stage->parameters[parameter];
    return p.trained && (o_.offloads_optimizer() || context_.holders_of(p).group.valid());
  }

  [[nodiscard]] bool sums_on_host() const { return o_.stage == 2 && context_.micro_batches > 1; }
  [[nodiscard]] bool keeps_gradients() const { return o_.stage == 1; }
  [[nodiscard]] Bytes gradient_bytes(std::size_t p) const {
    return Bytes(context_.stage->parameters[p].elements * context_.storage.gradient);
  }
  [[nodiscard]] std::int64_t optimizer_copy() const {
    return o_.offloads_optimizer() ? 0 : own_elements() * context_.storage.main_gradient;
  }

  [[nodiscard]] Bytes buffers() const {
    if (!o_.contiguous) return Bytes();
    return Bytes((o_.overlap ? 2 : 1) * o_.reduce_bucket * context_.storage.gradient);
  }

  void begin(StageEmitter& out) {
    if (std::exchange(begun_, true)) return;
    if (buffers().count() > 0) out.memory({buffers(), MemoryTag::communication_buffers});
  }

  void finish(StageEmitter& out) {
    if (!std::exchange(begun_, false)) return;
    for (Open& bucket : open_) reduce(out, bucket);
    if (o_.overlap && last_.valid()) {
      const TaskId computed = out.flush();
      const std::array all{last_, computed};
      out.host_waits_for(all, "end of reductions");
    }
    out.wait_for(last_);
    last_ = TaskId();
    if (buffers().count() > 0) out.memory({Bytes() - buffers(), MemoryTag::communication_buffers});
  }

  void add(StageEmitter& out, std::size_t parameter, bool last) {
    const ParameterTensor& p = context_.stage->parameters[parameter];
    if (!travels(parameter)) return;
    begin(out);
    Open& bucket = open_[p.expert ? 1 : 0];
    if (bucket.elements + p.elements > o_.reduce_bucket) reduce(out, bucket);
    if (o_.contiguous && p.elements <= o_.reduce_bucket) {
      out.kernel(context_.pool->add(movement("zero.copy_gradient", p.elements, twice())), Phase::gradient_reduction);
    }
    bucket.parameters.push_back(parameter);
    bucket.elements += p.elements;
    bucket.last = last;
  }

  [[nodiscard]] double twice() const { return 2.0 * static_cast<double>(context_.storage.gradient); }

  void reduce(StageEmitter& out, Open& open) {
    if (open.parameters.empty()) return;
    const Open bucket = std::exchange(open, {});
    const auto over = context_.holders_of(context_.stage->parameters[bucket.parameters.front()]);
    Bytes loose;
    bool adds = false;
    for (const std::size_t p : bucket.parameters) {
      loose += gradient_bytes(p);
      adds = adds || has_reduced_[p];
      has_reduced_[p] = true;
    }
    // Compute waits for earlier reductions, not for this one.
    const TaskId computed = out.flush();
    out.wait_for(last_);
    KernelSequence before{context_.pool->add(movement("zero.divide", bucket.elements, twice()))};
    const bool flattens = o_.reduce_scatter || !o_.contiguous;
    if (flattens) before.push_back(context_.pool->add(movement("zero.flatten", bucket.elements, twice())));
    const std::int64_t own = divide_up(bucket.elements, over.members);
    const double kept = (adds ? 1.5 : 1.0) * twice();
    KernelSequence after{context_.pool->add(movement("zero.keep_part", own, kept))};
    if (!o_.contiguous) {
      after.insert(after.begin(), context_.pool->add(movement("zero.copy_back", bucket.elements, twice())));
    }
    const CollectiveCall call{CollectiveOp::all_reduce, over.group, Bytes(bucket.elements * context_.storage.gradient)};
    const MemoryOperation copy{call.bytes, MemoryTag::communication_buffers};
    if (flattens) out.memory(copy);
    TaskId task = kernels(out, before, computed);
    task = collective(out, call, task);
    last_ = kernels(out, after, task);
    if (o_.offloads_optimizer()) last_ = offload(out, own, adds, bucket.last, last_);
    if (flattens) out.memory({Bytes() - copy.bytes, copy.tag});
    if (!keeps_gradients()) out.memory({Bytes() - loose, MemoryTag::gradients});
  }

  // A rank's part of a bucket goes to the host (copy_grads_in_partition), in the stream of the reductions. Until the
  // last micro-batch it goes in 16 bits, and comes back to be added to (async_accumulate_grad_in_cpu_via_gpu); then in
  // fp32, once it has been read for the norm (async_inplace_copy_grad_to_fp32_buffer_from_gpu). Nobody waits but who
  // comes next in the stream.
  TaskId offload(StageEmitter& out, std::int64_t own, bool adds, bool last, TaskId after) const {
    const std::int64_t width = context_.storage.gradient;
    const auto g = static_cast<double>(width);
    TaskId task = after;
    if (adds) {
      task = copy(out, CopyDirection::host_to_device, own * width, task);
      task = kernels(out, {context_.pool->add(movement("zero.add_gradients", own, 3 * g))}, task);
    }
    if (!last) return copy(out, CopyDirection::device_to_host, own * width, task);
    KernelSequence reads{context_.pool->add(movement("zero.gradient_norm", own, g))};
    if (width != kGradientBytes) {
      reads.push_back(context_.pool->add(movement("zero.widen_gradients", own, g + kGradientBytes)));
    }
    task = kernels(out, reads, task);
    return copy(out, CopyDirection::device_to_host, own * kGradientBytes, task);
  }

  TaskId copy(StageEmitter& out, CopyDirection direction, std::int64_t bytes, TaskId after) const {
    const bool to_host = direction == CopyDirection::device_to_host;
    const TaskId task = out.side_copy(direction, Bytes(bytes),
                                      {.stream = o_.overlap ? "reduction"
                                                 : to_host  ? kToHost
                                                            : kToDevice,
                                       .phase = Phase::gradient_reduction,
                                       .label = to_host ? "copy gradients to the host" : "copy gradients back",
                                       .after = std::span(&after, after.valid() ? 1 : 0)});
    if (!o_.overlap) out.wait_for(task);
    return task;
  }

  TaskId kernels(StageEmitter& out, const KernelSequence& sequence, TaskId after) const {
    if (o_.overlap) {
      return out.side_kernels(sequence, {.stream = "reduction",
                                         .phase = Phase::gradient_reduction,
                                         .label = "prepare gradients",
                                         .after = std::span(&after, after.valid() ? 1 : 0)});
    }
    out.kernels(sequence, Phase::gradient_reduction);
    return out.flush();
  }

  TaskId collective(StageEmitter& out, const CollectiveCall& call, TaskId after) const {
    if (!call.group.valid()) return after;
    const TaskId task = out.side_collective(call, {.stream = stream_of(context_.groups, call.group),
                                                   .phase = Phase::gradient_reduction,
                                                   .label = "reduce gradients",
                                                   .after = std::span(&after, 1)});
    if (!o_.overlap) out.wait_for(task);
    return task;
  }

  StrategyContext context_;
  ZeroOptions o_;
  std::vector<Open> open_;         // dense, experts
  std::vector<bool> has_reduced_;  // [parameters] in this step
  TaskId last_;                    // of the reductions
  bool begun_ = false;             // buckets of this backward pass
};

}  // namespace

std::unique_ptr<ShardingStrategy> make_zero12(const StrategyContext& context, const Choice& choice,
                                              const RegistryRow& row) {
  return std::make_unique<Zero12>(context, zero_options({.choice = choice,
                                                         .row = row,
                                                         .precision = context.precision,
                                                         .replicas = context.replicas,
                                                         .pipeline = context.stage->stages,
                                                         .micro_batches = context.micro_batches}));
}

}  // namespace orrery
