// Published timings of kernels, each beside what the kernel model says of it (sim/exec/kernel_time.hpp) with the
// constants of the catalogue.
//
// Three kinds of tables, told apart by their columns (tests/calibration/README.md): products (gpu, set, precision,
// batch, m, n, k, output_bytes, tflops), fused attention (gpu, implementation, direction, causal, heads_x_batch,
// sequence, head_dim, value_dim, time_us) and memory-bound kernels (gpu, kind, operation, implementation, rows,
// columns, bytes, time_us). Constants are of the row's implementation where the catalogue has figures of it, and
// otherwise of the one that frameworks run by default: such rows say how much it differs. Beside the mean error stands
// the error with one free factor a group ("shape"): a machine that is slower as a whole, or another implementation,
// leaves it small.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/problem.hpp"

namespace orrery {

struct ComparedKernel {
  std::string table;  // "gemm", "attention", "memory"
  std::string gpu;
  std::string group;  // within table and GPU: set and precision, or implementation and operation
  std::string shape;  // in words
  double measured_s = 0;
  std::optional<double> simulated_s;  // absent: it could not be simulated
  std::string error;                  // why not
};

// Reads the tables and asks the kernel model. Problems: those of the tables.
[[nodiscard]] Result<std::vector<ComparedKernel>> validate_kernels(std::span<const std::string> files);

struct KernelErrors {
  std::string table;
  std::string gpu;
  std::string group;  // empty: all of the GPU in the table
  int rows = 0;
  int failed = 0;
  double mean = 0;   // of absolute errors
  double bias = 0;   // mean of signed errors
  double shape = 0;  // mean of absolute errors, with measured times in units of their group's median
};

// By table and GPU, each followed by its groups. Shape errors of a GPU are those of its groups together.
[[nodiscard]] std::vector<KernelErrors> kernel_errors(std::span<const ComparedKernel> rows);

[[nodiscard]] std::string kernels_text(std::span<const ComparedKernel> rows, bool each);
[[nodiscard]] std::string kernels_csv(std::span<const ComparedKernel> rows);

}  // namespace orrery
