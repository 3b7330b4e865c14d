// The kinds of GPU kernels that are told apart. The vocabulary that workloads (what is done) and GPUs (how fast) share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace orrery {

// What a kernel does; each kind has efficiency constants of its own per GPU.
enum class KernelKind : std::uint8_t {
  gemm,               // matrix multiply (tensor cores), shape batch x [m, k] x [k, n]
  attention_forward,  // fused (flash) attention
  attention_backward,
  norm_forward,  // LayerNorm, RMSNorm
  norm_backward,
  softmax,        // unfused attention's softmax (and dropout), forward or backward
  elementwise,    // activation, residual, bias, dropout, cast, scale, ...
  embedding,      // gather forward, scatter-add backward
  cross_entropy,  // loss over the (possibly sharded) vocabulary
  optimizer,      // parameter update, gradient norm, scaling and clipping
};
inline constexpr std::size_t kKernelKinds = 10;
inline constexpr std::array<std::string_view, kKernelKinds> kKernelKindNames{
    "gemm",    "attention_forward", "attention_backward", "norm_forward",  "norm_backward",
    "softmax", "elementwise",       "embedding",          "cross_entropy", "optimizer"};

[[nodiscard]] constexpr std::string_view name_of(KernelKind kind) {
  return kKernelKindNames[static_cast<std::size_t>(kind)];
}

}  // namespace orrery
