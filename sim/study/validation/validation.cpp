#include "sim/study/validation/validation.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <new>
#include <utility>

#include "scenarios/csv_table.hpp"
#include "scenarios/load.hpp"
#include "sim/base/fingerprint.hpp"
#include "sim/study/parallel.hpp"
#include "sim/study/simulate.hpp"

namespace orrery {

namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

// The scenario of the row with these settings.
Result<Scenario> scenario_of(const MeasuredRun& measured, LoadOptions load, const std::vector<Override>& set) {
  load.overrides = set;
  return load_scenario_text(measured.scenario, measured.id, load);
}

Result<Summary> summary_of(const Result<Scenario>& scenario) {
  if (!scenario) return scenario.problems();
  Result<Simulation> simulation = simulate(*scenario);
  if (!simulation) return simulation.problems();
  return std::move(simulation).value().summary;
}

// Each other reading alone. One that cannot be simulated says nothing.
std::optional<ReadingBand> band_of(const MeasuredRun& measured, double assumed_s, const LoadOptions& load) {
  if (measured.others.empty()) return std::nullopt;
  ReadingBand band{.low_s = assumed_s, .high_s = assumed_s, .low = "", .high = ""};
  for (const OtherReading& other : measured.others) {
    const Result<Summary> summary = summary_of(scenario_of(measured, load, other.set));
    if (!summary) continue;
    const double time_s = summary->step.time_s;
    if (time_s < band.low_s) {
      band.low_s = time_s;
      band.low = other.what;
    }
    if (time_s > band.high_s) {
      band.high_s = time_s;
      band.high = other.what;
    }
  }
  return band;
}

ValidatedRun validated(const MeasuredRun& measured, const LoadOptions& load, bool bands) {
  ValidatedRun run;
  run.measured = measured;
  run.error = measured.cannot;
  if (!run.error.empty()) return run;
  try {
    const Result<Scenario> scenario = scenario_of(measured, load, {});
    const Result<Summary> summary = summary_of(scenario);
    if (!summary) {
      run.error = summary.problems().front().message;
      return run;
    }
    run.of = run_class(*scenario);
    run.gpus = gpus_of(*scenario);
    run.step_time_s = summary->step.time_s;
    run.peak_memory_gib = static_cast<double>(summary->memory.peak_bytes) / kGiB;
    if (bands) run.band = band_of(measured, *run.step_time_s, load);
  } catch (const std::bad_alloc&) {
    run.error = "out of memory; fewer --threads need less";
  }
  return run;
}

void append(Problems& all, const Problems& more) { all.insert(all.end(), more.begin(), more.end()); }

std::optional<double> error_of(const ValidatedRun& run, ErrorOf what) {
  return what == ErrorOf::step_time ? run.time_error() : run.memory_error();
}

}  // namespace

std::optional<double> ValidatedRun::time_error() const {
  if (!step_time_s) return std::nullopt;
  return *step_time_s / measured.step_time_s - 1;
}

std::optional<double> ValidatedRun::memory_error() const {
  if (!peak_memory_gib || !measured.peak_memory_gib) return std::nullopt;
  return *peak_memory_gib / *measured.peak_memory_gib - 1;
}

std::string_view name_of(ErrorOf what) { return what == ErrorOf::step_time ? "step time" : "peak memory"; }

std::vector<ErrorSummary> by_group(const Validation& validation, ErrorOf what, bool suspects) {
  std::vector<NamedError> errors;
  for (const ValidatedRun& run : validation.runs) {
    if (!suspects && !run.measured.suspect.empty()) continue;
    errors.push_back({run.measured.group, run.measured.id, error_of(run, what), !run.step_time_s.has_value()});
  }
  return summed_up(errors);
}

std::vector<ClassAccuracy> class_accuracies(const Validation& validation) {
  std::vector<ComparedRun> compared;
  for (const ValidatedRun& run : validation.runs) {
    if (!run.step_time_s || !run.measured.suspect.empty()) continue;
    compared.push_back({run.of, run.measured.group, run.gpus, run.measured.step_time_s / *run.step_time_s});
  }
  return accuracy_of(compared);
}

std::vector<MeasuredRun> sample_of(std::span<const MeasuredRun> runs, int each) {
  const auto hash_of = [&](std::size_t i) { return Fingerprint().add(std::string_view(runs[i].id)).value(); };
  std::map<std::string, std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (runs[i].cannot.empty() && runs[i].suspect.empty()) groups[runs[i].group].push_back(i);
  }
  std::vector<std::size_t> chosen;
  for (auto& [group, rows] : groups) {
    std::sort(rows.begin(), rows.end(),
              [&](std::size_t a, std::size_t b) { return std::pair(hash_of(a), a) < std::pair(hash_of(b), b); });
    rows.resize(std::min(rows.size(), static_cast<std::size_t>(each)));
    chosen.insert(chosen.end(), rows.begin(), rows.end());
  }
  std::sort(chosen.begin(), chosen.end());
  std::vector<MeasuredRun> sample;
  for (const std::size_t i : chosen) sample.push_back(runs[i]);
  return sample;
}

Result<Validation> validate(std::span<const std::string> files, const ValidationOptions& options) {
  Problems problems;
  std::vector<MeasuredRun> measured;
  for (const std::string& file : files) {
    const Result<CsvTable> table = read_csv_table(file);
    if (!table) {
      append(problems, table.problems());
      continue;
    }
    const Result<std::vector<MeasuredRun>> runs = measured_runs(*table);
    if (!runs) {
      append(problems, runs.problems());
      continue;
    }
    for (const MeasuredRun& run : *runs) measured.push_back(run);
  }
  if (!problems.empty()) return problems;
  if (options.sample > 0) measured = sample_of(measured, options.sample);
  const LoadOptions load = for_running({});
  Validation validation;
  validation.runs.resize(measured.size());
  std::mutex mutex;
  std::size_t finished = 0;
  on_threads(measured.size(), threads_for(options.threads), [&](std::size_t i) {
    validation.runs[i] = validated(measured[i], load, options.bands);
    const std::lock_guard lock(mutex);
    ++finished;
    if (options.progress) options.progress(finished);
  });
  return validation;
}

}  // namespace orrery
