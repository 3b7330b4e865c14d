// How the update is issued (deepspeed/runtime/zero/stage3.py, step and what it calls; stage_1_and_2.py, step;
// runtime/swap_tensor/partitioned_optimizer_swapper.py and pipelined_optimizer_swapper.py):
//
//  - The host thread works through the sub-groups, and is one of the cores that do so: it issues nothing meanwhile.
//  - State on drives is read before a sub-group's update (its gradients too, which the backward pass has written
//    there), and written after it, without the gradients. The host waits for both. With pipeline_read the next
//    sub-group is read while this one is updated; with pipeline_write the host waits for a write when it has the next
//    to write.
//  - fp32 weights are cast on the CPU (a copy between devices converts first), and 16-bit ones go to the GPU from
//    pinned memory, which the host waits for (copy_ without non_blocking); parameters that are offloaded themselves
//    stay, or are written to the drives.
#include "workloads/sharding/offload.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "workloads/options.hpp"

namespace orrery {

namespace {

constexpr std::int64_t kMasterBytes = 4;
constexpr std::int64_t kGradientBytes = 4;  // on drives

bool has_option(const RegistryRow& row, std::string_view name) {
  return std::any_of(row.options.begin(), row.options.end(), [&](const OptionDoc& o) { return o.name == name; });
}

OffloadDevice device(const Choice& choice, const RegistryRow& row, std::string_view name) {
  if (!has_option(row, name)) return OffloadDevice::none;
  const std::string_view text = text_option(choice, row, name);
  return text == "cpu" ? OffloadDevice::cpu : text == "nvme" ? OffloadDevice::nvme : OffloadDevice::none;
}

TaskId drive(StageEmitter& out, CopyDirection direction, std::int64_t bytes, std::string_view label, bool blocks_host) {
  const bool read = direction == CopyDirection::drive_to_host;
  return out.side_copy(direction, Bytes(bytes),
                       {.stream = read ? kDriveReads : kDriveWrites, .phase = Phase::optimizer, .label = label},
                       blocks_host);
}

void host_waits(StageEmitter& out, TaskId task, std::string_view label) {
  if (task.valid()) out.host_waits_for(std::span(&task, 1), label);
}

}  // namespace

OffloadOptions offload_options(const Choice& choice, const RegistryRow& row) {
  OffloadOptions o;
  o.optimizer = device(choice, row, "offload_optimizer");
  o.parameters = device(choice, row, "offload_param");
  if (has_option(row, "sub_group_size")) o.sub_group = integer_option(choice, row, "sub_group_size");
  if (!has_option(row, "offload_param")) return o;
  o.pipeline_read = boolean_option(choice, row, "offload_optimizer_pipeline_read");
  o.pipeline_write = boolean_option(choice, row, "offload_optimizer_pipeline_write");
  o.parameters_in_cpu = integer_option(choice, row, "offload_param_max_in_cpu");
  return o;
}

TaskId work_on_host(StageEmitter& out, std::int64_t elements, double bytes, std::string_view label) {
  const std::vector<TaskId> after = out.after_compute();
  const Bytes moved(static_cast<std::int64_t>(static_cast<double>(elements) * bytes));
  return out.side_copy(CopyDirection::in_host_memory, moved,
                       {.stream = "cpu", .phase = Phase::optimizer, .label = label, .after = after}, true);
}

void HostUpdate::update(StageEmitter& out, std::int64_t elements, double bytes) const {
  work_on_host(out, elements, bytes, "update on the CPU");
  if (weight_bytes_ != kMasterBytes) {
    work_on_host(out, elements, static_cast<double>(kMasterBytes + weight_bytes_), "cast weights on the CPU");
  }
  if (o_.parameters != OffloadDevice::none) return;
  out.wait_for(out.side_copy(CopyDirection::host_to_device, Bytes(elements * weight_bytes_),
                             {.stream = kToDevice, .phase = Phase::optimizer, .label = "copy updated weights"}, true));
}

void HostUpdate::emit(StageEmitter& out, std::int64_t elements, std::int64_t weights_on_drives, double bytes) const {
  const std::int64_t each = o_.sub_group > 0 ? std::min(o_.sub_group, elements) : elements;
  const bool swaps = o_.optimizer == OffloadDevice::nvme;
  const auto read = [&](std::int64_t left, bool blocks_host) {
    const std::int64_t n = std::min(each, left);
    return drive(out, CopyDirection::drive_to_host, n * (state_bytes_ + kGradientBytes), "read optimizer state",
                 blocks_host);
  };
  TaskId next;     // the read of the sub-group that comes next, under way
  TaskId writing;  // the last write, under way
  std::int64_t in_cpu = elements - weights_on_drives;
  for (std::int64_t left = elements; left > 0; left -= each) {
    const std::int64_t n = std::min(each, left);
    if (swaps) {
      if (next.valid()) {
        host_waits(out, next, "await optimizer state");
      } else {
        read(left, true);
      }
      next = o_.pipeline_read && left > each ? read(left - each, false) : TaskId();
    }
    update(out, n, bytes);
    const std::int64_t swapped_out = std::max<std::int64_t>(0, n - in_cpu);
    in_cpu -= n - swapped_out;
    if (swapped_out > 0) {
      drive(out, CopyDirection::host_to_drive, swapped_out * weight_bytes_, "write weights", true);
    }
    if (!swaps) continue;
    host_waits(out, writing, "await written state");
    writing = drive(out, CopyDirection::host_to_drive, n * state_bytes_, "write optimizer state", !o_.pipeline_write);
    if (!o_.pipeline_write) writing = TaskId();
  }
  host_waits(out, writing, "await written state");
}

}  // namespace orrery
