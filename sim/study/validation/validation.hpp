// Published training steps, each simulated and compared with what was measured.
//
// Errors are signed and relative: predicted / measured - 1. They are summed up per source, since sources are of very
// different sizes, and overall as the mean over sources. A row that cannot be simulated stays in the list with its
// reason; one whose own source makes it doubtful is counted apart.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/measured/measured_run.hpp"
#include "sim/base/problem.hpp"
#include "sim/study/validation/errors.hpp"
#include "sim/study/validation/expectation.hpp"

namespace orrery {

// What a row's simulated step time may be, given that its source leaves settings open.
struct ReadingBand {
  double low_s = 0;
  double high_s = 0;
  std::string low;  // the setting that gives it: "recompute: full"; empty: what was assumed
  std::string high;
};

struct ValidatedRun {
  MeasuredRun measured;
  std::optional<double> step_time_s;  // absent: it could not be simulated
  std::optional<double> peak_memory_gib;
  std::string error;                // why not
  RunClass of;                      // as the scenario has it
  std::vector<std::string> gpus;    // catalogue names
  std::optional<ReadingBand> band;  // where other readings were asked for, and there are any

  [[nodiscard]] std::optional<double> time_error() const;
  [[nodiscard]] std::optional<double> memory_error() const;
};

struct Validation {
  std::vector<ValidatedRun> runs;  // in the order of the tables
};

enum class ErrorOf : std::uint8_t { step_time, memory };
[[nodiscard]] std::string_view name_of(ErrorOf what);  // "step time", "peak memory"

// By group in the order of first appearance. `suspects`: also the rows that their own source makes doubtful.
[[nodiscard]] std::vector<ErrorSummary> by_group(const Validation& validation, ErrorOf what, bool suspects);

// Measured and simulated times of each class of runs, doubtful rows left out.
[[nodiscard]] std::vector<ClassAccuracy> class_accuracies(const Validation& validation);

struct ValidationOptions {
  int threads = 0;                                          // 0: as many as the machine has cores
  int sample = 0;                                           // rows of each source; 0: all
  bool bands = false;                                       // also what else a row may mean
  std::function<void(std::size_t finished)> progress = {};  // called from one thread at a time; may be empty
};

// Of each source so many rows as `each` says, the same ones every time and on every machine: of those that can be
// simulated and are not doubtful, the ones whose ids have the smallest hash. In the order of the tables.
[[nodiscard]] std::vector<MeasuredRun> sample_of(std::span<const MeasuredRun> runs, int each);

// Reads the tables and simulates every row. Problems: those of the tables.
[[nodiscard]] Result<Validation> validate(std::span<const std::string> files, const ValidationOptions& options);

}  // namespace orrery
