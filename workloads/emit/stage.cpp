#include "workloads/emit/stage.hpp"

#include <algorithm>
#include <utility>

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

StageEmitter::StageEmitter() : compute_(program_.stream("compute", true)) {}

void StageEmitter::at(std::string_view label, std::int32_t micro_batch, std::int32_t layer) {
  flush();
  label_ = label;
  micro_batch_ = micro_batch;
  layer_ = layer;
}

void StageEmitter::kernel(KernelId id, Phase phase) {
  if (phase != phase_ && !sequence_.empty()) flush();
  phase_ = phase;
  sequence_.push_back(id);
}

void StageEmitter::kernels(const KernelSequence& sequence, Phase phase) {
  for (const KernelId id : sequence) kernel(id, phase);
}

void StageEmitter::memory(MemoryOperation operation) { memory_.push_back(operation); }

void StageEmitter::wait_for(TaskId task) {
  if (!task.valid()) return;
  flush();
  waits_.push_back(task);
}

TaskId StageEmitter::flush() {
  if (sequence_.empty()) return last_compute_;
  last_compute_ = program_.kernels(std::move(sequence_), {.stream = compute_,
                                                          .phase = phase_,
                                                          .label = label_,
                                                          .after = waits_,
                                                          .memory = memory_,
                                                          .micro_batch = micro_batch_,
                                                          .layer = layer_});
  sequence_.clear();
  waits_.clear();
  memory_.clear();
  return last_compute_;
}

std::vector<TaskId> StageEmitter::after_compute() {
  std::vector<TaskId> after = waits_;
  const TaskId last = flush();
  if (waits_.empty()) after.clear();
  if (last.valid()) after.push_back(last);
  return after;
}

TaskId StageEmitter::collective(const CollectiveCall& call, std::string_view stream, Phase phase,
                                std::string_view label, std::span<const MemoryOperation> memory, bool blocks_host) {
  const std::vector<TaskId> after = after_compute();
  std::vector<MemoryOperation> operations = std::exchange(memory_, {});
  operations.insert(operations.end(), memory.begin(), memory.end());
  return program_.collective(call, {.stream = program_.stream(stream),
                                    .phase = phase,
                                    .label = label,
                                    .after = after,
                                    .memory = operations,
                                    .micro_batch = micro_batch_,
                                    .layer = layer_,
                                    .blocks_host = blocks_host});
}

TaskOptions StageEmitter::side_options(const Side& side, std::vector<MemoryOperation>& operations) {
  flush();
  operations = std::exchange(memory_, {});
  operations.insert(operations.end(), side.memory.begin(), side.memory.end());
  return {.stream = {},
          .phase = side.phase,
          .label = side.label,
          .after = side.after,
          .memory = operations,
          .micro_batch = micro_batch_,
          .layer = layer_};
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

void StageEmitter::one_step(const Step& step) {
  for (const MemoryOperation& operation : step.memory) memory_.push_back(operation);
  switch (step.kind) {
    case Step::Kind::kernel:
      kernel(step.kernel, step.phase);
      break;
    case Step::Kind::collective: {
      const TaskId task = collective(step.call, step.stream, step.phase, step.label);
      if (step.asynchronous) {
        under_way_.push_back({step.handle, task});
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
  const std::vector<MemoryOperation> operations = std::exchange(memory_, {});
  const RingExchange& exchange = step.exchange;
  TaskOptions options{.stream = program_.stream(step.stream + "_receive"),
                      .phase = step.phase,
                      .label = step.label,
                      .after = after,
                      .memory = operations,
                      .micro_batch = micro_batch_,
                      .layer = layer_};
  under_way_.push_back({step.handle, program_.receive({exchange.from, 0, exchange.bytes}, options)});
  options.stream = program_.stream(step.stream + "_send");
  options.memory = {};
  under_way_.push_back({step.handle, program_.send({exchange.to, 0, exchange.bytes}, options)});
}

void StageEmitter::read_on_host(const Step& step) {
  const std::vector<TaskId> after = after_compute();
  program_.copy({CopyDirection::device_to_host, Bytes(4)}, {.stream = program_.stream("copy"),
                                                            .phase = step.phase,
                                                            .label = step.label,
                                                            .after = after,
                                                            .micro_batch = micro_batch_,
                                                            .layer = layer_,
                                                            .blocks_host = true});
}

void StageEmitter::wait_for_handle(std::int32_t handle) {
  std::vector<UnderWay> others;
  for (const UnderWay& each : under_way_) {
    if (each.handle == handle) {
      wait_for(each.task);
    } else {
      others.push_back(each);
    }
  }
  under_way_ = std::move(others);
}

Program StageEmitter::finish() && {
  flush();
  if (!memory_.empty() || !waits_.empty()) {
    program_.host(Duration::zero(), {.stream = program_.stream("host"),
                                     .phase = Phase::other,
                                     .label = "end of step",
                                     .after = waits_,
                                     .memory = memory_});
  }
  return std::move(program_).freeze();
}

}  // namespace orrery
