// The memory of a role, played through once.
//
// Memory operations take effect in program order, when the host issues the task that carries them. That order is the
// same for all ranks of a role, and so are all sizes: the course of allocated bytes over tasks, its peak, and what the
// peak consists of are facts of the program. Only the moment at which a rank's host reaches a task is the rank's own.
//
// Sizes are those that PyTorch's CUDA caching allocator hands out (c10/cuda/CUDACachingAllocator.cpp; its numbers are
// documented under "Memory management" in PyTorch's CUDA notes and in that file's head comment):
//  - every request is rounded up to 512 bytes;
//  - requests up to 1 MiB come from segments of 2 MiB, those below 10 MiB from segments of 20 MiB, and are cut from
//    them to size;
//  - larger ones get a segment of their own, a multiple of 2 MiB, and the remainder is cut off only if it is larger
//    than 1 MiB; otherwise it belongs to the block.
// This is what torch.cuda.max_memory_allocated counts. Left out: what lies idle between blocks (fragmentation of
// segments); under pressure the allocator gives whole free segments back, so the peak here is the least that a run
// needs, and a run at the edge of memory may fail where this one fits.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "sim/graph/program.hpp"

namespace orrery {

// What a request of `bytes` (not negative) occupies.
[[nodiscard]] Bytes allocated_size(Bytes bytes);

// The course of a program's memory.
class MemoryLedger {
 public:
  explicit MemoryLedger(const Program& program);

  [[nodiscard]] Bytes resident() const { return resident_; }  // before the step
  [[nodiscard]] Bytes peak() const { return peak_; }
  [[nodiscard]] const std::array<Bytes, kMemoryTags>& peak_by_tag() const { return peak_by_tag_; }
  // The task that reaches the peak first; invalid: reached before the step.
  [[nodiscard]] TaskId peak_task() const { return peak_task_; }

  // The tasks that change what is allocated, in program order. A task may need more while it is issued than it leaves
  // behind: the largest of all `highest` and of resident() is peak().
  struct Step {
    std::uint32_t task = 0;
    Bytes highest{};    // after any of the task's operations
    Bytes allocated{};  // after all of them
  };
  [[nodiscard]] const std::vector<Step>& steps() const { return steps_; }

 private:
  void apply(const MemoryOperation& operation);
  void note_peak(TaskId task);

  std::array<Bytes, kMemoryTags> by_tag_{};
  Bytes allocated_{};
  Bytes resident_{};
  Bytes peak_{};
  std::array<Bytes, kMemoryTags> peak_by_tag_{};
  TaskId peak_task_;
  std::vector<Step> steps_;
};

}  // namespace orrery
