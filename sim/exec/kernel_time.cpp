#include "sim/exec/kernel_time.hpp"

#include <algorithm>
#include <array>
#include <limits>

#include "sim/base/check.hpp"

namespace orrery {

namespace {

struct TileShape {
  std::int64_t rows;
  std::int64_t columns;
};

// The tile shapes of the GEMM kernels that cuBLAS and CUTLASS ship for tensor cores, largest first: ties go to the
// larger tile.
constexpr std::array<TileShape, 8> kTileShapes{
    {{256, 128}, {128, 256}, {128, 128}, {256, 64}, {64, 256}, {128, 64}, {64, 128}, {64, 64}}};
constexpr std::array<std::int64_t, 4> kSplits{1, 2, 4, 8};

// Rows of this many bytes or a multiple can be loaded by the tensor cores' vector loads (cuBLAS documentation, "Tensor
// Core Usage": for best performance, 16-byte alignment of every operand and leading dimension).
constexpr std::int64_t kAlignedRow = 16;

// Queries (backward: keys) that one block of a flash attention kernel works on (flash-attention, head dimensions to
// 128).
constexpr std::int64_t kAttentionBlock = 128;

// Head dimension at which the attention rates are stated.
constexpr double kTypicalHead = 128;

// Share of the SMs that can keep HBM busy. By Little's law an A100 needs 571 ns x 1.75 TB/s = 1.0 MB in flight for it,
// 9.3 KB per SM, while 2,048 threads with one 16-byte load each would have 32 KB; half of the SMs leave a margin
// of 1.7.
constexpr double kStreamingShare = 0.5;

double harmonic_size(const TileShape& tile) {
  return static_cast<double>(tile.rows * tile.columns) / static_cast<double>(tile.rows + tile.columns);
}

// Waves that `tiles` tiles take on `multiprocessors` SMs, with a last wave that may cost less than a full one.
double waves(std::int64_t tiles, int multiprocessors, double last_wave) {
  const double full = static_cast<double>(tiles) / multiprocessors;
  const auto whole = static_cast<double>(divide_up(tiles, multiprocessors));
  return std::max(1.0, full + last_wave * (whole - full));
}

// The greatest power of two that divides n, at most 64.
std::int64_t power_of_two_in(std::int64_t n) {
  std::int64_t power = 1;
  while (power < 64 && n % (2 * power) == 0) power *= 2;
  return power;
}

// What rows of that many bytes leave of the rate of aligned ones.
double alignment_factor(const Kernel& kernel, const KernelConstants& constants) {
  const std::int64_t multiple =
      kernel.row_multiple > 0 ? kernel.row_multiple : std::min(power_of_two_in(kernel.n), power_of_two_in(kernel.k));
  const std::int64_t bytes = multiple * bytes_per_element(kernel.precision);
  if (bytes % kAlignedRow == 0) return 1;
  const double factor =
      bytes % (kAlignedRow / 2) == 0 ? constants.gemm_half_aligned_rate : constants.gemm_misaligned_rate;
  return kernel.batch > 1 ? std::min(factor, constants.gemm_misaligned_batched_rate) : factor;
}

// FLOP/s of one SM at the GEMM rate, for rows aligned as this kernel's are.
double gemm_rate_per_multiprocessor(const Kernel& kernel, const GpuSpec& gpu) {
  const double rate =
      gpu.peak_of(kernel.precision).count() * gpu.kernels.gemm_rate[static_cast<std::size_t>(kernel.precision)];
  return rate * alignment_factor(kernel, gpu.kernels) / gpu.multiprocessors;
}

// Tiles, time per tile and reduction of the fastest way to cut a GEMM on the whole GPU.
void add_gemm(const Kernel& kernel, const GpuSpec& gpu, KernelCost::Parts& parts) {
  const KernelConstants& constants = gpu.kernels;
  const double rate = gemm_rate_per_multiprocessor(kernel, gpu);
  const double best_overhead = 1 + constants.gemm_tile_overhead / harmonic_size(kTileShapes[0]);
  parts.last_wave = constants.gemm_last_wave;
  double least = std::numeric_limits<double>::infinity();
  for (const TileShape& shape : kTileShapes) {
    const std::int64_t blocks = kernel.batch * divide_up(kernel.m, shape.rows) * divide_up(kernel.n, shape.columns);
    const double overhead = (1 + constants.gemm_tile_overhead / harmonic_size(shape)) / best_overhead;
    for (const std::int64_t split : kSplits) {
      const double depth = static_cast<double>(divide_up(kernel.k, split)) + constants.gemm_depth_overhead;
      const double tile = 2.0 * static_cast<double>(shape.rows * shape.columns) * depth * overhead / rate;
      const double outputs = static_cast<double>(kernel.batch * kernel.m) * static_cast<double>(kernel.n);
      const double reduction =
          split == 1 ? 0 : 4.0 * static_cast<double>(split) * outputs / gpu.memory_bandwidth.count();
      const double time = waves(blocks * split, gpu.multiprocessors, constants.gemm_last_wave) * tile + reduction;
      if (time >= least) continue;
      least = time;
      parts.tiles = blocks * split;
      parts.tile = tile;
      parts.serial = reduction;
    }
  }
}

// Blocks that divide over the SMs, and the tail of one block that does not.
void add_attention(const Kernel& kernel, const GpuSpec& gpu, KernelCost::Parts& parts) {
  const KernelConstants& constants = gpu.kernels;
  const bool forward = kernel.kind == KernelKind::attention_forward;
  const std::int64_t rows = forward ? kernel.m : kernel.n;   // that are dealt to blocks
  const std::int64_t depth = forward ? kernel.n : kernel.m;  // that every block passes over
  const double head_overhead = constants.attention_head_overhead;
  const double rate = (forward ? constants.attention_forward_rate : constants.attention_backward_rate) *
                      gpu.peak_of(kernel.precision).count() / gpu.multiprocessors * (1 + head_overhead / kTypicalHead) /
                      (1 + head_overhead / static_cast<double>(kernel.k));
  const double mean_depth = static_cast<double>(depth) / (kernel.causal ? 2 : 1);
  const double extra = constants.attention_depth_overhead + (kernel.causal ? kAttentionBlock / 2.0 : 0.0);
  const double square = kernel.flops.count() * (kernel.causal ? 2 : 1) / static_cast<double>(kernel.batch);
  const double block = square / static_cast<double>(divide_up(rows, kAttentionBlock));
  parts.divisible = kernel.flops.count() * (1 + extra / mean_depth) / rate;
  parts.serial = (forward ? constants.attention_forward_tail : constants.attention_backward_tail) * block / rate;
}

Duration fixed_of(KernelKind kind, const KernelConstants& constants) {
  switch (kind) {
    case KernelKind::gemm:
      return constants.gemm_fixed;
    case KernelKind::attention_forward:
    case KernelKind::attention_backward:
      return constants.attention_fixed;
    default:
      return constants.memory_fixed;
  }
}

}  // namespace

Duration KernelCost::compute(int multiprocessors) const {
  ORRERY_DCHECK(multiprocessors > 0, "a kernel needs an SM", multiprocessors);
  double arithmetic = parts_.divisible / multiprocessors + parts_.serial;
  if (parts_.tiles > 0) arithmetic += waves(parts_.tiles, multiprocessors, parts_.last_wave) * parts_.tile;
  const double streaming =
      parts_.streaming * std::max(1.0, static_cast<double>(parts_.streaming_multiprocessors) / multiprocessors);
  return std::max(Duration(1), duration_from_seconds(std::max(arithmetic, streaming)));
}

BytesPerSecond KernelCost::rate_cap(int multiprocessors) const {
  return BytesPerSecond(static_cast<double>(bytes_.count()) / to_seconds(compute(multiprocessors)));
}

Duration KernelCost::alone(int multiprocessors, BytesPerSecond memory_bandwidth) const {
  return saturating_add(fixed_, std::max(compute(multiprocessors), transfer_time(bytes_, memory_bandwidth)));
}

bool can_run(const Kernel& kernel, const GpuSpec& gpu) {
  switch (kernel.kind) {
    case KernelKind::gemm:
    case KernelKind::attention_forward:
    case KernelKind::attention_backward:
      return gpu.peak_of(kernel.precision).count() > 0;
    default:
      return true;
  }
}

KernelCost kernel_cost(const Kernel& kernel, const GpuSpec& gpu) {
  ORRERY_CHECK(can_run(kernel, gpu), "the GPU does not compute in this precision", gpu.name, kernel.name);
  ORRERY_CHECK(gpu.multiprocessors > 0 && gpu.memory_bandwidth.count() > 0, "a GPU has SMs and memory", gpu.name);
  const KernelConstants& constants = gpu.kernels;
  const Bytes bytes = std::max(kernel.bytes, Bytes(1));
  KernelCost::Parts parts;
  parts.streaming = static_cast<double>(bytes.count()) /
                    (constants.memory_rate[static_cast<std::size_t>(kernel.kind)] * gpu.memory_bandwidth.count());
  parts.streaming_multiprocessors = std::max(1, static_cast<int>(kStreamingShare * gpu.multiprocessors));
  switch (kernel.kind) {
    case KernelKind::gemm:
      ORRERY_CHECK(kernel.m > 0 && kernel.n > 0 && kernel.k > 0 && kernel.batch > 0, "a GEMM has a shape", kernel.name);
      add_gemm(kernel, gpu, parts);
      break;
    case KernelKind::attention_forward:
    case KernelKind::attention_backward:
      ORRERY_CHECK(kernel.m > 0 && kernel.n > 0 && kernel.k > 0 && kernel.batch > 0, "attention has a shape",
                   kernel.name);
      add_attention(kernel, gpu, parts);
      break;
    default:
      if (gpu.vector_peak.count() > 0) {
        parts.divisible = kernel.flops.count() / (gpu.vector_peak.count() / gpu.multiprocessors);
      }
  }
  return {std::max(fixed_of(kernel.kind, constants), constants.kernel_gap), bytes, parts};
}

Duration time_alone(const Kernel& kernel, const GpuSpec& gpu) {
  return kernel_cost(kernel, gpu).alone(gpu.multiprocessors, gpu.usable_memory_bandwidth());
}

}  // namespace orrery
