// One stage's step, in the order in which the host issues it:
//
//   fixed host work; (gathers of parameters); zero the gradients
//   for each slot: receive, (copy tokens), the steps of its pass through its chunk's units, send
//   reduce what gradients are left; sum partial gradients (sequence parallelism) and tied tables
//   mean loss; (overflow check); norm; clip; update; (gathers of parameters)
//
// Transfers follow Megatron-LM (megatron/core/pipeline_parallel/p2p_communication.py and schedules.py): without
// overlap a slot's send and the next slot's receive are posted together (batch_isend_irecv) when the slot's compute is
// done, and compute waits for both; with overlap a slot's receive is posted one slot ahead, and sends are left alone.
// The four kinds of transfer have a stream each, so that none waits for another. Where chunks run in opposite
// directions (V-shaped and bidirectional placements, a user's own) each chunk has its own four: what one sends to the
// left must not wait for what another sends to the right. Weight halves send and receive nothing. Between chunks of one
// stage (the turns of a V) nothing is sent, and what the one hands to the other is held until the other has used it.
#include "workloads/emit/step.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "sim/base/check.hpp"
#include "workloads/operators/products.hpp"
#include "workloads/image_model.hpp"

namespace orrery {

namespace {

// Tensors of a linear operator that have a scale (Transformer Engine: input, weight, output; gradients of output and
// input).
constexpr std::int64_t kScaledForward = 3;
constexpr std::int64_t kScaledBackward = 2;

class StepEmitter {
 public:
  StepEmitter(const StepContext& context, std::span<const Slot> slots, ShardingStrategy& strategy)
      : c_(context), stage_(*context.stage), slots_(slots), strategy_(strategy), received_(slots.size()) {
    first_forwards_.resize(stage_.places.size(), slots.size());
    last_inputs_.resize(stage_.places.size(), 0);
    last_weights_.resize(stage_.places.size(), 0);
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const auto chunk = static_cast<std::size_t>(slots[i].chunk);
      if (slots[i].pass == Pass::forward) first_forwards_[chunk] = std::min(first_forwards_[chunk], i);
      if (makes_input_gradients(slots[i].pass)) last_inputs_[chunk] = i;
      if (makes_weight_gradients(slots[i].pass)) last_weights_[chunk] = i;
    }
    find_shared_table();
  }

  Program run() && {
    begin();
    for (std::size_t i = 0; i < slots_.size(); i += runs_beside_next(i) ? 2 : 1) {
      if (runs_beside_next(i)) {
        pair(i);
      } else {
        slot(i);
      }
    }
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
    if (c_.user_buffers.count() > 0) program.resident({c_.user_buffers, MemoryTag::communication_buffers});
    strategy_.resident(program);
    hold_fp8_weights();
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

  [[nodiscard]] const StageChunk& chunk(const Slot& slot) const {
    return stage_.places[static_cast<std::size_t>(slot.chunk)];
  }
  // Below the lowest trained weight no gradients travel.
  [[nodiscard]] static bool carries(const std::vector<bool>& chunks, const Slot& slot) {
    return chunks.empty() || chunks[static_cast<std::size_t>(slot.chunk)];
  }
  // Where what a slot works on comes from, and where its result goes.
  [[nodiscard]] Neighbour source(const Slot& slot) const {
    if (slot.pass == Pass::backward_weight) return {};
    if (slot.pass != Pass::forward && !carries(stage_.gradients_in, slot)) return {};
    return slot.pass == Pass::forward ? chunk(slot).previous : chunk(slot).next;
  }
  [[nodiscard]] Neighbour sink(const Slot& slot) const {
    if (slot.pass == Pass::backward_weight) return {};
    if (slot.pass != Pass::forward && !carries(stage_.gradients_out, slot)) return {};
    return slot.pass == Pass::forward ? chunk(slot).next : chunk(slot).previous;
  }
  [[nodiscard]] bool receives(const Slot& slot) const { return source(slot).where == Neighbour::Where::away; }
  [[nodiscard]] bool sends(const Slot& slot) const { return sink(slot).where == Neighbour::Where::away; }

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
  [[nodiscard]] static std::int32_t tag(bool forward, std::int64_t boundary) {
    return static_cast<std::int32_t>(2 * boundary + (forward ? 0 : 1));
  }
  [[nodiscard]] StreamId transfer_stream(const char* name, const Slot& slot) {
    if (!c_.transfers.streams_per_chunk || slot.chunk == 0) return out_.program().stream(name);
    return out_.program().stream(fmt::format("{}_{}", name, slot.chunk + 1));
  }

  void receive(std::size_t i, bool blocks_host) {
    const Slot& slot = slots_[i];
    const bool forward = slot.pass == Pass::forward;
    ProgramBuilder& program = out_.program();
    const std::vector<TaskId> after = c_.transfers.overlap ? std::vector<TaskId>{} : out_.after_compute();
    const std::int64_t v = chunk(slot).virtual_stage;
    // Activations that arrive are counted by the layer that saves its input; gradients are freed after their slot.
    std::vector<MemoryOperation> memory;
    if (!forward) memory.push_back({activation_bytes(), MemoryTag::communication_buffers});
    const TransferCall call{source(slot).peer, tag(forward, forward ? v - 1 : v), transfer_bytes()};
    received_[i] = program.receive(
        call, {.stream = transfer_stream(forward ? "pipeline_receive_forward" : "pipeline_receive_backward", slot),
               .phase = forward ? Phase::forward : Phase::backward,
               .label = forward ? "receive activation" : "receive gradient",
               .after = after,
               .memory = memory,
               .micro_batch = slot.micro_batch,
               .blocks_host = blocks_host});
  }

  TaskId send(const Slot& slot, bool blocks_host) {
    const bool forward = slot.pass == Pass::forward;
    ProgramBuilder& program = out_.program();
    const std::vector<TaskId> after = out_.after_compute();
    const std::int64_t v = chunk(slot).virtual_stage;
    const TransferCall call{sink(slot).peer, tag(forward, forward ? v : v - 1), transfer_bytes()};
    return program.send(call,
                        {.stream = transfer_stream(forward ? "pipeline_send_forward" : "pipeline_send_backward", slot),
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

  [[nodiscard]] bool receives_at(std::size_t i) const { return i < slots_.size() && receives(slots_[i]); }

  // Arrivals, the pass and what it hands on within the stage.
  void begin_pass(std::size_t i) {
    const Slot& slot = slots_[i];
    out_.at(name_of(slot.pass), slot.micro_batch, -1);
    await_received(i, slot.pass == Pass::forward ? Phase::forward : Phase::backward);
    if (slot.pass == Pass::forward) copy_inputs(slot);
  }
  void end_pass(std::size_t i) {
    const Slot& slot = slots_[i];
    if (slot.pass != Pass::forward) {
      announce_shared_table(i);
      hand_over(i);
    }
    out_.at(name_of(slot.pass), slot.micro_batch, -1);
    update_scales(slot);
  }

  void slot(std::size_t i) {
    const Slot& slot = slots_[i];
    const bool next_receives = receives_at(i + 1);
    const bool blocks = c_.transfers.block_host && !c_.transfers.overlap;
    if (c_.transfers.overlap && next_receives) receive(i + 1, false);
    out_.program().begin_slot();
    begin_pass(i);
    PassWalk walk(*this, i);
    while (walk.go_on()) {
    }
    end_pass(i);
    TaskId sent;
    if (sends(slot)) sent = send(slot, blocks && !next_receives);
    if (c_.transfers.overlap) return;
    if (next_receives) receive(i + 1, blocks);
    out_.wait_for(sent);
  }

  [[nodiscard]] bool runs_beside_next(std::size_t i) const {
    return c_.transfers.overlap_pairs && c_.transfers.overlap && slots_[i].paired && i + 1 < slots_.size();
  }

  // Slots i and i + 1 in turns: while the rows of one travel to experts or back, the kernels of the other run. The
  // backward pass goes first: it begins with rows that travel, the forward pass with attention.
  void pair(std::size_t i) {
    if (receives_at(i + 1)) receive(i + 1, false);
    if (receives_at(i + 2)) receive(i + 2, false);
    out_.program().begin_slot();
    out_.program().begin_slot();
    const std::array<std::size_t, 2> slots{i + 1, i};
    std::array<PassWalk, 2> walks{PassWalk(*this, i + 1), PassWalk(*this, i)};
    std::array<bool, 2> goes_on{true, true};
    out_.begin_pair();
    begin_pass(slots[0]);
    out_.other_of_pair();
    begin_pass(slots[1]);
    out_.other_of_pair();
    for (std::size_t turn = 0; goes_on[0] || goes_on[1]; turn = 1 - turn, out_.other_of_pair()) {
      if (!goes_on[turn]) continue;
      goes_on[turn] = walks[turn].go_on();
      if (goes_on[turn]) continue;
      end_pass(slots[turn]);
      if (sends(slots_[slots[turn]])) send(slots_[slots[turn]], false);
    }
    out_.end_pair();
  }

  // A gradient that came from another stage, or from a chunk of this one, has been used; one that a chunk of this stage
  // is to use next is held. (Activations that are handed over are counted by the layer that saves its input.)
  void hand_over(std::size_t i) {
    const Slot& slot = slots_[i];
    constexpr auto kHere = Neighbour::Where::here;
    const Bytes used(-activation_bytes().count());
    if (received_[i].valid()) out_.memory({used, MemoryTag::communication_buffers});
    if (source(slot).where == kHere) out_.memory({used, MemoryTag::workspace});
    if (sink(slot).where == kHere) out_.memory({activation_bytes(), MemoryTag::workspace});
  }

  // What the ends of the model read: ids or fp32 images, and labels (int64).
  void copy_inputs(const Slot& slot) {
    const bool begins = chunk(slot).virtual_stage == 0;
    const bool ends = chunk(slot).next.where == Neighbour::Where::none;
    if (!begins && !ends) return;
    const bool images = c_.shape.model.images();
    const std::int64_t inputs =
        images ? 4 * image_values(c_.shape.model) * c_.shape.micro_batch : 8 * c_.shape.tokens();
    const std::int64_t labels = 8 * (images ? c_.shape.micro_batch : c_.shape.tokens());
    ProgramBuilder& program = out_.program();
    const CopyCall call{CopyDirection::host_to_device, Bytes((begins ? inputs : 0) + (ends ? labels : 0))};
    out_.wait_for(program.copy(call, {.stream = program.stream("copy"),
                                      .phase = Phase::other,
                                      .label = images ? "copy images" : "copy tokens",
                                      .micro_batch = slot.micro_batch}));
  }

  // Number formats: copies of weights in fp8, and scales from the largest values of earlier tensors
  // (workloads/fp8.hpp).

  void hold_fp8_weights() {
    const Fp8Shape& fp8 = c_.shape.fp8;
    if (!fp8.on) return;
    std::int64_t bytes = 0;
    for (const ParameterTensor& p : stage_.parameters) {
      if (!p.fp8) continue;
      if (fp8.caches_weights) bytes += fp8_weight_bytes(c_.shape, p.elements);
      bytes += 4 * (kScaledForward + kScaledBackward) * fp8.amax_history;
    }
    if (bytes > 0) out_.program().resident({Bytes(bytes), MemoryTag::weights});
  }

  // With the first micro-batch that uses it.
  void quantize_weight_once(std::size_t i, std::size_t parameter) {
    const ParameterTensor& p = stage_.parameters[parameter];
    const auto chunk = static_cast<std::size_t>(slots_[i].chunk);
    if (!p.fp8 || !c_.shape.fp8.caches_weights || i != first_forwards_[chunk]) return;
    out_.kernel(c_.pool->add(quantize_weight(p.name, c_.shape, p.elements)), Phase::forward);
  }

  void update_scales(const Slot& slot) {
    if (c_.shape.fp8.amax_history == 0 || slot.pass == Pass::backward_weight) return;
    std::int64_t operators = 0;
    for (std::size_t p = 0; p < stage_.parameters.size(); ++p) {
      if (stage_.parameters[p].fp8 && stage_.chunk_of_parameter[p] == slot.chunk) ++operators;
    }
    if (operators == 0) return;
    const bool forward = slot.pass == Pass::forward;
    const Phase phase = forward ? Phase::forward : Phase::backward;
    const std::int64_t tensors = operators * (forward ? kScaledForward : kScaledBackward);
    if (c_.groups.amax.valid()) {
      const CollectiveCall call{CollectiveOp::all_reduce, c_.groups.amax, Bytes(4 * tensors)};
      out_.wait_for(out_.collective(call, "amax", phase, "reduce largest values"));
    }
    out_.kernel(c_.pool->add(streaming("fp8.scales", KernelKind::elementwise, c_.shape, tensors,
                                       c_.shape.fp8.amax_history, {8, 1})),
                phase);
  }

  // The steps of a slot's pass through its chunk's units, up to the next place where it may give way to another.
  class PassWalk {
   public:
    PassWalk(StepEmitter& step, std::size_t slot) : s_(step), slot_(slot) {
      for (std::size_t u = 0; u < s_.stage_.units.size(); ++u) {
        if (s_.stage_.units[u].chunk == s_.slots_[slot].chunk) units_.push_back(u);
      }
      if (s_.slots_[slot].pass != Pass::forward) std::reverse(units_.begin(), units_.end());
    }

    // False at the end.
    bool go_on() {
      const Slot& slot = s_.slots_[slot_];
      for (; unit_ < units_.size(); ++unit_, step_ = 0) {
        const std::size_t u = units_[unit_];
        const Unit& unit = s_.stage_.units[u];
        if (step_ == 0) {
          s_.out_.at(unit.block->name, slot.micro_batch, unit.layer);
          s_.before(slot.pass, u);
        }
        for (const std::vector<Step>& steps = unit.block->steps(slot.pass); step_ < steps.size();) {
          const Step& step = steps[step_++];
          s_.one_step(slot_, unit, step);
          if (step.yields) return true;
        }
        s_.after(slot.pass, u);
      }
      return false;
    }

   private:
    StepEmitter& s_;
    std::size_t slot_;
    std::vector<std::size_t> units_;
    std::size_t unit_ = 0;  // the present one
    std::size_t step_ = 0;  // the next one of it
  };

  void before(Pass pass, std::size_t unit) {
    if (pass == Pass::forward) strategy_.before_forward(out_, unit);
    if (makes_input_gradients(pass)) strategy_.before_backward(out_, unit);
  }
  void after(Pass pass, std::size_t unit) {
    if (pass == Pass::forward) strategy_.after_forward(out_, unit);
    if (makes_input_gradients(pass)) strategy_.after_backward(out_, unit);
  }

  // Only forward passes and what makes gradients of inputs read the weights.
  void one_step(std::size_t i, const Unit& unit, const Step& step) {
    const Pass pass = slots_[i].pass;
    for (const ParameterIndex index : step.needs) {
      const std::size_t parameter = unit.first_parameter + static_cast<std::size_t>(index);
      if (pass == Pass::forward) {
        strategy_.before_use(out_, parameter);
        quantize_weight_once(i, parameter);
      }
      if (makes_input_gradients(pass)) strategy_.before_backward_use(out_, parameter);
    }
    out_.step(step);
    if (pass == Pass::forward || unit.reuses) return;  // reused ones: an earlier layer adds to the gradient yet
    for (const ParameterIndex index : step.gradients) {
      gradient_ready(i, unit.first_parameter + static_cast<std::size_t>(index), step.weight_half);
    }
  }

  void announce_shared_table(std::size_t i) {
    if (shared_table_ && i == shared_table_complete_ && shared_table_announced_ != i) {
      strategy_.gradient_ready(out_, *shared_table_, true);
    }
  }

  void gradient_ready(std::size_t i, std::size_t parameter, bool weight_half) {
    const auto chunk = static_cast<std::size_t>(slots_[i].chunk);
    bool last = i == (weight_half ? last_weights_ : last_inputs_)[chunk];
    if (shared_table_ && parameter == *shared_table_) {
      if (last && i < shared_table_complete_) return;  // announced when the head's part is there too
      last = last && i == shared_table_complete_;
      if (last) shared_table_announced_ = i;
    }
    strategy_.gradient_ready(out_, parameter, last);
  }

  // Where embedding and head are on one stage and share a table, the embedding announces its gradient; it is complete
  // when both have added to it.
  void find_shared_table() {
    if (!stage_.first() || !stage_.last() || stage_.places.size() == 1) return;
    for (std::size_t p = 0; p < stage_.parameters.size(); ++p) {
      if (!stage_.parameters[p].tied || !stage_.parameters[p].trained) continue;
      shared_table_ = p;
      shared_table_complete_ = 0;
      for (std::size_t c = 0; c < stage_.places.size(); ++c) {
        const StageChunk& chunk = stage_.places[c];
        const bool end = chunk.virtual_stage == 0 || chunk.next.where == Neighbour::Where::none;
        if (end) shared_table_complete_ = std::max(shared_table_complete_, last_weights_[c]);
      }
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
    for (const ParameterTensor& p : stage_.parameters) elements += p.partial_gradient && p.trained ? p.elements : 0;
    if (elements == 0) return;
    const Bytes bytes(reduced_part(elements) * c_.shape.storage.gradient);
    out_.wait_for(out_.collective({CollectiveOp::all_reduce, c_.groups.tensor, bytes}, "tensor",
                                  Phase::gradient_reduction, "reduce partial gradients"));
  }

  // The same function, for the table that first and last stage both hold.
  void reduce_tied_tables() {
    if (!c_.groups.embedding.valid() || !(stage_.first() || stage_.last())) return;
    std::int64_t elements = 0;
    for (const ParameterTensor& p : stage_.parameters) elements += p.tied && p.trained ? p.elements : 0;
    if (elements == 0) return;
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
    if (strategy_.updates_on_host()) return host_optimizer_step(work);
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

  // The same where the state is in host memory. What the norm and the overflow check read, the strategy has read as the
  // gradients came.
  void host_optimizer_step(const OptimizerWork& work) {
    const GroupKindId group = strategy_.norm_group();
    if (c_.shape.storage.loss_scaling) {
      sum_over(group, Bytes(4), "reduce overflow");
      read_on_host("read overflow");
    }
    sum_over(group, Bytes(4), "reduce norm");
    read_on_host("read norm");
    out_.flush();
    if (work.elements == 0) return;
    double bytes = 2.0 * static_cast<double>(work.gradient_bytes);  // unscaled and clipped
    for (const Kernel& kernel : c_.optimizer->kernels(c_.optimizer_choice, c_.optimizer->row, work)) {
      bytes += static_cast<double>(kernel.bytes.count()) / static_cast<double>(work.elements);
    }
    strategy_.update_on_host(out_, bytes);
  }

  const StepContext& c_;
  const Stage& stage_;
  std::span<const Slot> slots_;
  ShardingStrategy& strategy_;
  StageEmitter out_;
  std::vector<TaskId> received_;             // [slots]: the receive that a slot waits for
  std::vector<std::size_t> first_forwards_;  // [chunks]: the first slot that runs forward
  std::vector<std::size_t> last_inputs_;     // [chunks]: the last slot that makes gradients of inputs
  std::vector<std::size_t> last_weights_;    // [chunks]: and of weights
  std::optional<std::size_t> shared_table_;  // the parameter that embedding and head of this stage share
  std::size_t shared_table_complete_ = 0;    // the slot after which its gradient is complete
  std::size_t shared_table_announced_ = static_cast<std::size_t>(-1);  // the slot that has said so
};

}  // namespace

Program emit_step(const StepContext& context, std::span<const Slot> slots, ShardingStrategy& strategy) {
  return StepEmitter(context, slots, strategy).run();
}

}  // namespace orrery
