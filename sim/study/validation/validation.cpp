#include "sim/study/validation/validation.hpp"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <new>
#include <utility>

#include "scenarios/csv_table.hpp"
#include "scenarios/load.hpp"
#include "sim/study/parallel.hpp"
#include "sim/study/simulate.hpp"

namespace orrery {

namespace {

constexpr double kGiB = 1024.0 * 1024 * 1024;

ValidatedRun validated(const MeasuredRun& measured, const LoadOptions& load) {
  ValidatedRun run;
  run.measured = measured;
  run.error = measured.cannot;
  if (!run.error.empty()) return run;
  try {
    const Result<Scenario> scenario = load_scenario_text(measured.scenario, measured.id, load);
    if (!scenario) {
      run.error = scenario.problems().front().message;
      return run;
    }
    const Result<Simulation> simulation = simulate(*scenario);
    if (!simulation) {
      run.error = simulation.problems().front().message;
      return run;
    }
    run.step_time_s = simulation->summary.step.time_s;
    run.peak_memory_gib = static_cast<double>(simulation->summary.memory.peak_bytes) / kGiB;
  } catch (const std::bad_alloc&) {
    run.error = "out of memory; fewer --threads need less";
  }
  return run;
}

void append(Problems& all, const Problems& more) { all.insert(all.end(), more.begin(), more.end()); }

std::optional<double> error_of(const ValidatedRun& run, ErrorOf what) {
  return what == ErrorOf::step_time ? run.time_error() : run.memory_error();
}

ErrorSummary summed_up(std::string group, const std::vector<const ValidatedRun*>& runs, ErrorOf what) {
  ErrorSummary sum;
  sum.group = std::move(group);
  std::vector<double> sizes;
  for (const ValidatedRun* run : runs) {
    const std::optional<double> error = error_of(*run, what);
    if (!error) {
      if (!run->step_time_s.has_value()) ++sum.failed;
      continue;
    }
    sizes.push_back(std::abs(*error));
    sum.bias += *error;
    if (std::abs(*error) > std::abs(sum.worst)) {
      sum.worst = *error;
      sum.worst_id = run->measured.id;
    }
  }
  sum.rows = static_cast<int>(sizes.size());
  if (sizes.empty()) return sum;
  sum.bias /= sum.rows;
  std::sort(sizes.begin(), sizes.end());
  for (const double size : sizes) sum.mean += size;
  sum.mean /= sum.rows;
  sum.median = (sizes[(sizes.size() - 1) / 2] + sizes[sizes.size() / 2]) / 2;
  return sum;
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

std::vector<ErrorSummary> by_group(const Validation& validation, ErrorOf what, bool suspects) {
  std::vector<std::pair<std::string, std::vector<const ValidatedRun*>>> groups;
  for (const ValidatedRun& run : validation.runs) {
    if (!suspects && !run.measured.suspect.empty()) continue;
    auto found = std::find_if(groups.begin(), groups.end(),
                              [&](const auto& group) { return group.first == run.measured.group; });
    if (found == groups.end()) found = groups.insert(groups.end(), {run.measured.group, {}});
    found->second.push_back(&run);
  }
  std::vector<ErrorSummary> sums;
  for (const auto& [group, runs] : groups) sums.push_back(summed_up(group, runs, what));
  return sums;
}

double mean_over(std::span<const ErrorSummary> groups, double ErrorSummary::*of) {
  double sum = 0;
  int count = 0;
  for (const ErrorSummary& group : groups) {
    if (group.rows == 0) continue;
    sum += group.*of;
    ++count;
  }
  return count > 0 ? sum / count : 0;
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
  const LoadOptions load = for_running({});
  Validation validation;
  validation.runs.resize(measured.size());
  std::mutex mutex;
  std::size_t finished = 0;
  on_threads(measured.size(), threads_for(options.threads), [&](std::size_t i) {
    validation.runs[i] = validated(measured[i], load);
    const std::lock_guard lock(mutex);
    ++finished;
    if (options.progress) options.progress(finished);
  });
  return validation;
}

}  // namespace orrery
