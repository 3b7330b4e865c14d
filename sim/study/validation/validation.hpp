// Published training steps, each simulated and compared with what was measured.
//
// Errors are signed and relative: predicted / measured - 1. They are summed up per source, since sources are of very
// different sizes, and overall as the mean over sources. A row that cannot be simulated stays in the list with its
// reason; one whose own source makes it doubtful is counted apart.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scenarios/measured/measured_run.hpp"
#include "sim/base/problem.hpp"

namespace orrery {

struct ValidatedRun {
  MeasuredRun measured;
  std::optional<double> step_time_s;  // absent: it could not be simulated
  std::optional<double> peak_memory_gib;
  std::string error;  // why not

  [[nodiscard]] std::optional<double> time_error() const;
  [[nodiscard]] std::optional<double> memory_error() const;
};

struct ErrorSummary {
  std::string group;
  int rows = 0;       // that have an error
  int failed = 0;     // that could not be simulated
  double mean = 0;    // of absolute errors
  double median = 0;  // of absolute errors
  double worst = 0;   // signed, the largest in size
  std::string worst_id;
  double bias = 0;  // mean of signed errors
};

struct Validation {
  std::vector<ValidatedRun> runs;  // in the order of the tables
};

enum class ErrorOf : std::uint8_t { step_time, memory };

// By group in the order of first appearance. `suspects`: also the rows that their own source makes doubtful.
[[nodiscard]] std::vector<ErrorSummary> by_group(const Validation& validation, ErrorOf what, bool suspects);

// The mean over sources of what `of` says of each that has rows.
[[nodiscard]] double mean_over(std::span<const ErrorSummary> groups, double ErrorSummary::*of);

struct ValidationOptions {
  int threads = 0;                                          // 0: as many as the machine has cores
  std::function<void(std::size_t finished)> progress = {};  // called from one thread at a time; may be empty
};

// Reads the tables and simulates every row. Problems: those of the tables.
[[nodiscard]] Result<Validation> validate(std::span<const std::string> files, const ValidationOptions& options);

}  // namespace orrery
