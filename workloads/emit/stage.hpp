// What one pipeline stage is, and the emitter that writes its program.
//
// The emitter gathers kernels until something must come between them (a collective, a dependency, another block), and
// then makes one task of them. Strategies and schedules speak to it in terms of "after what has been computed so far"
// and "before what is computed next", which is how frameworks order streams (record and wait for events); task ids stay
// in here.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph/program.hpp"
#include "workloads/emit/layout.hpp"
#include "workloads/operators/block.hpp"
#include "workloads/operators/shape.hpp"

namespace orrery {

// One block of a stage: a layer, the embedding or the head.
struct Unit {
  const Block* block = nullptr;
  std::int32_t layer = -1;          // in the whole model; -1: not a layer
  std::int32_t chunk = 0;           // of the stage
  std::size_t first_parameter = 0;  // index of its first parameter in the stage's list
  // A parameter of another unit that it uses too (the head the table that it shares with the embedding); -1: none.
  std::int64_t borrowed = -1;
  bool reuses = false;  // its parameters are those of a unit before it, which announces their gradients
};

// Model chunks, units and parameters of one stage, in forward order.
struct Stage {
  std::int64_t index = 0;
  std::int64_t stages = 1;
  std::int64_t chunks = 1;
  std::vector<StageChunk> places;  // [chunks]
  // [chunks] Whether a chunk's backward pass is handed a gradient, and hands one on. Empty: all do.
  std::vector<bool> gradients_in;
  std::vector<bool> gradients_out;
  std::vector<Unit> units;
  std::vector<ParameterTensor> parameters;
  std::vector<std::int32_t> chunk_of_parameter;

  // Whether it holds the first virtual stage (tokens and embedding), and the last (head and loss).
  [[nodiscard]] bool first() const;
  [[nodiscard]] bool last() const;
  [[nodiscard]] std::int64_t elements() const;
  // What the weights take where each rank holds them whole.
  [[nodiscard]] std::int64_t weight_bytes(std::int64_t bytes_per_element) const;
  // Of what is trained.
  [[nodiscard]] std::int64_t trained_elements() const;
  [[nodiscard]] std::int64_t trained_tensors() const;
};

class StageEmitter {
 public:
  StageEmitter();

  // What the following tasks are labelled with.
  void at(std::string_view label, std::int32_t micro_batch, std::int32_t layer);

  // Adds to the kernels under way.
  void kernel(KernelId id, Phase phase);
  void kernels(const KernelSequence& sequence, Phase phase);
  // Adds a memory operation in program order.
  void memory(MemoryOperation operation);
  // The kernels that follow wait for `task`; ones under way do not.
  void wait_for(TaskId task);
  // Ends the task under way. Returns the last task of the compute stream (invalid where there is none yet).
  TaskId flush();

  // A collective on its group's stream, after all that has been computed so far.
  TaskId collective(const CollectiveCall& call, std::string_view stream, Phase phase, std::string_view label,
                    std::span<const MemoryOperation> memory = {}, bool blocks_host = false, Issue issue = Issue::alone);

  // Tasks beside the compute stream, after `after` alone. Side kernels are urgent (Stream::urgent). Memory operations
  // that are still to be carried go with them, first.
  struct Side {
    std::string_view stream;
    Phase phase = Phase::other;
    std::string_view label;
    std::span<const TaskId> after = {};
    std::span<const MemoryOperation> memory = {};
  };
  TaskId side_kernels(const KernelSequence& sequence, const Side& side);
  TaskId side_collective(const CollectiveCall& call, const Side& side);
  // Of state that is kept off the GPU. Pass `blocks_host` where the host thread does it itself, or waits for it.
  TaskId side_copy(CopyDirection direction, Bytes bytes, const Side& side, bool blocks_host = false);
  // The host goes on when `after` have ended (cudaEventSynchronize).
  void host_waits_for(std::span<const TaskId> after, std::string_view label);

  void step(const Step& step);

  // Two passes beside each other, in turns on the one compute stream: each has its own label, waits, memory operations
  // and communication under way, and what comes "after what has been computed so far" comes after its own. begin_pair
  // leaves the first of them, end_pair comes after both.
  void begin_pair();
  void other_of_pair();
  void end_pair();

  [[nodiscard]] ProgramBuilder& program() { return program_; }
  // Everything a task outside the compute stream must wait for to come after what has been computed so far.
  [[nodiscard]] std::vector<TaskId> after_compute();
  [[nodiscard]] std::int32_t micro_batch() const { return line_.micro_batch; }
  [[nodiscard]] std::int32_t layer() const { return line_.layer; }

  // Ends the program: what memory operations are left go with a last task of the host.
  [[nodiscard]] Program finish() &&;

 private:
  TaskOptions side_options(const Side& side, std::vector<MemoryOperation>& operations);
  void launch_exchange(const Step& step);
  void read_on_host(const Step& step);
  void wait_for_handle(std::int32_t handle);

  // Communication that compute has not waited for, and the handle to wait for it by.
  struct UnderWay {
    std::int32_t handle = 0;
    TaskId task;
  };
  // What belongs to one line of work.
  struct Line {
    TaskId last_compute;
    std::vector<UnderWay> under_way;
    std::vector<MemoryOperation> memory;
    std::vector<TaskId> waits;  // of the task under way, or of the next one
    std::string label;
    std::int32_t micro_batch = -1;
    std::int32_t layer = -1;
  };

  ProgramBuilder program_;
  StreamId compute_;
  KernelSequence sequence_;
  Phase phase_ = Phase::other;
  Line line_;
  Line other_;  // of a pair
};

}  // namespace orrery
