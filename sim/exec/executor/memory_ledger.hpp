// The memory of a role, played through once.
//
// Memory operations take effect in program order: the allocator works at the pace of the host, and hands a block that
// has been given back to whatever is issued next on the stream, long before the GPU gets there. That order is the same
// for all ranks of a role, and so are all sizes: the course of allocated bytes over tasks, its peak, and what the peak
// consists of are facts of the program.
//
// When it happens is told by the GPU's clock, not by the host's, which may be many seconds ahead: what a task takes is
// held from its begin on the GPU, what it gives back until its end, and never earlier than what comes before it in the
// program. So activations fall when the backward pass runs.
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

  // The first task that needs more than `limit`; invalid: none does, or what is resident does already.
  [[nodiscard]] TaskId first_beyond(Bytes limit) const;

  // The tasks that change what is allocated, in program order. A task may need more while it runs than it leaves
  // behind: the largest of all `highest` and of resident() is peak().
  struct Step {
    std::uint32_t task = 0;
    Bytes highest{};     // after any of the task's operations
    Bytes allocated{};   // after all of them
    bool rises = false;  // the task takes memory at its begin: `highest` is more than what was allocated before
    bool falls = false;  // and gives some back at its end
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
