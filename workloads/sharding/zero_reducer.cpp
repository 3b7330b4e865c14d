// Gradients in ZeRO-3 (deepspeed/runtime/zero/stage3.py): reduce_independent_p_g_buckets_and_remove_grads,
// __add_grad_to_ipg_bucket, __reduce_and_partition_ipg_grads, __avg_scatter_grads, partition_grads;
// runtime/comm/coalesced_collectives.py.
//
// Each gradient is copied into the bucket's buffer (contiguous_gradients) on the reduction stream, and freed. A bucket
// that cannot take the next one is reduced: partitions are interleaved into one tensor, divided by the number of ranks,
// reduce-scattered, and the part is copied to (or added to) the rank's gradients. That goes for every micro-batch. The
// host waits when more than two buckets are on their way, and at the end of each backward pass. Without overlap_comm
// all of it is in the compute stream. Without reduce_scatter whole buckets are all-reduced.
//
// Quantised gradients (all_to_all_quant_reduce): 4 bits, swapped within the node and summed there, quantised again and
// swapped between nodes. On one node DeepSpeed reduces as usual. Scales of quantised groups are left out: 32 bits for
// thousands of elements.
#include <algorithm>
#include <array>
#include <utility>

#include "workloads/sharding/deepspeed.hpp"
#include "workloads/sharding/fsdp.hpp"

namespace orrery {

namespace {

constexpr std::size_t kBucketsUnderWay = 2;  // max_param_reduce_events

}  // namespace

ZeroReducer::ZeroReducer(const StrategyContext& context, const ZeroOptions& options)
    : context_(context), o_(options), open_(2), has_reduced_(context.stage->parameters.size(), false) {}

StrategyContext::Holders ZeroReducer::holders(std::size_t parameter) const {
  const ParameterTensor& p = context_.stage->parameters[parameter];
  if (o_.mics > 0 && !p.expert) return {context_.groups.shard, o_.mics};
  return context_.holders_of(p);
}

std::int64_t ZeroReducer::part(std::size_t parameter) const {
  return divide_up(context_.stage->parameters[parameter].elements, holders(parameter).members);
}

void ZeroReducer::resident(ProgramBuilder& program) const {
  if (!o_.contiguous) return;
  program.resident({Bytes(o_.reduce_bucket * context_.storage.gradient), MemoryTag::communication_buffers});
}

TaskId ZeroReducer::kernels(StageEmitter& out, const std::vector<Kernel>& kernels, TaskId after,
                            std::span<const MemoryOperation> memory) {
  if (o_.overlap) {
    KernelSequence sequence;
    for (const Kernel& kernel : kernels) sequence.push_back(context_.pool->add(kernel));
    std::vector<TaskId> causes;
    if (after.valid()) causes.push_back(after);
    return out.side_kernels(sequence, {.stream = "reduce_and_partition",
                                       .phase = Phase::gradient_reduction,
                                       .label = "partition gradients",
                                       .after = causes,
                                       .memory = memory});
  }
  out.wait_for(after);
  for (const MemoryOperation& operation : memory) {
    if (operation.bytes.count() > 0) out.memory(operation);
  }
  for (const Kernel& kernel : kernels) out.kernel(context_.pool->add(kernel), Phase::gradient_reduction);
  const TaskId task = out.flush();
  for (const MemoryOperation& operation : memory) {
    if (operation.bytes.count() < 0) out.memory(operation);
  }
  return task;
}

TaskId ZeroReducer::collective(StageEmitter& out, CollectiveOp op, GroupKindId group, std::int64_t bytes, TaskId after,
                               std::span<const MemoryOperation> memory) {
  if (!group.valid()) {
    for (const MemoryOperation& operation : memory) out.memory(operation);
    return after;
  }
  const TaskId task = out.side_collective({op, group, Bytes(bytes)}, {.stream = stream_of(context_.groups, group),
                                                                      .phase = Phase::gradient_reduction,
                                                                      .label = "reduce gradients",
                                                                      .after = std::span(&after, 1),
                                                                      .memory = memory});
  if (!o_.overlap) out.wait_for(task);
  return task;
}

void ZeroReducer::add(StageEmitter& out, std::size_t parameter, bool last) {
  const ParameterTensor& p = context_.stage->parameters[parameter];
  const std::int64_t width = context_.storage.gradient;
  out.memory({Bytes(p.elements * width), MemoryTag::gradients});
  Open& bucket = open_[p.expert ? 1 : 0];
  if (bucket.elements + p.elements > o_.reduce_bucket) reduce(out, bucket);
  bucket.parameters.push_back(parameter);
  bucket.last = last;
  if (o_.contiguous && bucket.elements + p.elements <= o_.reduce_bucket) {
    const std::array freed{MemoryOperation{Bytes(-p.elements * width), MemoryTag::gradients}};
    last_ = kernels(out, {movement("zero.copy_gradient", p.elements, 2.0 * static_cast<double>(width))}, out.flush(),
                    freed);
  } else {
    bucket.loose += p.elements;
    last_ = out.flush();
  }
  bucket.elements += p.elements;
}

void ZeroReducer::reduce(StageEmitter& out, Open& open) {
  if (open.parameters.empty()) return;
  const Open bucket = std::exchange(open, {});
  if (events_.size() - awaited_ > kBucketsUnderWay) {
    out.host_waits_for(std::span(&events_[awaited_], 1), "buckets under way");
    ++awaited_;
  }
  const auto over = holders(bucket.parameters.front());
  const auto g = static_cast<double>(context_.storage.gradient);
  std::int64_t own = 0;
  bool adds = false;
  for (const std::size_t p : bucket.parameters) {
    own += part(p);
    adds = adds || has_reduced_[p];
    has_reduced_[p] = true;
  }
  const std::int64_t padded = own * over.members;
  const std::int64_t width = context_.storage.gradient;
  TaskId task = scatter(out, over, padded, last_);
  std::vector<MemoryOperation> freed;
  if (bucket.loose > 0) freed.push_back({Bytes(-bucket.loose * width), MemoryTag::gradients});
  if (o_.reduce_scatter) freed.push_back({Bytes(-(padded + own) * width), MemoryTag::communication_buffers});
  if (!o_.offloads_optimizer()) {
    task = kernels(out, {movement("zero.partition_gradients", own, (adds ? 3 : 2) * g)}, task, freed);
  }
  // MiCS sums over those who hold the same part, once a step.
  if (o_.mics > 0 && bucket.last && context_.groups.replicate.valid() && over.group == context_.groups.shard) {
    task = collective(out, CollectiveOp::all_reduce, context_.groups.replicate, own * width, task);
  }
  if (o_.offloads_optimizer()) task = offload(out, own, adds, bucket.last, task, freed);
  last_ = task;
  events_.push_back(task);
}

// The part of a bucket goes to the host. Sums of micro-batches are made on the GPU, there and back (partition_grads);
// the first micro-batch's gradients come back too, to be read for the norm. What the optimizer reads goes in fp32 at
// last, and the host waits for that copy, and for the drives.
TaskId ZeroReducer::offload(StageEmitter& out, std::int64_t own, bool adds, bool last, TaskId after,
                            std::span<const MemoryOperation> freed) {
  constexpr std::int64_t kWide = 4;
  const std::int64_t width = context_.storage.gradient;
  const auto g = static_cast<double>(width);
  TaskId task = after;
  if (adds) {
    task = copy(out, CopyDirection::host_to_device, own * width, task);
    task = kernels(out, {movement("zero.add_gradients", own, 3 * g)}, task);
  }
  task = copy(out, CopyDirection::device_to_host, own * width, task, last ? std::span<const MemoryOperation>() : freed);
  if (!adds) task = copy(out, CopyDirection::host_to_device, own * width, task);
  if (!last) return task;
  std::vector<Kernel> reads{movement("zero.gradient_norm", own, g)};
  if (width != kWide) reads.push_back(movement("zero.widen_gradients", own, g + kWide));
  task = kernels(out, reads, task);
  task = copy(out, CopyDirection::device_to_host, own * kWide, task, freed, true);
  if (o_.offload.optimizer != OffloadDevice::nvme) return task;
  return out.side_copy(CopyDirection::host_to_drive, Bytes(own * kWide),
                       {.stream = kDriveWrites,
                        .phase = Phase::gradient_reduction,
                        .label = "write gradients",
                        .after = std::span(&task, 1)},
                       true);
}

TaskId ZeroReducer::copy(StageEmitter& out, CopyDirection direction, std::int64_t bytes, TaskId after,
                         std::span<const MemoryOperation> memory, bool blocks_host) {
  const bool to_host = direction == CopyDirection::device_to_host;
  const TaskId task = out.side_copy(direction, Bytes(bytes),
                                    {.stream = o_.overlap ? "reduce_and_partition"
                                               : to_host  ? kToHost
                                                          : kToDevice,
                                     .phase = Phase::gradient_reduction,
                                     .label = to_host ? "copy gradients to the host" : "copy gradients back",
                                     .after = std::span(&after, after.valid() ? 1 : 0),
                                     .memory = memory},
                                    blocks_host);
  if (!o_.overlap) out.wait_for(task);
  return task;
}

TaskId ZeroReducer::scatter(StageEmitter& out, const StrategyContext::Holders& over, std::int64_t padded,
                            TaskId after) {
  const std::int64_t width = context_.storage.gradient;
  const double twice = 2.0 * static_cast<double>(width);
  if (!o_.reduce_scatter) {
    const TaskId divided = kernels(out, {movement("zero.divide", padded, twice)}, after);
    return collective(out, CollectiveOp::all_reduce, over.group, padded * width, divided);
  }
  // The interleaved copy, and the result.
  const std::array buffers{
      MemoryOperation{Bytes((padded + padded / over.members) * width), MemoryTag::communication_buffers}};
  if (o_.quantized_gradients && context_.groups.replicate.valid() && over.group == context_.groups.data) {
    out.memory(buffers[0]);
    return exchange_quantized(out, padded, after);
  }
  const TaskId copied = kernels(
      out, {movement("zero.interleave", padded, twice), movement("zero.divide", padded, twice)}, after, buffers);
  return collective(out, CollectiveOp::reduce_scatter, over.group, padded * width, copied);
}

TaskId ZeroReducer::exchange_quantized(StageEmitter& out, std::int64_t padded, TaskId after) {
  const auto g = static_cast<double>(context_.storage.gradient);
  constexpr double kQuantized = 0.5;  // bytes
  const std::int64_t node = o_.node;
  const std::int64_t mine = divide_up(padded, node);  // after the sum within the node
  TaskId task = kernels(out, {movement("zero.quantize", padded, g + kQuantized)}, after);
  task = collective(out, CollectiveOp::all_to_all, context_.groups.shard, divide_up(padded, 2), task);
  task = kernels(
      out, {movement("zero.reduce_quantized", padded, 2 * kQuantized / static_cast<double>(node) + kQuantized)}, task);
  task = collective(out, CollectiveOp::all_to_all, context_.groups.replicate, divide_up(mine, 2), task);
  return kernels(out, {movement("zero.dequantize", mine, kQuantized + g)}, task);
}

void ZeroReducer::flush(StageEmitter& out) {
  for (Open& bucket : open_) reduce(out, bucket);
  if (last_.valid()) out.host_waits_for(std::span(&last_, 1), "end of reductions");
  out.wait_for(last_);
  last_ = TaskId();
  awaited_ = events_.size();
}

}  // namespace orrery
