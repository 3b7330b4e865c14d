// What the simulator knows about one kind of GPU: spec-sheet figures, and efficiency constants fitted on published
// microbenchmarks. Values come from topology/catalog/gpus/*.yaml or inline from a scenario.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/kernel_kind.hpp"
#include "sim/base/precision.hpp"
#include "sim/base/units.hpp"

namespace orrery {

// Who wrote a fused attention kernel decides more than the GPU. "auto" is the library that the GPU's own constants are
// of.
inline constexpr std::array<std::string_view, 5> kAttentionLibraries{"auto", "cudnn", "flash-2", "flash-3", "triton"};

// The figures of one library where it is not the GPU's own (KernelConstants has the same by those names).
struct AttentionLibrary {
  std::string name;
  double forward_rate = 0;
  double backward_rate = 0;
  double head_overhead = 0;
  double depth_overhead = 0;
  double forward_tail = 0;
  double backward_tail = 0;

  friend bool operator==(const AttentionLibrary&, const AttentionLibrary&) = default;
};

// How well kernels use a GPU. The defaults are those of a GPU that nobody has measured (the run then says so): rounded
// means over the fitted GPUs. The formulas that use them are in sim/exec/kernel_time.hpp, the fits in
// sim/design/0003-kernel-times.md. All rates are of the nominal figure, with the clock that the GPU sustains under its
// power limit: throttling is part of the constant.
struct KernelConstants {
  bool measured = false;  // false: defaults, or taken over from a related GPU
  std::string source;     // what the constants were fitted on

  // GEMM. Fraction of peak that all SMs reach on large tiles (256 x 128) of great depth, by precision; in (0, 1].
  std::array<double, kPrecisions> gemm_rate{0.8, 0.75, 0.75, 0.77, 0.7};
  double gemm_tile_overhead = 60;    // elements; a tile with harmonic size h = ab/(a+b) costs 1 + this / h
  double gemm_depth_overhead = 150;  // elements of k that prologue and epilogue of a tile are worth
  double gemm_last_wave = 0.3;       // how far a partly filled wave costs a whole one: 0 not at all, 1 fully
  // Of the aligned rate: rows that are a multiple of 8 bytes but not of 16; of less; and, whichever it is, in batched
  // products at most the third (0.06 up to cuBLAS 11.6, which leaves the tensor cores there; 1: no further loss).
  double gemm_half_aligned_rate = 0.7;
  double gemm_misaligned_rate = 0.45;
  double gemm_misaligned_batched_rate = 1;
  Duration gemm_fixed{3'000'000};  // start-up and tear-down

  // Fused attention. Fraction of peak on long sequences at head dimension 128, per direction; in (0, 1].
  std::string attention_library;  // whose; empty: nobody has measured it
  double attention_forward_rate = 0.6;
  double attention_backward_rate = 0.48;
  double attention_head_overhead = 25;    // elements of head dimension that the softmax of one score is worth
  double attention_depth_overhead = 120;  // keys (backward: queries) that start and end of a block are worth
  // With how much of its longest block (128 queries by all keys; backward: 128 keys by all queries) an attention kernel
  // ends, other SMs being idle.
  double attention_forward_tail = 0.9;
  double attention_backward_tail = 0.3;
  Duration attention_fixed{10'000'000};
  std::vector<AttentionLibrary> attention_libraries;  // the others

  // Takes the figures of another library. False if it has none of them.
  bool use_attention_library(std::string_view library);

  // Memory-bound kernels: fraction of nominal memory bandwidth that a kernel reaches on its least bytes, by kind (of a
  // GEMM and attention: the most that their loads reach); in (0, 1].
  std::array<double, kKernelKinds> memory_rate{0.8, 0.8, 0.8, 0.55, 0.25, 0.62, 0.75, 0.3, 0.85, 0.85};
  double memory_ceiling = 0.9;       // of nominal bandwidth, that all traffic together can reach
  Duration memory_fixed{4'000'000};  // start-up of a memory-bound kernel

  // The shortest time from one kernel's start to the next's on a busy stream; no kernel's fixed time is less.
  Duration kernel_gap{1'500'000};

  friend bool operator==(const KernelConstants&, const KernelConstants&) = default;
};

struct GpuSpec {
  std::string name;
  std::array<FlopsPerSecond, kPrecisions> peak{};  // dense; zero: the GPU does not compute in this precision
  FlopsPerSecond vector_peak{};                    // fp32 outside the tensor cores
  Bytes memory{};                                  // what the driver shows as total
  BytesPerSecond memory_bandwidth{};               // nominal
  int multiprocessors = 0;
  bool nvlink_sharp = false;  // can have an NVSwitch reduce and multicast for it (NVLink SHARP; NCCL: NVLS)
  Watts power_max{};          // board limit
  Watts power_idle{};         // powered up, context open, no kernels
  KernelConstants kernels;

  [[nodiscard]] FlopsPerSecond peak_of(Precision p) const { return peak[static_cast<std::size_t>(p)]; }

  // What kernels and communication together can draw from memory: the capacity of the GPU's memory as a shared
  // resource.
  [[nodiscard]] BytesPerSecond usable_memory_bandwidth() const {
    return BytesPerSecond(memory_bandwidth.count() * kernels.memory_ceiling);
  }

  friend bool operator==(const GpuSpec&, const GpuSpec&) = default;
};

}  // namespace orrery
