// How long kernel sequences take on a kind of GPU, worked out once and looked up from then on.
//
// With launches at host + L(i) (i: index in the sequence) and durations d(i), a sequence that starts at s plays out as
//
//   start(i) = max(end(i-1), host + L(i)),   end(i) = start(i) + d(i),   end(-1) = s.
//
// This is linear in (max, +). With prefix sums D(i) = d(0) + ... + d(i-1) and
//
//   bound(j) = max over i >= j of L(i) - D(i),
//
// kernels j .. n-1 that may begin at s end at
//
//   D(n) + max(s - D(j), host + bound(j)),
//
// without looking at one of them: a sequence costs one event, whether its launches are ahead of it or not. All in
// integers, so a sequence cut in two pieces takes exactly as long as the whole. Sums are cut at kTooLong: a sequence
// that long ends the run.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/exec/executor/play_program.hpp"
#include "sim/exec/kernel_time.hpp"
#include "sim/fluid/rate.hpp"
#include "sim/graph/workload.hpp"

namespace orrery {

// One kernel of a sequence, as an activity of its own.
struct KernelPart {
  Duration fixed{};    // start-up
  Bytes work{};        // traffic with memory ...
  Rate cap{};          // ... at no more than this
  bool light = false;  // asks for so little memory bandwidth that sharing cannot slow it down: see kLightShare
};

// A sequence on a GPU kind with a number of SMs to itself.
struct SequenceTimes {
  int multiprocessors = 0;
  std::vector<Duration> until;         // [kernels + 1] D: prefix sums of the kernels' times alone
  std::vector<Duration> launched;      // [kernels] L(i)
  std::vector<Duration> launch_bound;  // [kernels] bound(j)
  std::vector<KernelPart> parts;       // [kernels]

  [[nodiscard]] std::uint32_t kernels() const { return static_cast<std::uint32_t>(parts.size()); }
};

// A kernel that asks for less than this share of the memory's bandwidth is played as time, not as a flow. Max-min
// sharing gives every flow that asks for less than capacity / (flows' counts) what it asks for, so such a kernel is
// never slowed down while fewer than that many are there; what it takes from others (a thousandth) is left out.
inline constexpr double kLightShare = 1.0 / 1024;

class SequenceTable {
 public:
  SequenceTable(const Workload& workload, const HostCosts& costs);

  // A kind of GPU: a spec, slowed down by a factor on compute and memory rates. Equal ones are one kind.
  std::uint32_t gpu_kind(const GpuSpec& spec, double factor);

  // The first sequence of a role's program in the numbering through all programs.
  [[nodiscard]] std::uint32_t first_sequence(RoleId role) const { return first_sequence_[role.index()]; }

  // O(1) after the first time. The reference stays valid as long as the table.
  const SequenceTimes& times(std::uint32_t gpu_kind, std::uint32_t sequence, int multiprocessors);

  [[nodiscard]] int multiprocessors(std::uint32_t gpu_kind) const { return kinds_[gpu_kind]->gpu.multiprocessors; }

 private:
  struct Kind {
    const GpuSpec* spec = nullptr;
    double factor = 1;
    GpuSpec gpu;                        // scaled
    std::vector<std::int32_t> cost_of;  // [kernels] index in costs; -1 until asked for
    std::vector<KernelCost> costs;
    std::vector<std::vector<std::unique_ptr<SequenceTimes>>> by_sequence;  // [sequences][numbers of SMs met]
  };

  const KernelCost& cost(Kind& kind, KernelId kernel);
  std::unique_ptr<SequenceTimes> make(Kind& kind, const KernelSequence& sequence, int multiprocessors);

  const Workload& workload_;
  HostCosts costs_;
  std::vector<std::uint32_t> first_sequence_;     // [roles]
  std::vector<const KernelSequence*> sequences_;  // through all programs
  std::vector<std::unique_ptr<Kind>> kinds_;
};

}  // namespace orrery
