#include "workloads/emit/stage.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/check.hpp"

namespace orrery {

bool Stage::first() const {
  return std::any_of(places.begin(), places.end(),
                     [](const StageChunk& c) { return c.previous.where == Neighbour::Where::none; });
}

bool Stage::last() const {
  return std::any_of(places.begin(), places.end(),
                     [](const StageChunk& c) { return c.next.where == Neighbour::Where::none; });
}

std::int64_t Stage::elements() const {
  std::int64_t sum = 0;
  for (const ParameterTensor& p : parameters) sum += p.elements;
  return sum;
}

std::int64_t Stage::weight_bytes(std::int64_t bytes_per_element) const {
  std::int64_t sum = 0;
  for (const ParameterTensor& p : parameters) {
    sum += p.quantized ? static_cast<std::int64_t>(static_cast<double>(p.elements) * kNf4BytesPerElement)
                       : p.elements * bytes_per_element;
  }
  return sum;
}

std::int64_t Stage::trained_elements() const {
  std::int64_t sum = 0;
  for (const ParameterTensor& p : parameters) sum += p.trained ? p.elements : 0;
  return sum;
}

std::int64_t Stage::trained_tensors() const {
  return std::count_if(parameters.begin(), parameters.end(), [](const ParameterTensor& p) { return p.trained; });
}

StageEmitter::StageEmitter() : compute_(program_.stream("compute", true)) {}

void StageEmitter::at(std::string_view label, std::int32_t micro_batch, std::int32_t layer) {
  flush();
  line_.label = label;
  line_.micro_batch = micro_batch;
  line_.layer = layer;
}

void StageEmitter::kernel(KernelId id, Phase phase) {
  if (phase != phase_ && !sequence_.empty()) flush();
  phase_ = phase;
  sequence_.push_back(id);
}

void StageEmitter::kernels(const KernelSequence& sequence, Phase phase) {
  for (const KernelId id : sequence) kernel(id, phase);
}

void StageEmitter::memory(MemoryOperation operation) { line_.memory.push_back(operation); }

void StageEmitter::wait_for(TaskId task) {
  if (!task.valid()) return;
  flush();
  line_.waits.push_back(task);
}

TaskId StageEmitter::flush() {
  if (sequence_.empty()) return line_.last_compute;
  line_.last_compute = program_.kernels(std::move(sequence_), {.stream = compute_,
                                                               .phase = phase_,
                                                               .label = line_.label,
                                                               .after = line_.waits,
                                                               .memory = line_.memory,
                                                               .micro_batch = line_.micro_batch,
                                                               .layer = line_.layer});
  sequence_.clear();
  line_.waits.clear();
  line_.memory.clear();
  return line_.last_compute;
}

void StageEmitter::begin_pair() {
  flush();
  other_ = {};
  other_.last_compute = line_.last_compute;
}

void StageEmitter::other_of_pair() {
  flush();
  std::swap(line_, other_);
}

void StageEmitter::end_pair() {
  flush();
  ORRERY_CHECK(other_.under_way.empty(), "a pass waits for all that it has launched", other_.under_way.size());
  line_.last_compute = std::max(line_.last_compute, other_.last_compute);
  line_.memory.insert(line_.memory.end(), other_.memory.begin(), other_.memory.end());
  line_.waits.insert(line_.waits.end(), other_.waits.begin(), other_.waits.end());
  other_ = {};
}

std::vector<TaskId> StageEmitter::after_compute() {
  std::vector<TaskId> after = line_.waits;
  const TaskId last = flush();
  if (line_.waits.empty()) after.clear();
  if (last.valid()) after.push_back(last);
  return after;
}

TaskId StageEmitter::collective(const CollectiveCall& call, std::string_view stream, Phase phase,
                                std::string_view label, std::span<const MemoryOperation> memory, bool blocks_host,
                                Issue issue) {
  const std::vector<TaskId> after = after_compute();
  std::vector<MemoryOperation> operations = std::exchange(line_.memory, {});
  operations.insert(operations.end(), memory.begin(), memory.end());
  return program_.collective(call, {.stream = program_.stream(stream),
                                    .phase = phase,
                                    .label = label,
                                    .after = after,
                                    .memory = operations,
                                    .micro_batch = line_.micro_batch,
                                    .layer = line_.layer,
                                    .blocks_host = blocks_host,
                                    .issue = issue});
}

TaskOptions StageEmitter::side_options(const Side& side, std::vector<MemoryOperation>& operations) {
  flush();
  operations = std::exchange(line_.memory, {});
  operations.insert(operations.end(), side.memory.begin(), side.memory.end());
  return {.stream = {},
          .phase = side.phase,
          .label = side.label,
          .after = side.after,
          .memory = operations,
          .micro_batch = line_.micro_batch,
          .layer = line_.layer};
}

TaskId StageEmitter::side_kernels(const KernelSequence& sequence, const Side& side) {
  std::vector<MemoryOperation> operations;
  TaskOptions options = side_options(side, operations);
  options.stream = program_.stream(side.stream, false, true);
  return program_.kernels(sequence, options);
}

TaskId StageEmitter::side_collective(const CollectiveCall& call, const Side& side) {
  std::vector<MemoryOperation> operations;
  TaskOptions options = side_options(side, operations);
  options.stream = program_.stream(side.stream);
  return program_.collective(call, options);
}

void StageEmitter::host_waits_for(std::span<const TaskId> after, std::string_view label) {
  std::vector<MemoryOperation> operations;
  TaskOptions options = side_options({.stream = "host", .label = label, .after = after}, operations);
  options.stream = program_.stream("host");
  program_.host(Duration::zero(), options);
}

TaskId StageEmitter::side_copy(CopyDirection direction, Bytes bytes, const Side& side, bool blocks_host) {
  std::vector<MemoryOperation> operations;
  TaskOptions options = side_options(side, operations);
  options.stream = program_.stream(side.stream, false, true);
  options.blocks_host = blocks_host;
  return program_.copy({direction, bytes, true}, options);
}

void StageEmitter::step(const Step& step) {
  for (const MemoryOperation& operation : step.memory) line_.memory.push_back(operation);
  switch (step.kind) {
    case Step::Kind::kernel:
      kernel(step.kernel, step.phase);
      break;
    case Step::Kind::collective: {
      const TaskId task = collective(step.call, step.stream, step.phase, step.label, {}, false, step.issue);
      if (step.asynchronous) {
        line_.under_way.push_back({step.handle, task});
      } else {
        wait_for(task);
      }
      break;
    }
    case Step::Kind::exchange:
      launch_exchange(step);
      break;
    case Step::Kind::read:
      read_on_host(step);
      break;
    case Step::Kind::wait:
      wait_for_handle(step.handle);
      break;
    case Step::Kind::memory:
      break;
  }
}

void StageEmitter::launch_exchange(const Step& step) {
  const std::vector<TaskId> after = after_compute();
  const std::vector<MemoryOperation> operations = std::exchange(line_.memory, {});
  const RingExchange& exchange = step.exchange;
  TaskOptions options{.stream = program_.stream(step.stream + "_receive"),
                      .phase = step.phase,
                      .label = step.label,
                      .after = after,
                      .memory = operations,
                      .micro_batch = line_.micro_batch,
                      .layer = line_.layer,
                      .issue = step.issue};
  line_.under_way.push_back({step.handle, program_.receive({exchange.from, 0, exchange.bytes}, options)});
  options.stream = program_.stream(step.stream + "_send");
  options.memory = {};
  if (step.issue == Issue::opens_call) options.issue = Issue::within_call;
  line_.under_way.push_back({step.handle, program_.send({exchange.to, 0, exchange.bytes}, options)});
}

void StageEmitter::read_on_host(const Step& step) {
  const std::vector<TaskId> after = after_compute();
  program_.copy({CopyDirection::device_to_host, Bytes(4)}, {.stream = program_.stream("copy"),
                                                            .phase = step.phase,
                                                            .label = step.label,
                                                            .after = after,
                                                            .micro_batch = line_.micro_batch,
                                                            .layer = line_.layer,
                                                            .blocks_host = true});
}

void StageEmitter::wait_for_handle(std::int32_t handle) {
  std::vector<UnderWay> others;
  for (const UnderWay& each : line_.under_way) {
    if (each.handle == handle) {
      wait_for(each.task);
    } else {
      others.push_back(each);
    }
  }
  line_.under_way = std::move(others);
}

Program StageEmitter::finish() && {
  flush();
  if (!line_.memory.empty() || !line_.waits.empty()) {
    program_.host(Duration::zero(), {.stream = program_.stream("host"),
                                     .phase = Phase::other,
                                     .label = "end of step",
                                     .after = line_.waits,
                                     .memory = line_.memory});
  }
  return std::move(program_).freeze();
}

}  // namespace orrery
