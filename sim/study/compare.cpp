#include "sim/study/compare.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <mutex>
#include <new>

#include "sim/results/critical_path.hpp"
#include "sim/results/files.hpp"
#include "sim/study/compare_files.hpp"
#include "sim/study/parallel.hpp"
#include "sim/study/simulate.hpp"

namespace orrery {

namespace {

std::vector<Variant> runs_of(const CompareSpec& compare) {
  std::vector<Variant> runs{{compare.base, {}}};
  runs.insert(runs.end(), compare.variants.begin(), compare.variants.end());
  return runs;
}

// Memory that runs out ends one run, not the comparison.
CompareRun run_of(const std::string& path, const LoadOptions& load, const Variant& variant, bool fold) {
  LoadOptions settings = load;
  settings.overrides.insert(settings.overrides.end(), variant.set.begin(), variant.set.end());
  try {
    return compared(load_scenario(path, settings), variant, fold);
  } catch (const std::bad_alloc&) {
    CompareRun run;
    run.name = variant.name;
    run.set = variant.set;
    run.error = to_string(Problems{{"", "out of memory", "fewer --threads need less"}});
    return run;
  }
}

std::vector<Explanation> explanations_of(const std::vector<CompareRun>& runs) {
  std::vector<Explanation> explanations;
  const CompareRun& base = runs.front();
  if (!base.summary.has_value()) return explanations;
  for (std::size_t i = 1; i < runs.size(); ++i) {
    const CompareRun& variant = runs[i];
    if (!variant.summary.has_value()) continue;
    explanations.push_back(
        explain({base.name, &*base.summary, &base.profile}, {variant.name, &*variant.summary, &variant.profile}));
  }
  return explanations;
}

}  // namespace

std::size_t Comparison::failures() const {
  return static_cast<std::size_t>(
      std::count_if(runs.begin(), runs.end(), [](const CompareRun& run) { return !run.error.empty(); }));
}

CompareRun compared(const Result<Scenario>& scenario, const Variant& variant, bool fold) {
  CompareRun run;
  run.name = variant.name;
  run.set = variant.set;
  if (!scenario) {
    run.error = to_string(scenario.problems());
    return run;
  }
  const Result<Simulation> simulation = simulate(*scenario, {.record_all = true, .fold = fold});
  if (!simulation) {
    run.error = to_string(simulation.problems());
    return run;
  }
  run.summary = simulation->summary;
  run.profile = profile_of(simulation->run, simulation->workload, critical_path(simulation->run, simulation->workload));
  return run;
}

Result<Comparison> compare_file(const std::string& path, const LoadOptions& options_of_load,
                                const CompareOptions& options) {
  const LoadOptions load = for_running(options_of_load);
  const Result<Scenario> base = load_scenario(path, load);
  if (!base) return base.problems();
  if (base->compare.variants.empty()) {
    return Problem{"compare", fmt::format("{} has no variants to compare", path),
                   "add a block such as  compare: {half: {training.precision: bf16}}, or use  orrery run"};
  }
  Comparison comparison;
  comparison.scenario = base->name;
  if (!options.out.empty()) {
    comparison.file_problems = prepare_folder(options.out);
    if (!comparison.file_problems.empty()) return comparison;
  }
  const std::vector<Variant> variants = runs_of(base->compare);
  comparison.runs.resize(variants.size());
  std::mutex mutex;
  std::size_t finished = 0;
  on_threads(variants.size(), threads_for(options.threads), [&](std::size_t i) {
    comparison.runs[i] = run_of(path, load, variants[i], options.fold);
    const std::lock_guard lock(mutex);
    ++finished;
    if (options.progress) options.progress(finished);
  });
  comparison.explanations = explanations_of(comparison.runs);
  if (!options.out.empty()) comparison.file_problems = write_files(options.out, comparison);
  return comparison;
}

}  // namespace orrery
