// State of training that is kept off the GPU: where, and how its update by the CPUs is issued. Who copies what when is
// the business of the strategies.
//
// The CPUs' update. What kernels would do to the GPU's memory, the host's cores do to its own: one pass over all
// arrays, as fast as the memory of the socket gives it away, which the ranks of a socket share. DeepSpeed's CPU Adam is
// one such pass in vector instructions on all cores (csrc/adam/cpu_adam_impl.cpp); torch's fused AdamW on the CPU is
// one too, and its plain one a pass for each operation. Ren et al., "ZeRO-Offload" (2021), table 4, measured 0.22,
// 0.51, 1.03, 2.41 and 2.57 s for 1, 2, 4, 8 and 10 billion parameters on a DGX-2; 28 bytes a parameter over the memory
// of one of its sockets come to 0.26 s a billion. No constant is fitted.
//
// Left out: pageable memory (DeepSpeed's pin_memory: false), whose copies block the host and are several times slower;
// cores as a limit of their own; ranks whose memory is on another socket than their GPU.
#pragma once

#include <cstdint>

#include "workloads/emit/stage.hpp"
#include "workloads/sharding/strategy.hpp"

namespace orrery {

enum class OffloadDevice : std::uint8_t { none, cpu, nvme };

struct OffloadOptions {
  OffloadDevice optimizer = OffloadDevice::none;
  OffloadDevice parameters = OffloadDevice::none;
  std::int64_t sub_group = 0;          // elements that are updated at a time; 0: all
  bool pipeline_read = false;          // of drives: the next sub-group's state is read during an update
  bool pipeline_write = false;         // and the last one's written
  std::int64_t parameters_in_cpu = 0;  // on drives: elements that stay in host memory all the same

  [[nodiscard]] bool any() const { return optimizer != OffloadDevice::none || parameters != OffloadDevice::none; }
};

// What is offloaded according to a checked choice. Options that the row does not have are off.
[[nodiscard]] OffloadOptions offload_options(const Choice& choice, const RegistryRow& row);

inline constexpr std::string_view kToDevice = "offload_to_device";
inline constexpr std::string_view kToHost = "offload_to_host";
inline constexpr std::string_view kDriveReads = "drive_reads";
inline constexpr std::string_view kDriveWrites = "drive_writes";

// The CPUs work through `elements`, with so many bytes each; the host thread is one of them.
TaskId work_on_host(StageEmitter& out, std::int64_t elements, double bytes, std::string_view label);

// A sub-group's update, as stage3.py's step() goes through them: state in from the drives, clipping and update, the
// cast to the weights' format, weights to where they are kept, state back to the drives.
class HostUpdate {
 public:
  // `weight_bytes`: of a weight as the GPU uses it. `state_bytes`: of an element on the drives but for its gradient.
  HostUpdate(const OffloadOptions& options, std::int64_t weight_bytes, std::int64_t state_bytes)
      : o_(options), weight_bytes_(weight_bytes), state_bytes_(state_bytes) {}

  // Of all elements of a rank, of which the weights of `weights_on_drives` go to the drives. `bytes` of an element pass
  // between the cores and memory in clipping and update.
  void emit(StageEmitter& out, std::int64_t elements, std::int64_t weights_on_drives, double bytes) const;

 private:
  void update(StageEmitter& out, std::int64_t elements, double bytes) const;

  OffloadOptions o_;
  std::int64_t weight_bytes_;
  std::int64_t state_bytes_;
};

}  // namespace orrery
