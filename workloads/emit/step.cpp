// One stage's step, in the order in which the host issues it:
//
//   fixed host work; (gathers of parameters); zero the gradients
//   for each slot: receive, (copy tokens), units forward or backward, send
//   reduce what gradients are left; sum partial gradients (sequence parallelism) and tied tables
//   mean loss; (overflow check); norm; clip; update; (gathers of parameters)
//
// Transfers follow Megatron-LM (megatron/core/pipeline_parallel/p2p_communication.py and schedules.py): without
// overlap a slot's send and the next slot's receive are posted together (batch_isend_irecv) when the slot's compute is
// done, and compute waits for both; with overlap a slot's receive is posted one slot ahead, and sends are left alone.
// The four kinds of transfer have a stream each, so that none waits for another.
#include "workloads/emit/step.hpp"

#include <utility>

#include "sim/base/check.hpp"

namespace orrery {

namespace {

class StepEmitter {
 public:
  StepEmitter(const StepContext& context, std::span<const Slot> slots, ShardingStrategy& strategy)
      : c_(context), stage_(*context.stage), slots_(slots), strategy_(strategy), received_(slots.size()) {
    last_backward_.resize(static_cast<std::size_t>(stage_.chunks), 0);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      if (slots[i].direction == Direction::backward) last_backward_[static_cast<std::size_t>(slots[i].chunk)] = i;
    }
  }

  Program run() && {
    begin();
    for (std::size_t i = 0; i < slots_.size(); ++i) slot(i);
    out_.at("gradients", -1, -1);
    strategy_.reduce_rest(out_);
    reduce_partial_gradients();
    reduce_tied_tables();
    report_loss();
    optimizer_step();
    out_.at("parameters", -1, -1);
    strategy_.after_optimizer(out_);
    return std::move(out_).finish();
  }

 private:
  void begin() {
    ProgramBuilder& program = out_.program();
    if (c_.framework_memory.count() > 0) program.resident({c_.framework_memory, MemoryTag::framework});
    strategy_.resident(program);
    if (c_.step_overhead > Duration::zero()) {
      program.host(c_.step_overhead, {.stream = program.stream("host"), .label = "step overhead"});
    }
    out_.at("parameters", -1, -1);
    strategy_.begin_step(out_);
    out_.at("zero gradients", -1, -1);
    if (const std::int64_t n = strategy_.zeroed_gradients(stage_); n > 0) {
      const auto width = static_cast<double>(c_.shape.storage.gradient);
      out_.kernel(c_.pool->add(streaming("zero_gradients", KernelKind::optimizer, c_.shape, 1, n, {width, 0})),
                  Phase::optimizer);
      out_.flush();
    }
    if (!slots_.empty() && receives(slots_[0])) receive(0, c_.transfers.block_host && !c_.transfers.overlap);
  }

  // Transfers.

  [[nodiscard]] std::int64_t virtual_stage(const Slot& slot) const { return slot.chunk * stage_.stages + stage_.index; }
  [[nodiscard]] std::int64_t virtual_stages() const { return stage_.chunks * stage_.stages; }
  [[nodiscard]] bool receives(const Slot& slot) const {
    const std::int64_t v = virtual_stage(slot);
    return slot.direction == Direction::forward ? v > 0 : v + 1 < virtual_stages();
  }
  [[nodiscard]] bool sends(const Slot& slot) const {
    const std::int64_t v = virtual_stage(slot);
    return slot.direction == Direction::forward ? v + 1 < virtual_stages() : v > 0;
  }

  [[nodiscard]] bool scatters() const {
    return c_.transfers.scatter_gather && c_.shape.tensor > 1 && !c_.shape.sequence_parallel;
  }
  [[nodiscard]] Bytes activation_bytes() const {
    return Bytes(c_.shape.rows() * c_.shape.model.hidden * c_.shape.storage.residual);
  }
  [[nodiscard]] Bytes transfer_bytes() const {
    return scatters() ? Bytes(divide_up(activation_bytes().count(), c_.shape.tensor)) : activation_bytes();
  }

  // Transfers of one boundary between virtual stages share a tag per direction, so that they match in order of
  // micro-batches whatever else is under way. `boundary`: the virtual stage before it.
  [[nodiscard]] static std::int32_t tag(Direction direction, std::int64_t boundary) {
    return static_cast<std::int32_t>(2 * boundary + (direction == Direction::forward ? 0 : 1));
  }

  void receive(std::size_t i, bool blocks_host) {
    const Slot& slot = slots_[i];
    const bool forward = slot.direction == Direction::forward;
    ProgramBuilder& program = out_.program();
    const std::vector<TaskId> after = c_.transfers.overlap ? std::vector<TaskId>{} : out_.after_compute();
    const std::int64_t v = virtual_stage(slot);
    // Activations that arrive are counted by the layer that saves its input; gradients are freed after their slot.
    std::vector<MemoryOperation> memory;
    if (!forward) memory.push_back({activation_bytes(), MemoryTag::communication_buffers});
    const TransferCall call{forward ? c_.peers.previous : c_.peers.next, tag(slot.direction, forward ? v - 1 : v),
                            transfer_bytes()};
    received_[i] = program.receive(
        call, {.stream = program.stream(forward ? "pipeline_receive_forward" : "pipeline_receive_backward"),
               .phase = forward ? Phase::forward : Phase::backward,
               .label = forward ? "receive activation" : "receive gradient",
               .after = after,
               .memory = memory,
               .micro_batch = slot.micro_batch,
               .blocks_host = blocks_host});
  }

  TaskId send(const Slot& slot, bool blocks_host) {
    const bool forward = slot.direction == Direction::forward;
    ProgramBuilder& program = out_.program();
    const std::vector<TaskId> after = out_.after_compute();
    const std::int64_t v = virtual_stage(slot);
    const TransferCall call{forward ? c_.peers.next : c_.peers.previous, tag(slot.direction, forward ? v : v - 1),
                            transfer_bytes()};
    return program.send(call, {.stream = program.stream(forward ? "pipeline_send_forward" : "pipeline_send_backward"),
                               .phase = forward ? Phase::forward : Phase::backward,
                               .label = forward ? "send activation" : "send gradient",
                               .after = after,
                               .micro_batch = slot.micro_batch,
                               .blocks_host = blocks_host});
  }

  void await_received(std::size_t i, Phase phase) {
    if (!received_[i].valid()) return;
    out_.wait_for(received_[i]);
    if (!scatters()) return;
    out_.wait_for(out_.collective({CollectiveOp::all_gather, c_.groups.tensor, activation_bytes()}, "tensor", phase,
                                  "gather transfer"));
  }

  // Slots.

  void slot(std::size_t i) {
    const Slot& slot = slots_[i];
    const bool next_receives = i + 1 < slots_.size() && receives(slots_[i + 1]);
    const bool blocks = c_.transfers.block_host && !c_.transfers.overlap;
    if (c_.transfers.overlap && next_receives) receive(i + 1, false);
    const bool forward = slot.direction == Direction::forward;
    out_.at(forward ? "forward" : "backward", slot.micro_batch, -1);
    await_received(i, forward ? Phase::forward : Phase::backward);
    if (forward) {
      forward_pass(slot);
    } else {
      backward_pass(slot, i == last_backward_[static_cast<std::size_t>(slot.chunk)]);
      if (received_[i].valid()) {
        out_.memory({Bytes(-activation_bytes().count()), MemoryTag::communication_buffers});
      }
    }
    out_.at(forward ? "forward" : "backward", slot.micro_batch, -1);
    TaskId sent;
    if (sends(slot)) sent = send(slot, blocks && !next_receives);
    if (c_.transfers.overlap) return;
    if (next_receives) receive(i + 1, blocks);
    out_.wait_for(sent);
  }

  void copy_tokens(const Slot& slot) {
    const std::int64_t v = virtual_stage(slot);
    const std::int64_t tables = (v == 0 ? 1 : 0) + (v + 1 == virtual_stages() ? 1 : 0);
    if (tables == 0) return;
    ProgramBuilder& program = out_.program();
    const CopyCall call{CopyDirection::host_to_device, Bytes(8 * tables * c_.shape.tokens())};  // int64 ids, labels
    out_.wait_for(program.copy(call, {.stream = program.stream("copy"),
                                      .phase = Phase::other,
                                      .label = "copy tokens",
                                      .micro_batch = slot.micro_batch}));
  }

  void forward_pass(const Slot& slot) {
    copy_tokens(slot);
    for (std::size_t u = 0; u < stage_.units.size(); ++u) {
      const Unit& unit = stage_.units[u];
      if (unit.chunk != slot.chunk) continue;
      out_.at(unit.block->name, slot.micro_batch, unit.layer);
      strategy_.before_forward(out_, u);
      const auto parameter = [&](ParameterIndex index) {
        return unit.first_parameter + static_cast<std::size_t>(index);
      };
      out_.steps(
          unit.block->forward, [&](ParameterIndex index) { strategy_.before_use(out_, parameter(index)); },
          [](ParameterIndex) {});
      strategy_.after_forward(out_, u);
    }
  }

  void backward_pass(const Slot& slot, bool last) {
    for (std::size_t u = stage_.units.size(); u-- > 0;) {
      const Unit& unit = stage_.units[u];
      if (unit.chunk != slot.chunk) continue;
      out_.at(unit.block->name, slot.micro_batch, unit.layer);
      strategy_.before_backward(out_, u);
      out_.steps(
          unit.block->backward,
          [&](ParameterIndex index) {
            strategy_.before_backward_use(out_, unit.first_parameter + static_cast<std::size_t>(index));
          },
          [&](ParameterIndex index) {
            strategy_.gradient_ready(out_, unit.first_parameter + static_cast<std::size_t>(index), last);
          });
      strategy_.after_backward(out_, u);
    }
  }

  // After the passes.

  // What this rank has of so many gradients, after they have been reduced over the replicas.
  [[nodiscard]] std::int64_t reduced_part(std::int64_t elements) const {
    return divide_up(elements, strategy_.gradient_parts());
  }

  // Megatron-LM's finalize_model_grads: norms and row-parallel biases under sequence parallelism.
  void reduce_partial_gradients() {
    std::int64_t elements = 0;
    for (const ParameterTensor& p : stage_.parameters) elements += p.partial_gradient ? p.elements : 0;
    if (elements == 0) return;
    const Bytes bytes(reduced_part(elements) * c_.shape.storage.gradient);
    out_.wait_for(out_.collective({CollectiveOp::all_reduce, c_.groups.tensor, bytes}, "tensor",
                                  Phase::gradient_reduction, "reduce partial gradients"));
  }

  // The same function, for the table that first and last stage both hold.
  void reduce_tied_tables() {
    if (!c_.groups.embedding.valid() || !(stage_.first() || stage_.last())) return;
    std::int64_t elements = 0;
    for (const ParameterTensor& p : stage_.parameters) elements += p.tied ? p.elements : 0;
    const Bytes bytes(reduced_part(elements) * c_.shape.storage.gradient);
    out_.wait_for(out_.collective({CollectiveOp::all_reduce, c_.groups.embedding, bytes}, "embedding",
                                  Phase::gradient_reduction, "reduce tied tables"));
  }

  void report_loss() {
    if (!stage_.last()) return;
    out_.at("loss", -1, -1);
    if (c_.groups.data.valid()) {
      out_.wait_for(
          out_.collective({CollectiveOp::all_reduce, c_.groups.data, Bytes(4)}, "data", Phase::other, "mean loss"));
    }
  }

  // A number that the host reads (.item()): the host goes on when it is there.
  void read_on_host(std::string_view label) {
    ProgramBuilder& program = out_.program();
    const std::vector<TaskId> after = out_.after_compute();
    program.copy({CopyDirection::device_to_host, Bytes(4)}, {.stream = program.stream("copy"),
                                                             .phase = Phase::optimizer,
                                                             .label = label,
                                                             .after = after,
                                                             .blocks_host = true});
  }

  void launch(std::vector<Kernel> kernels) {
    for (Kernel& kernel : kernels) out_.kernel(c_.pool->add(std::move(kernel)), Phase::optimizer);
  }

  void sum_over(GroupKindId group, Bytes bytes, std::string_view label) {
    if (!group.valid()) return;
    out_.wait_for(out_.collective({CollectiveOp::all_reduce, group, bytes}, stream_of(c_.groups, group),
                                  Phase::optimizer, label));
  }

  // Megatron-LM's MixedPrecisionOptimizer.step: copies of 16-bit gradients, unscaling and the search for overflow with
  // fp16, the norm and its clipping, the update, and the copy back to 16-bit weights.
  void optimizer_step() {
    out_.at("optimizer", -1, -1);
    strategy_.before_optimizer(out_);
    const OptimizerWork work = strategy_.optimizer_work();
    const StorageFormat& s = c_.shape.storage;
    const auto g = static_cast<double>(work.gradient_bytes);
    const GroupKindId group = strategy_.norm_group();
    if (s.main_gradient > 0) {
      launch(multi_tensor("copy_gradients", work, static_cast<double>(s.gradient + s.main_gradient), 0));
    }
    if (s.loss_scaling) {
      launch(multi_tensor("unscale_gradients", work, 2 * g, 1));
      sum_over(group, Bytes(4), "reduce overflow");
      read_on_host("read overflow");
    }
    launch(multi_tensor("gradient_norm", work, g, 2));
    sum_over(group, Bytes(4), "reduce norm");
    read_on_host("read norm");
    launch(multi_tensor("clip_gradients", work, 2 * g, 1));
    launch(c_.optimizer->kernels(c_.optimizer_choice, c_.optimizer->row, work));
    if (s.master > 0) {
      launch(multi_tensor("copy_parameters", work, static_cast<double>(s.master + s.weight), 0));
    }
    out_.flush();
  }

  const StepContext& c_;
  const Stage& stage_;
  std::span<const Slot> slots_;
  ShardingStrategy& strategy_;
  StageEmitter out_;
  std::vector<TaskId> received_;            // [slots]: the receive that a slot waits for
  std::vector<std::size_t> last_backward_;  // [chunks]: the slot after which its gradients are complete
};

}  // namespace

Program emit_step(const StepContext& context, std::span<const Slot> slots, ShardingStrategy& strategy) {
  return StepEmitter(context, slots, strategy).run();
}

}  // namespace orrery
