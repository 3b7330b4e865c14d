// What the simulator knows about one kind of GPU: spec-sheet figures, and efficiency constants fitted on published
// microbenchmarks. Values come from topology/catalog/gpus/*.yaml or inline from a scenario.
#pragma once

#include <array>
#include <string>

#include "sim/base/kernel_kind.hpp"
#include "sim/base/precision.hpp"
#include "sim/base/units.hpp"

namespace orrery {

// How well kernels use a GPU. Defaults are those of a GPU nobody has measured (the run then says so): they are the
// rounded means over the fitted GPUs; see sim/design/0003-kernel-times.md for the fits.
struct KernelConstants {
  bool measured = false;  // false: defaults, or taken over from a related GPU
  std::string source;     // what the constants were fitted on

  // GEMM (see sim/exec/kernel_time.hpp for the form): fraction of peak that one SM reaches in the inner loop of a large
  // tile, tile-size overhead (elements), inner-dimension overhead (elements), smoothing of the last wave in [0, 1].
  double gemm_rate = 0.8;
  double gemm_tile_overhead = 20;
  double gemm_depth_overhead = 128;
  double gemm_last_wave = 0.6;
  Duration gemm_fixed{5'000'000};

  // Fused attention: fraction of peak (of the FLOPs really done) and a fixed time, per direction.
  double attention_forward_rate = 0.55;
  double attention_backward_rate = 0.42;
  Duration attention_forward_fixed{50'000'000};
  Duration attention_backward_fixed{50'000'000};

  // Memory-bound kernels: fraction of nominal memory bandwidth reached on the least bytes, by kind.
  std::array<double, kKernelKinds> memory_rate{0.85, 0.85, 0.85, 0.55, 0.22, 0.6, 0.75, 0.6, 0.5, 0.8};

  // The shortest time from one kernel's start to the next's on a busy stream.
  Duration kernel_gap{1'500'000};
};

struct GpuSpec {
  std::string name;
  std::array<FlopsPerSecond, kPrecisions> peak{};  // dense; zero: the GPU does not compute in this precision
  FlopsPerSecond vector_peak{};                    // fp32 outside the tensor cores
  Bytes memory{};
  BytesPerSecond memory_bandwidth{};  // nominal
  int multiprocessors = 0;
  Watts power_max{};
  Watts power_idle{};
  KernelConstants kernels;

  [[nodiscard]] FlopsPerSecond peak_of(Precision p) const { return peak[static_cast<std::size_t>(p)]; }
};

}  // namespace orrery
