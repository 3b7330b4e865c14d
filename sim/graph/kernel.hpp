// A GPU kernel as the work it does, on no hardware: FLOPs, bytes, shape. What it costs is decided by the GPU that runs
// it (sim/exec). Kernels are interned: layers and micro-batches that are alike share them.
#pragma once

#include <cstdint>
#include <string>

#include "sim/base/ids.hpp"
#include "sim/base/kernel_kind.hpp"
#include "sim/base/precision.hpp"
#include "sim/base/units.hpp"

namespace orrery {

struct KernelTag;
using KernelId = Id<KernelTag>;

struct Kernel {
  std::string name;  // "qkv.forward", "mlp_up.weight_gradient": <operator>.<pass>
  KernelKind kind = KernelKind::elementwise;
  Precision precision = Precision::bf16;

  // GEMM: batch products of [m, k] by [k, n]. Attention: m queries by n keys per head, k the head dimension, batch
  // = heads x sequences. Otherwise: m rows of n elements (k and batch 1).
  std::int64_t m = 0;
  std::int64_t n = 0;
  std::int64_t k = 0;
  std::int64_t batch = 1;
  bool causal = false;  // attention only: half of the m x n square is computed
  // GEMM only: the greatest power of two that divides the row length, in elements, of every operand as it lies in
  // memory. Rows that are no multiple of 16 bytes keep tensor cores from their full rate. 0: that of n and k.
  std::int64_t row_multiple = 0;

  // Issued by the framework's call that issued what stands before it in the program, as the chunks of a product that is
  // cut up: the host pays for the launch alone, not for another way through the framework (HostCosts).
  bool within_call = false;

  Flops flops{};  // operations really done (causal attention: the half)
  Bytes bytes{};  // least HBM traffic: operands read once, results written once

  friend bool operator==(const Kernel&, const Kernel&) = default;
};

}  // namespace orrery
