// The program of one role: what every rank of that role does in one training step, on no hardware.
//
// As in CUDA, a host thread issues tasks in program order, each on a stream. A task starts when (a) the host has issued
// it, (b) the task before it on its stream has ended, (c) the tasks it depends on (cudaStreamWaitEvent) have ended, and
// (d) for communication, the other side is there too. Tasks of one stream never overlap; streams run concurrently.
//
// A run of kernels with nothing between them is one task (a "kernel sequence"), since the executor can play it out
// without an event per kernel. Ranks of a role share the program; only positions in it are per rank. Programs are built
// by ProgramBuilder, then frozen.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/ids.hpp"
#include "sim/base/units.hpp"
#include "sim/graph/communication.hpp"
#include "sim/graph/kernel.hpp"

namespace orrery {

struct TaskTag;
using TaskId = Id<TaskTag>;  // index in program order

struct StreamTag;
using StreamId = Id<StreamTag>;

struct RoleTag;
using RoleId = Id<RoleTag>;

// What a memory operation is for; the ledger and the OOM report speak in these.
enum class MemoryTag : std::uint8_t {
  weights,
  gradients,
  optimizer_state,
  activations,
  gathered_parameters,  // unsharded copies that sharded strategies make
  communication_buffers,
  logits,
  workspace,
  framework,  // context, libraries, communicators
};
inline constexpr std::size_t kMemoryTags = 9;
inline constexpr std::array<std::string_view, kMemoryTags> kMemoryTagNames{
    "weights", "gradients", "optimizer_state", "activations", "gathered_parameters", "communication_buffers",
    "logits",  "workspace", "framework"};
[[nodiscard]] constexpr std::string_view name_of(MemoryTag tag) {
  return kMemoryTagNames[static_cast<std::size_t>(tag)];
}

// Allocates (bytes > 0) or frees (bytes < 0) when the host issues the task that carries it, in program order, as
// PyTorch's caching allocator does.
struct MemoryOperation {
  Bytes bytes{};
  MemoryTag tag = MemoryTag::workspace;

  friend bool operator==(const MemoryOperation&, const MemoryOperation&) = default;
};

enum class TaskKind : std::uint8_t {
  kernels,     // a sequence of kernels, back to back
  collective,  // payload: a CollectiveCall
  send,        // payload: a TransferCall
  receive,     // payload: a TransferCall
  copy,        // host-device copy, work of the CPUs, use of drives: payload: a CopyCall
  host,        // work of the host thread itself (data loading, Python between steps): payload: a duration
};

// What moves bytes outside of the GPU: its two copy engines; the CPUs of its host, whose work on large arrays is as
// fast as their memory (bytes: read and written); and the drives of the node, whose bytes end or begin in host memory.
enum class CopyDirection : std::uint8_t {
  host_to_device,
  device_to_host,
  in_host_memory,
  drive_to_host,
  host_to_drive
};
inline constexpr std::array kCopyDirections{CopyDirection::host_to_device, CopyDirection::device_to_host,
                                            CopyDirection::in_host_memory, CopyDirection::drive_to_host,
                                            CopyDirection::host_to_drive};

struct CopyCall {
  CopyDirection direction = CopyDirection::host_to_device;
  Bytes bytes{};
  bool offload = false;  // of state that is kept off the GPU, not of input or results: who waits, waits for offload
};

// What a program keeps outside of the GPU for the whole step.
struct OffDevice {
  Bytes host_memory{};
  Bytes drives{};

  friend bool operator==(const OffDevice&, const OffDevice&) = default;
};

// Which part of the step a task belongs to; breakdowns and traces group by it.
enum class Phase : std::uint8_t {
  forward,
  backward,
  recompute,
  gradient_reduction,
  parameter_gather,
  optimizer,
  other,
  weight_gradient,  // the half of a backward pass that makes gradients of weights, where it runs apart
};
inline constexpr std::array<std::string_view, 8> kPhaseNames{
    "forward",          "backward",  "recompute", "gradient_reduction",
    "parameter_gather", "optimizer", "other",     "weight_gradient"};
[[nodiscard]] constexpr std::string_view name_of(Phase phase) { return kPhaseNames[static_cast<std::size_t>(phase)]; }

// How the host comes to issue a communication; kernels say it each for itself (Kernel::within_call).
enum class Issue : std::uint8_t {
  alone,        // by a call of its own to a communication library
  opens_call,   // by a framework's call that issues kernels too, and first of it all
  within_call,  // by the call that issued what stands before it in the program, or issues what stands behind
};

// One task. Ranges [begin, end) index the program's shared arrays.
struct Task {
  TaskKind kind = TaskKind::kernels;
  Phase phase = Phase::other;
  // The host thread issues nothing further before this task has ended (cudaStreamSynchronize, .item()).
  bool blocks_host = false;
  Issue issue = Issue::alone;
  StreamId stream;
  std::uint32_t payload = 0;  // kernels: index into sequences(); otherwise into the array of its kind
  std::uint32_t dependencies_begin = 0;
  std::uint32_t dependencies_end = 0;
  std::uint32_t memory_begin = 0;
  std::uint32_t memory_end = 0;
  std::int32_t micro_batch = -1;  // -1: none
  std::int32_t layer = -1;        // first model layer it works on; -1: none
  std::uint32_t label = 0;        // see Program::label(): what to call it in a trace
};

// Kernels that run back to back, in order.
using KernelSequence = std::vector<KernelId>;

// What a stream carries; the breakdown names exposed communication after it.
struct Stream {
  std::string name;  // "compute", "tensor", "data", "pipeline_send_forward", ...
  bool compute = false;
  // Small kernels beside the compute stream (copies of sharded state): once launched, they go next on the GPU, at the
  // end of the kernel sequence that runs there, whatever comes first in the program.
  bool urgent = false;
};

// A frozen program. All spans stay valid as long as the program lives.
class Program {
 public:
  [[nodiscard]] std::span<const Task> tasks() const { return tasks_; }
  [[nodiscard]] std::span<const Stream> streams() const { return streams_; }
  // Earlier tasks on other streams that must have ended. (The task before it on its own stream is implied.)
  [[nodiscard]] std::span<const TaskId> dependencies(const Task& task) const;
  [[nodiscard]] std::span<const MemoryOperation> memory(const Task& task) const;
  [[nodiscard]] std::span<const KernelSequence> sequences() const { return sequences_; }
  [[nodiscard]] const KernelSequence& sequence(const Task& task) const { return sequences_[task.payload]; }
  [[nodiscard]] const CollectiveCall& collective(const Task& task) const { return collectives_[task.payload]; }
  [[nodiscard]] const TransferCall& transfer(const Task& task) const { return transfers_[task.payload]; }
  [[nodiscard]] const CopyCall& copy(const Task& task) const { return copies_[task.payload]; }
  [[nodiscard]] Duration host_work(const Task& task) const { return host_work_[task.payload]; }
  [[nodiscard]] std::string_view label(const Task& task) const { return labels_[task.label]; }
  // The tasks of one stream, in order, and a task's place in its stream.
  [[nodiscard]] std::span<const TaskId> on_stream(StreamId stream) const { return stream_tasks_[stream.index()]; }
  [[nodiscard]] std::uint32_t place_in_stream(TaskId task) const { return place_in_stream_[task.index()]; }
  // The first task of each slot of the pipeline's schedule, in order; a slot's tasks on the compute stream end where
  // the next slot begins.
  [[nodiscard]] std::span<const TaskId> slots() const { return slots_; }
  // What is allocated before the step begins (weights, optimizer state, framework), in order.
  [[nodiscard]] std::span<const MemoryOperation> resident_memory() const { return resident_; }
  [[nodiscard]] const OffDevice& off_device() const { return off_device_; }

 private:
  friend class ProgramBuilder;
  std::vector<Task> tasks_;
  std::vector<Stream> streams_;
  std::vector<TaskId> dependencies_;
  std::vector<MemoryOperation> memory_;
  std::vector<KernelSequence> sequences_;
  std::vector<CollectiveCall> collectives_;
  std::vector<TransferCall> transfers_;
  std::vector<CopyCall> copies_;
  std::vector<Duration> host_work_;
  std::vector<std::string> labels_;
  std::vector<std::vector<TaskId>> stream_tasks_;
  std::vector<std::uint32_t> place_in_stream_;
  std::vector<MemoryOperation> resident_;
  OffDevice off_device_;
  std::vector<TaskId> slots_;
};

// What is common to all ways of adding a task.
struct TaskOptions {
  StreamId stream;
  Phase phase = Phase::other;
  std::string_view label = {};
  std::span<const TaskId> after = {};  // dependencies; own-stream and duplicate ones are dropped
  std::span<const MemoryOperation> memory = {};
  std::int32_t micro_batch = -1;
  std::int32_t layer = -1;
  bool blocks_host = false;
  Issue issue = Issue::alone;
};

// Adds tasks in program order. Equal sequences, collectives, transfers and labels are stored once.
class ProgramBuilder {
 public:
  // The stream with this name; made on first use.
  StreamId stream(std::string_view name, bool compute = false, bool urgent = false);

  TaskId kernels(KernelSequence sequence, const TaskOptions& options);
  TaskId collective(const CollectiveCall& call, const TaskOptions& options);
  TaskId send(const TransferCall& call, const TaskOptions& options);
  TaskId receive(const TransferCall& call, const TaskOptions& options);
  TaskId copy(const CopyCall& call, const TaskOptions& options);
  TaskId host(Duration work, const TaskOptions& options);
  void resident(MemoryOperation operation);
  // Adds to what is kept outside of the GPU.
  void keep_off_device(const OffDevice& more);
  // The tasks that are added from here on belong to the next slot.
  void begin_slot() { program_.slots_.emplace_back(program_.tasks_.size()); }

  // Gives the program up. (That dependencies point backwards is checked as tasks are added.)
  [[nodiscard]] Program freeze() &&;

 private:
  TaskId add(TaskKind kind, std::uint32_t payload, const TaskOptions& options);
  Program program_;
};

}  // namespace orrery
