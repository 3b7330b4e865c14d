// What one kernel costs on one kind of GPU: a roofline whose roof has steps.
//
// A kernel starts up (`fixed`), then needs two things at once: SMs for its arithmetic, and HBM bandwidth for its bytes.
// Whichever lasts longer decides. Communication on the same GPU takes SMs and bandwidth away, so both are functions of
// what is left:
//
//   time = fixed + max(compute(SMs left), bytes / bandwidth left)
//
// The executor plays the second part out as one activity: `bytes` of work that cross the GPU's memory, at no more than
// rate_cap(SMs left). Slowdown by overlap then emerges from sharing.
//
// GEMM. [m, k] x [k, n] is cut into tiles a x b; split-k cuts k into s parts whose partial sums are added afterwards:
//
//   tiles = batch ceil(m/a) ceil(n/b) s,   w = tiles / SMs,   waves = max(1, w + q (ceil(w) - w))
//   tile  = 2ab (ceil(k/s) + k0) / (rate peak / all SMs) x (1 + c/h) / (1 + c/h0),   h = ab/(a+b), h0 that of 256 x 128
//   compute = waves x tile + [s > 1] 4smn / bandwidth
//
// and the (a, b, s) of least time on the whole GPU is taken, as the library's heuristic picks a kernel before it knows
// how many SMs communication will leave. k0: prologue and epilogue of a tile; c/h: loads per FLOP of small tiles; q: a
// partly filled last wave costs less than a full one, since clocks and caches favour the SMs that still work.
// Rows that are no multiple of 16 bytes lower the rate (KernelConstants::gemm_half_aligned_rate and the next two).
//
// Attention (flash). Work is cut into blocks of 128 queries (backward: keys) that pass over all keys (queries); blocks
// divide over SMs freely, since they are many or of different length. A block's start and end are worth r0 keys, a
// causal block computes the half of its last 128 x 128 square that the mask removes, and the kernel ends with a tail,
// `tail` times the longest block, during which SMs run dry:
//
//   work    = flops (1 + (r0 + [causal] 64) / keys),   keys: mean number that a query sees
//   compute = (work / SMs left + tail x block) / (rate peak / all SMs x (1 + d0/128) / (1 + d0/d)),   d: head dimension
//
// Memory-bound kinds: bytes / (memory_rate x bandwidth), however many SMs there are down to half, then in proportion.
//
// Cost: O(tile shapes) to build, O(1) to ask. No transcendental functions: bit-identical everywhere.
// Left out: operand layouts (two layouts of one shape differ by 7 % on A100, 14 % on B200), L2 misses that make a GEMM
// read operands more than once, temperature.
#pragma once

#include "sim/base/units.hpp"
#include "sim/graph/kernel.hpp"
#include "topology/gpu.hpp"

namespace orrery {

// The cost of one kernel on one GPU kind, computed once per kernel and asked per run of it. A plain value.
class KernelCost {
 public:
  // Start-up that neither SMs nor bandwidth shorten; at least the GPU's kernel gap.
  [[nodiscard]] Duration fixed() const { return fixed_; }

  // Traffic with HBM; at least one byte, so that every kernel can be played as an activity on the memory.
  [[nodiscard]] Bytes bytes() const { return bytes_; }

  // How long the kernel occupies `multiprocessors` SMs (1 .. the GPU's) after start-up, were memory not shared with
  // anybody. At least 1 ps; never shorter with fewer SMs.
  [[nodiscard]] Duration compute(int multiprocessors) const;

  // The most bandwidth that the kernel asks for on that many SMs: bytes / compute time.
  [[nodiscard]] BytesPerSecond rate_cap(int multiprocessors) const;

  // From start to end with that many SMs and that much memory bandwidth to itself.
  [[nodiscard]] Duration alone(int multiprocessors, BytesPerSecond memory_bandwidth) const;

  // What the formulas above come to (seconds). For explanations and tests.
  struct Parts {
    std::int64_t tiles = 0;             // equal pieces that are dealt to SMs in waves
    double tile = 0;                    // of one of them on one SM
    double last_wave = 0;               // q
    double divisible = 0;               // work that divides freely, on one SM
    double serial = 0;                  // tail that does not divide
    double streaming = 0;               // loads and stores at this kernel's best, with all SMs
    int streaming_multiprocessors = 1;  // SMs that suffice for that
  };
  [[nodiscard]] const Parts& parts() const { return parts_; }

 private:
  friend KernelCost kernel_cost(const Kernel& kernel, const GpuSpec& gpu);
  KernelCost(Duration fixed, Bytes bytes, const Parts& parts) : fixed_(fixed), bytes_(bytes), parts_(parts) {}

  Duration fixed_;
  Bytes bytes_;
  Parts parts_;
};

// True if the GPU has a rate for this kernel's arithmetic: the peak of its precision for GEMM and attention.
[[nodiscard]] bool can_run(const Kernel& kernel, const GpuSpec& gpu);

// The cost of `kernel` on `gpu`. Requires can_run(), and shapes of at least one element.
[[nodiscard]] KernelCost kernel_cost(const Kernel& kernel, const GpuSpec& gpu);

// From start to end on an idle GPU.
[[nodiscard]] Duration time_alone(const Kernel& kernel, const GpuSpec& gpu);

}  // namespace orrery
