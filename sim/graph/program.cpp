#include "sim/graph/program.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/check.hpp"

namespace orrery {

namespace {

// The index of `value` in `pool`, adding it when new. Linear from the back: the values that repeat in a program
// (layers alike, micro-batches alike) are few.
// `value` may be a view of a T.
template <class T, class Value>
std::uint32_t intern(std::vector<T>& pool, Value&& value) {
  const auto found = std::find(pool.rbegin(), pool.rend(), value);
  if (found != pool.rend()) return static_cast<std::uint32_t>(pool.rend() - found - 1);
  pool.emplace_back(std::forward<Value>(value));
  return static_cast<std::uint32_t>(pool.size() - 1);
}

template <class T>
std::uint32_t append(std::vector<T>& pool, T value) {
  pool.push_back(std::move(value));
  return static_cast<std::uint32_t>(pool.size() - 1);
}

}  // namespace

std::span<const TaskId> Program::dependencies(const Task& task) const {
  return std::span(dependencies_).subspan(task.dependencies_begin, task.dependencies_end - task.dependencies_begin);
}

std::span<const MemoryOperation> Program::memory(const Task& task) const {
  return std::span(memory_).subspan(task.memory_begin, task.memory_end - task.memory_begin);
}

StreamId ProgramBuilder::stream(std::string_view name, bool compute, bool urgent) {
  auto& streams = program_.streams_;
  const auto found = std::find_if(streams.begin(), streams.end(), [&](const Stream& s) { return s.name == name; });
  if (found != streams.end()) return StreamId(static_cast<std::size_t>(found - streams.begin()));
  streams.push_back({std::string(name), compute, urgent});
  program_.stream_tasks_.emplace_back();
  return StreamId(streams.size() - 1);
}

TaskId ProgramBuilder::kernels(KernelSequence sequence, const TaskOptions& options) {
  return add(TaskKind::kernels, intern(program_.sequences_, std::move(sequence)), options);
}

TaskId ProgramBuilder::collective(const CollectiveCall& call, const TaskOptions& options) {
  return add(TaskKind::collective, intern(program_.collectives_, call), options);
}

TaskId ProgramBuilder::send(const TransferCall& call, const TaskOptions& options) {
  return add(TaskKind::send, intern(program_.transfers_, call), options);
}

TaskId ProgramBuilder::receive(const TransferCall& call, const TaskOptions& options) {
  return add(TaskKind::receive, intern(program_.transfers_, call), options);
}

TaskId ProgramBuilder::copy(const CopyCall& call, const TaskOptions& options) {
  return add(TaskKind::copy, append(program_.copies_, call), options);
}

TaskId ProgramBuilder::host(Duration work, const TaskOptions& options) {
  return add(TaskKind::host, append(program_.host_work_, work), options);
}

void ProgramBuilder::resident(MemoryOperation operation) { program_.resident_.push_back(operation); }

void ProgramBuilder::keep_off_device(const OffDevice& more) {
  program_.off_device_.host_memory += more.host_memory;
  program_.off_device_.drives += more.drives;
}

TaskId ProgramBuilder::add(TaskKind kind, std::uint32_t payload, const TaskOptions& options) {
  ORRERY_CHECK(options.stream.valid(), "every task is on a stream");
  const TaskId id(program_.tasks_.size());
  Task task{.kind = kind,
            .phase = options.phase,
            .blocks_host = options.blocks_host,
            .issue = options.issue,
            .stream = options.stream,
            .payload = payload,
            .micro_batch = options.micro_batch,
            .layer = options.layer};
  task.dependencies_begin = static_cast<std::uint32_t>(program_.dependencies_.size());
  for (const TaskId before : options.after) {
    if (!before.valid()) continue;
    ORRERY_CHECK(before < id, "a task depends on earlier tasks only", before.value(), id.value());
    if (program_.tasks_[before.index()].stream == options.stream) continue;
    const auto begin = program_.dependencies_.begin() + task.dependencies_begin;
    if (std::find(begin, program_.dependencies_.end(), before) == program_.dependencies_.end()) {
      program_.dependencies_.push_back(before);
    }
  }
  task.dependencies_end = static_cast<std::uint32_t>(program_.dependencies_.size());
  task.memory_begin = static_cast<std::uint32_t>(program_.memory_.size());
  program_.memory_.insert(program_.memory_.end(), options.memory.begin(), options.memory.end());
  task.memory_end = static_cast<std::uint32_t>(program_.memory_.size());
  task.label = intern(program_.labels_, options.label);
  auto& on_stream = program_.stream_tasks_[options.stream.index()];
  program_.place_in_stream_.push_back(static_cast<std::uint32_t>(on_stream.size()));
  on_stream.push_back(id);
  program_.tasks_.push_back(task);
  return id;
}

Program ProgramBuilder::freeze() && { return std::move(program_); }

}  // namespace orrery
