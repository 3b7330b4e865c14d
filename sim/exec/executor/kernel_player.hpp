// Plays kernel sequences on GPUs, at most one sequence at a time on each.
//
// Two ways of playing. As long as no communication moves bytes through the GPU's memory, nothing can interfere, and
// what is left of a sequence is computed in one step (sequence_times.hpp): one event at its end. While bytes move, each
// kernel is, after its start-up, an activity that crosses the GPU's memory and shares it max-min with the flows of the
// communication: two events a kernel. SMs that communication holds are gone in both.
//
// When communication comes or goes in the middle of a sequence, the kernel in progress is carried over: what is left of
// its start-up in picoseconds, and what is left of the rest as a fraction.
//
// Rounding. The fraction is floor(left * 2^60 / whole), and back it is ceil(fraction * whole / 2^60): where `whole` is
// the same before and after, that is the identity, so cutting a sequence at an instant at which nothing changes does
// not move its end by a picosecond. Where bytes begin or cease to move, a kernel is cut to whole bytes, rounded up: one
// byte at the kernel's own rate. That rate is at least kLightShare of the memory's, or the kernel would not be a flow:
// 0.5 ns at 2 TB/s for the least demanding kernel, below 0.1 ns for most. A kernel that is played as a flow from start
// to end and meets no contention takes at most 2 ps longer than computed: its end is rounded up, and its cap was
// rounded down by less than 1/64 B/s.
//
// A sequence's duration varies by a factor (jitter), which scales the work and the time alone alike.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/exec/executor/sequence_times.hpp"
#include "sim/exec/machine.hpp"

namespace orrery {

// A factor in units of 2^-32.
using Scale = std::uint64_t;
inline constexpr Scale kUnscaled = Scale{1} << 32;

class KernelPlayer {
 public:
  // Timers and flows are scheduled for Owner::executor with the target given per GPU.
  KernelPlayer(Machine& machine, SequenceTable& table) : machine_(machine), table_(table) {}

  // GPUs are numbered in the order in which they are added.
  void add_gpu(GpuId gpu, std::uint32_t gpu_kind, std::uint32_t target);

  struct Conditions {
    int multiprocessors = 0;     // that kernels have to themselves
    bool shared_memory = false;  // communication moves bytes through this GPU's memory

    friend bool operator==(const Conditions&, const Conditions&) = default;
  };

  // Starts a sequence now, whose issuing begins at `host` (kernel i is launched at host + times.launched[i]).
  void start(std::size_t gpu, std::uint32_t sequence, Instant host, Scale scale, const Conditions& conditions);

  // Whether the sequence that was started has not begun to run, for want of its first launch.
  [[nodiscard]] bool waits_for_launch(std::size_t gpu) const {
    return running(gpu) && runs_[gpu].first_start > machine_.now();
  }

  // Takes such a sequence back, as if it had not been started. Returns how long it has waited.
  Duration withdraw(std::size_t gpu);

  // Plays on under other conditions. Does nothing when they have not changed or nothing is running.
  void adapt(std::size_t gpu, const Conditions& conditions);

  // The GPU's timer has gone off, or its flow has ended. True if the sequence has ended now.
  bool timer(std::size_t gpu);
  bool flow_completed(std::size_t gpu);

  [[nodiscard]] bool running(std::size_t gpu) const { return runs_[gpu].stage != Stage::idle; }
  [[nodiscard]] int multiprocessors(std::size_t gpu) const { return table_.multiprocessors(runs_[gpu].gpu_kind); }

  // Of the sequence that has just ended: how long no kernel ran, for want of launches.
  [[nodiscard]] Duration waited(std::size_t gpu) const { return machine_.now() - runs_[gpu].started - runs_[gpu].busy; }

  // The same from the start of its first kernel on.
  [[nodiscard]] Duration gaps(std::size_t gpu) const {
    return machine_.now() - runs_[gpu].first_start - runs_[gpu].busy;
  }

  // Of the sequence that has just ended: when the last of its kernels that had to wait for its launch was launched;
  // before the time of start() where none had to. O(kernels).
  [[nodiscard]] Instant late_launch(std::size_t gpu) const;

  // When the first kernel of the running or just ended sequence started: now or later at the time of start().
  [[nodiscard]] Instant first_start(std::size_t gpu) const { return runs_[gpu].first_start; }

 private:
  enum class Stage : std::uint8_t {
    idle,
    computed,  // the rest of the sequence; the timer shows its end
    starting,  // one kernel's launch and start-up; the timer shows their end
    timed,     // one light kernel after its start-up; the timer shows its end
    flowing,   // one kernel after its start-up, as a flow
  };
  static constexpr std::uint64_t kWhole = std::uint64_t{1} << 60;

  struct Run {
    const SequenceTimes* times = nullptr;
    Instant host{};
    Instant since{};    // when the present stage began; starting: when the kernel starts, maybe later than now
    Instant started{};  // when start() was called
    Instant first_start{};
    Instant late{};               // launch of the last kernel before `index` that had to wait for it
    Duration busy{};              // kernels' time before `since`
    Duration fixed_left{};        // of kernel `index`
    std::uint64_t rest = kWhole;  // of kernel `index` after its start-up
    Scale scale = kUnscaled;
    Bytes work{};  // flowing: what the flow was started with
    ActivityId flow;
    TimerId timer;
    GpuId gpu;
    std::uint32_t gpu_kind = 0;
    std::uint32_t sequence = 0;
    std::uint32_t index = 0;  // the first kernel that has not ended
    std::uint32_t target = 0;
    Stage stage = Stage::idle;
    bool begun = false;  // kernel `index` has been started
    bool shared_memory = false;
  };

  [[nodiscard]] Instant launched(const Run& run, std::uint32_t index) const {
    return run.host + run.times->launched[index];
  }
  void use(Run& run, const Conditions& conditions);
  void next_kernel(Run& run) const;
  bool proceed(Run& run);
  bool step(Run& run);
  void run_part(Run& run);
  [[nodiscard]] Instant computed_end(const Run& run) const;
  void interrupt(Run& run);
  void interrupt_computed(Run& run) const;
  void interrupt_flow(Run& run);

  Machine& machine_;
  SequenceTable& table_;
  std::vector<Run> runs_;
};

}  // namespace orrery
