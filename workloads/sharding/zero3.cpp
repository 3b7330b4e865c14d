// ZeRO stage 3 as DeepSpeed runs it: weights, gradients and optimizer state split over the replicas, each parameter by
// itself.
//
// Followed here (deepspeed/runtime/zero: partition_parameters.py, partitioned_param_coordinator.py, stage3.py):
//
//  - What is gathered when is the coordinator's business (coordinator.hpp). The parameters of one call are one
//    all-gather, on a stream of its own with overlap_comm, else in the compute stream: a single one gathers straight
//    into its tensor, several are copied into one buffer before and out of it afterwards, when the first of them is
//    waited for (_all_gather_coalesced, AllGatherCoalescedHandle.wait). Gathers do not wait for compute.
//  - Before a module runs, compute waits for that stream. The host waits too, for the third last parameter that was
//    waited for (max_ongoing_fetch_events 2), so it is never far ahead of the gathers.
//  - Parameters up to stage3_param_persistence_threshold stay gathered, and are gathered one by one after the update
//    (stage3.py, _post_step).
//  - Quantised weights (ZeRO++): the part is quantised to 8 bits, gathered with its scales, and converted back.
//  - hpZ: what a forward pass gives up is kept a second time, split over a smaller group, from which the backward pass
//    gathers.
//  - MiCS: all state is split over groups of mics_shard_size; gradients are summed across groups once a step.
//  - Frozen parameters are split and gathered like the others.
//  - The optimizer works on fp32 copies of its gradients, sub-group by sub-group (sub_group_size).
//  - offload_param: a rank's parts are in pinned host memory, or on drives but for the first offload_param_max_in_cpu
//    elements, and are copied to the GPU for each gather (_all_gather, _allgather_params_coalesced: ds_tensor.to()), on
//    the stream of the gathers. Reads from drives go ahead of those copies and do not hold the host up.
//  - offload_optimizer: gradients go to the host as they are reduced (zero_reducer.cpp); offload.cpp has the update.
//
// Left out: what the hooks cost the host (no public measurement of it per module is known), and the first steps, in
// which the trace is recorded.
#include <algorithm>
#include <array>
#include <utility>

#include "sim/base/check.hpp"
#include "workloads/sharding/coordinator.hpp"
#include "workloads/sharding/deepspeed.hpp"
#include "workloads/sharding/fsdp.hpp"

namespace orrery {

namespace {

constexpr std::size_t kFetchesUnderWay = 2;  // max_ongoing_fetch_events
constexpr std::int64_t kMasterBytes = 4;
constexpr std::int64_t kOptimizerBuffers = 4;           // buffer_count of offload_optimizer
constexpr std::int64_t kParameterBuffers = 5;           // buffer_count and
constexpr std::int64_t kParameterBuffer = 100'000'000;  // buffer_size of offload_param, in elements
constexpr std::int64_t kQuantizedGroup = 8000;          // elements that share a scale (CUDAQuantizer.target_group_size)

class Zero3 final : public ShardingStrategy {
 public:
  Zero3(const StrategyContext& context, const ZeroOptions& options)
      : context_(context),
        o_(options),
        reducer_(context, options),
        persistent_(persistent(context, options)),
        coordinator_(*context.stage, trace_of(*context.stage), persistent_,
                     {options.prefetch, options.live, options.reuse_distance}),
        handle_of_(context.stage->parameters.size(), 0) {
    place_parameters();
  }

  void resident(ProgramBuilder& program) override {
    const StorageFormat& s = context_.storage;
    const std::int64_t own = own_elements(true);
    std::int64_t stays = 0;
    std::int64_t second = 0;
    for (std::size_t p = 0; p < persistent_.size(); ++p) {
      const std::int64_t n = elements(p);
      if (persistent_[p]) {
        stays += n;
      } else if (o_.secondary > 1) {
        second += divide_up(n, o_.secondary);
      }
    }
    if (o_.offload.parameters == OffloadDevice::none) {
      program.resident({Bytes(own_elements(false) * s.weight), MemoryTag::weights});
    }
    if (stays > 0) program.resident({Bytes(stays * s.weight), MemoryTag::gathered_parameters});
    if (second > 0) program.resident({Bytes(second * s.weight), MemoryTag::gathered_parameters});
    reducer_.resident(program);
    program.keep_off_device(off_device());
    if (o_.offloads_optimizer()) return;
    if (own > 0) program.resident({Bytes(own * s.gradient), MemoryTag::gradients});
    if (const std::int64_t state = own * s.master + context_.state_bytes(optimizer_work()); state > 0) {
      program.resident({Bytes(state), MemoryTag::optimizer_state});
    }
  }

  void before_forward(StageEmitter& out, std::size_t unit) override {
    if (unit == 0) {
      coordinator_.begin_pass();
      forward_ = true;
    }
    use_borrowed(out, unit);
  }
  void before_use(StageEmitter& out, std::size_t parameter) override { use(out, parameter); }
  void after_forward(StageEmitter& out, std::size_t /*unit*/) override { release(out); }

  void before_backward(StageEmitter& out, std::size_t unit) override {
    forward_ = false;
    use_borrowed(out, unit);
  }
  void before_backward_use(StageEmitter& out, std::size_t parameter) override { use(out, parameter); }

  void gradient_ready(StageEmitter& out, std::size_t parameter, bool last) override {
    reducer_.add(out, parameter, last);
  }

  void after_backward(StageEmitter& out, std::size_t unit) override {
    release(out);
    if (unit == 0) reducer_.flush(out);
  }

  [[nodiscard]] std::int64_t zeroed_gradients(const Stage& /*stage*/) const override { return 0; }
  [[nodiscard]] std::int64_t gradient_parts() const override { return o_.mics > 0 ? o_.mics : context_.replicas; }

  void before_optimizer(StageEmitter& out) override {
    if (optimizer_copy() > 0) out.memory({Bytes(optimizer_copy()), MemoryTag::gradients});
  }

  [[nodiscard]] OptimizerWork optimizer_work() const override {
    const StorageFormat& s = context_.storage;
    const std::int64_t own = own_elements(true);
    const std::int64_t each = o_.offload.sub_group > 0 ? o_.offload.sub_group : own;
    return {own, divide_up(own, std::max<std::int64_t>(1, each)), s.main_gradient > 0 ? s.main_gradient : s.gradient,
            context_.fused || o_.offloads_optimizer()};  // DeepSpeed's CPU Adam is one pass, whatever the GPU's is
  }
  [[nodiscard]] GroupKindId norm_group() const override { return context_.groups.world; }

  [[nodiscard]] bool updates_on_host() const override { return o_.offloads_optimizer(); }
  void update_on_host(StageEmitter& out, double bytes) override {
    HostUpdate(o_.offload, context_.storage.weight, state_bytes())
        .emit(out, own_elements(true), trained_on_drives_, bytes);
  }

  void after_optimizer(StageEmitter& out) override {
    if (optimizer_copy() > 0) out.memory({Bytes(-optimizer_copy()), MemoryTag::gradients});
    if (!o_.offloads_optimizer() && o_.offload.parameters != OffloadDevice::none) weights_to_host(out);
    for (std::size_t p = 0; p < persistent_.size(); ++p) {
      const Holders over = gathered_over(p, false);
      if (!persistent_[p] || !over.group.valid()) continue;
      if (o_.offload.parameters != OffloadDevice::none) out.wait_for(fetch(out, {p}, over));
      out.wait_for(out.collective({CollectiveOp::all_gather, over.group, whole_bytes(p, over)},
                                  stream_of(context_.groups, over.group), Phase::parameter_gather,
                                  "gather persistent parameter"));
    }
  }

 private:
  using Holders = StrategyContext::Holders;
  using Status = ParameterCoordinator::Status;

  // A gather of some parameters.
  struct Handle {
    std::vector<std::size_t> parameters;
    TaskId task;
    Bytes buffer{};  // that is freed when they have been copied out
    std::int64_t elements = 0;
    bool copies_out = false;
    bool waited = false;
  };

  static std::vector<bool> persistent(const StrategyContext& context, const ZeroOptions& options) {
    std::vector<bool> is;
    for (const ParameterTensor& p : context.stage->parameters) is.push_back(p.elements <= options.persistence);
    return is;
  }

  [[nodiscard]] std::int64_t elements(std::size_t p) const { return context_.stage->parameters[p].elements; }

  // A rank's part of all parameters, or of the trained ones.
  [[nodiscard]] std::int64_t own_elements(bool trained) const {
    std::int64_t sum = 0;
    for (std::size_t p = 0; p < persistent_.size(); ++p) {
      if (!trained || context_.stage->parameters[p].trained) sum += reducer_.part(p);
    }
    return sum;
  }

  // Of an element's state in fp32: the master weight and what the optimizer keeps.
  [[nodiscard]] std::int64_t state_bytes() const { return kMasterBytes + context_.flat_state_bytes(); }

  // Gradients in their own format, and state in fp32 with its gradients; of state on drives, buffers. Weights, or
  // buffers for those that come from drives.
  [[nodiscard]] OffDevice off_device() const {
    const std::int64_t own = own_elements(true);
    const std::int64_t weight = context_.storage.weight;
    OffDevice off;
    const auto add = [](Bytes& to, std::int64_t bytes) { to += Bytes(bytes); };
    if (o_.offloads_optimizer()) add(off.host_memory, own * context_.storage.gradient);
    if (o_.offload.optimizer == OffloadDevice::cpu) add(off.host_memory, own * (state_bytes() + kMasterBytes));
    if (o_.offload.optimizer == OffloadDevice::nvme) {
      const std::int64_t each = o_.offload.sub_group > 0 ? std::min(own, o_.offload.sub_group) : own;
      add(off.host_memory, kOptimizerBuffers * each * kMasterBytes);
      add(off.drives, own * (state_bytes() + kMasterBytes));
    }
    if (o_.offload.parameters == OffloadDevice::none) return off;
    add(off.host_memory, (own_elements(false) - on_drives_) * weight);
    if (on_drives_ > 0) add(off.host_memory, kParameterBuffers * kParameterBuffer * weight);
    add(off.drives, on_drives_ * weight);
    return off;
  }

  // Parameters in order stay in host memory as long as they are within what is to stay there.
  void place_parameters() {
    on_drive_.assign(persistent_.size(), false);
    if (o_.offload.parameters != OffloadDevice::nvme) return;
    std::int64_t in_cpu = 0;
    for (std::size_t p = 0; p < persistent_.size(); ++p) {
      in_cpu += reducer_.part(p);
      on_drive_[p] = in_cpu > o_.offload.parameters_in_cpu;
      if (!on_drive_[p]) continue;
      on_drives_ += reducer_.part(p);
      if (context_.stage->parameters[p].trained) trained_on_drives_ += reducer_.part(p);
    }
  }

  // This rank's parts of offloaded parameters: from the drives, where they are there, and to the GPU.
  TaskId fetch(StageEmitter& out, const std::vector<std::size_t>& parameters, const Holders& over) const {
    std::int64_t part = 0;
    std::int64_t read = 0;
    for (const std::size_t p : parameters) {
      part += divide_up(elements(p), over.members);
      if (on_drive_[p]) read += divide_up(elements(p), over.members);
    }
    const std::int64_t width = context_.storage.weight;
    TaskId task;
    if (read > 0) {
      task = out.side_copy(CopyDirection::drive_to_host, Bytes(read * width),
                           {.stream = kDriveReads, .phase = Phase::parameter_gather, .label = "read parameters"});
    }
    task = out.side_copy(CopyDirection::host_to_device, Bytes(part * width),
                         {.stream = o_.overlap ? "gather_copies" : kToDevice,
                          .phase = Phase::parameter_gather,
                          .label = "copy parameters to the GPU",
                          .after = std::span(&task, task.valid() ? 1 : 0)});
    if (!o_.overlap) out.wait_for(task);
    return task;
  }

  // Weights that the GPU has updated and the host keeps.
  void weights_to_host(StageEmitter& out) const {
    const std::int64_t width = context_.storage.weight;
    const std::int64_t own = own_elements(true);
    if (own == 0) return;
    const std::vector<TaskId> after = out.after_compute();
    const TaskId copied = out.side_copy(
        CopyDirection::device_to_host, Bytes(own * width),
        {.stream = kToHost, .phase = Phase::optimizer, .label = "copy updated weights to the host", .after = after});
    out.wait_for(copied);
    if (trained_on_drives_ == 0) return;
    out.wait_for(out.side_copy(
        CopyDirection::host_to_drive, Bytes(trained_on_drives_ * width),
        {.stream = kDriveWrites, .phase = Phase::optimizer, .label = "write weights", .after = std::span(&copied, 1)},
        true));
  }

  [[nodiscard]] std::int64_t optimizer_copy() const {
    if (o_.offloads_optimizer()) return 0;
    const std::int64_t own = own_elements(true);
    const std::int64_t each = o_.offload.sub_group > 0 ? o_.offload.sub_group : own;
    return std::min(own, each) * context_.storage.main_gradient;
  }

  // Whose parts make the whole.
  [[nodiscard]] Holders gathered_over(std::size_t p, bool second) const {
    const ParameterTensor& parameter = context_.stage->parameters[p];
    if (parameter.expert) return context_.holders_of(parameter);
    if (second) return {context_.groups.near_shard, o_.secondary};
    if (o_.mics > 0) return {context_.groups.shard, o_.mics};
    return context_.holders_of(parameter);
  }

  [[nodiscard]] Bytes whole_bytes(std::size_t p, const Holders& over) const {
    return Bytes(divide_up(elements(p), over.members) * over.members * context_.storage.weight);
  }

  // Uses are announced parameter by parameter; the module's first stands for all.
  void use(StageEmitter& out, std::size_t parameter) {
    if (announced_ > 0) {
      --announced_;
      return;
    }
    ORRERY_CHECK(!coordinator_.at_end() && coordinator_.next_module().front() == parameter,
                 "modules come in the order of the trace", parameter);
    announced_ = coordinator_.next_module().size() - 1;
    out.flush();
    release(out);
    const std::vector<std::size_t> module = coordinator_.next_module();
    gather(out, coordinator_.fetch());
    for (const std::size_t p : module) await(out, p);
    gather(out, coordinator_.prefetch());
    begun_ = true;
  }

  void use_borrowed(StageEmitter& out, std::size_t unit) {
    const std::int64_t borrowed = context_.stage->units[unit].borrowed;
    if (borrowed >= 0) use(out, static_cast<std::size_t>(borrowed));
  }

  void release(StageEmitter& out) {
    if (!std::exchange(begun_, false)) return;
    for (const std::size_t p : coordinator_.release()) {
      const std::int64_t width = context_.storage.weight;
      if (forward_ && o_.secondary > 1) {
        const std::int64_t part = divide_up(elements(p), o_.secondary);
        out.kernel(context_.pool->add(movement("zero.keep_secondary", part, 2.0 * static_cast<double>(width))),
                   Phase::parameter_gather);
      }
      out.flush();
      out.memory({Bytes(-elements(p) * width), MemoryTag::gathered_parameters});
    }
  }

  void gather(StageEmitter& out, const std::vector<std::size_t>& parameters) {
    for (const bool expert : {false, true}) {
      std::vector<std::size_t> alike;
      for (const std::size_t p : parameters) {
        if (context_.stage->parameters[p].expert == expert) alike.push_back(p);
      }
      std::sort(alike.begin(), alike.end());
      if (!alike.empty()) gather_together(out, alike);
    }
  }

  void gather_together(StageEmitter& out, const std::vector<std::size_t>& parameters) {
    const bool second = o_.secondary > 1 && !forward_;
    const Holders over = gathered_over(parameters.front(), second);
    const std::int64_t width = context_.storage.weight;
    Handle handle{parameters, {}, {}, 0, false, false};
    std::int64_t part = 0;
    for (const std::size_t p : parameters) {
      part += divide_up(elements(p), over.members);
      handle.elements += elements(p);
      handle_of_[p] = handles_.size();
    }
    const bool quantized = o_.quantized_weights;
    const bool together = parameters.size() > 1;
    handle.copies_out = together || quantized;
    const std::int64_t whole = part * over.members;
    const Bytes bytes(whole * (quantized ? 1 : width));
    out.memory({Bytes(handle.elements * width), MemoryTag::gathered_parameters});
    // A second copy for the backward pass stays on the GPU.
    if (o_.offload.parameters != OffloadDevice::none && !second) {
      handle.buffer = Bytes(part * width);
      out.memory({handle.buffer, MemoryTag::communication_buffers});
      handle.task = fetch(out, parameters, over);
    }
    if (handle.copies_out) {
      handle.buffer += bytes;
      out.memory({bytes, MemoryTag::communication_buffers});
      const double moved = static_cast<double>(width) + (quantized ? 1.0 : static_cast<double>(width));
      handle.task = copy(out, movement(quantized ? "zero.quantize" : "zero.copy_in", part, moved), handle.task);
    }
    if (over.group.valid()) {
      handle.task = collective(out, over.group, bytes, handle.task);
      if (quantized) {
        const std::int64_t scales = divide_up(part, kQuantizedGroup) * over.members;
        handle.task = collective(out, over.group, Bytes(4 * scales), handle.task);
      }
    }
    handles_.push_back(std::move(handle));
  }

  void await(StageEmitter& out, std::size_t p) {
    if (coordinator_.status(p) != Status::under_way) return;
    if (fetches_.size() - fetches_awaited_ > kFetchesUnderWay) {
      const TaskId event = fetches_[fetches_awaited_++];
      if (event.valid()) out.host_waits_for(std::span(&event, 1), "fetches under way");
    }
    Handle& handle = handles_[handle_of_[p]];
    const bool first = !std::exchange(handle.waited, true);
    if (first && handle.copies_out) {
      const double width = static_cast<double>(context_.storage.weight);
      const double moved = (o_.quantized_weights ? 1.0 : width) + width;
      handle.task =
          copy(out, movement(o_.quantized_weights ? "zero.dequantize" : "zero.copy_out", handle.elements, moved),
               handle.task);
    }
    if (first && handle.buffer > Bytes()) out.memory({Bytes() - handle.buffer, MemoryTag::communication_buffers});
    coordinator_.arrived(p);
    out.wait_for(handle.task);
    fetches_.push_back(handle.task);
  }

  TaskId copy(StageEmitter& out, const Kernel& kernel, TaskId after) const {
    const KernelId id = context_.pool->add(kernel);
    if (!o_.overlap) {
      out.wait_for(after);
      out.kernel(id, Phase::parameter_gather);
      return out.flush();
    }
    return out.side_kernels({id}, {.stream = "gather_copies",
                                   .phase = Phase::parameter_gather,
                                   .label = "copy parameters",
                                   .after = std::span(&after, after.valid() ? 1 : 0)});
  }

  TaskId collective(StageEmitter& out, GroupKindId group, Bytes bytes, TaskId after) const {
    const CollectiveCall call{CollectiveOp::all_gather, group, bytes};
    const std::string_view stream = stream_of(context_.groups, group);
    constexpr std::string_view kLabel = "gather parameters";
    if (!o_.overlap) {
      out.wait_for(after);
      const TaskId task = out.collective(call, stream, Phase::parameter_gather, kLabel);
      out.wait_for(task);
      return task;
    }
    return out.side_collective(call, {.stream = stream,
                                      .phase = Phase::parameter_gather,
                                      .label = kLabel,
                                      .after = std::span(&after, after.valid() ? 1 : 0)});
  }

  StrategyContext context_;
  ZeroOptions o_;
  ZeroReducer reducer_;
  std::vector<bool> persistent_;        // [parameters]
  std::vector<bool> on_drive_;          // [parameters] kept on the drives
  std::int64_t on_drives_ = 0;          // elements of this rank's parts of those
  std::int64_t trained_on_drives_ = 0;  // and of trained ones
  ParameterCoordinator coordinator_;
  std::vector<Handle> handles_;
  std::vector<std::size_t> handle_of_;  // [parameters]: the latest
  std::vector<TaskId> fetches_;         // that have been waited for, in order
  std::size_t fetches_awaited_ = 0;     // by the host
  std::size_t announced_ = 0;           // uses of the module under way that are still to be announced
  bool begun_ = false;                  // a module that has not been released
  bool forward_ = true;
};

}  // namespace

std::unique_ptr<ShardingStrategy> make_zero3(const StrategyContext& context, const Choice& choice,
                                             const RegistryRow& row) {
  return std::make_unique<Zero3>(context, zero_options({.choice = choice,
                                                        .row = row,
                                                        .precision = context.precision,
                                                        .replicas = context.replicas,
                                                        .pipeline = context.stage->stages,
                                                        .micro_batches = context.micro_batches}));
}

}  // namespace orrery
