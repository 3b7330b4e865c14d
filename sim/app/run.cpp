// `orrery run`: one scenario, from file to figures.
#include <fmt/format.h>
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include <memory>
#include <ostream>
#include <utility>

#include "scenarios/load.hpp"
#include "sim/app/command.hpp"
#include "sim/app/commands.hpp"
#include "sim/app/progress.hpp"
#include "sim/results/files.hpp"
#include "sim/results/metrics.hpp"
#include "sim/results/quantities.hpp"
#include "sim/results/summary_json.hpp"
#include "sim/results/summary_text.hpp"
#include "sim/results/trace.hpp"
#include "sim/study/simulate.hpp"

namespace orrery {

namespace {

// A logger of this call alone: calls in one process do not meet in a registry.
spdlog::logger logger_for(const Arguments& arguments, const Console& console) {
  spdlog::logger logger("orrery", std::make_shared<spdlog::sinks::ostream_sink_mt>(console.err));
  logger.set_pattern("%v");
  logger.set_level(arguments.verbose ? spdlog::level::debug : spdlog::level::info);
  if (arguments.quiet) logger.set_level(spdlog::level::err);
  return logger;
}

Problems write_files(const std::string& folder, const Simulation& simulation) {
  const std::vector<MetricFamily> metrics = metrics_over_time(simulation.run, simulation.workload);
  const std::pair<const char*, std::string> files[] = {
      {"summary.json", summary_json(simulation.summary)},
      {"summary.txt", summary_text(simulation.summary)},
      {"trace.json", trace_json(simulation.run, simulation.workload)},
      {"metrics.csv", metrics_csv(metrics)},
      {"metrics.prom", metrics_openmetrics(metrics)},
  };
  for (const auto& [name, contents] : files) {
    Problems problems = write_file(folder + "/" + name, contents);
    if (!problems.empty()) return problems;
  }
  return {};
}

std::string progress_text(Instant now, std::int64_t events) {
  return fmt::format("played out {} of the step, {} events", human_seconds(to_seconds(now.time_since_epoch())),
                     human_count(static_cast<double>(events)));
}

}  // namespace

int run_scenario(const Arguments& arguments, const Console& console) {
  spdlog::logger logger = logger_for(arguments, console);

  // Read and check the scenario: all that can be wrong with it is said here.
  Result<Scenario> loaded = load_scenario(arguments.positional.at(0), for_running({arguments.overrides, ""}));
  if (!loaded) return report(loaded.problems(), console, kBadInput);
  Scenario scenario = std::move(loaded).value();
  if (!scenario.sweep.empty()) scenario.remarks.emplace_back("the sweep block is played by  orrery sweep");
  if (!scenario.compare.variants.empty()) {
    scenario.remarks.emplace_back("the variants of the compare block are played by  orrery compare");
  }

  if (!arguments.out.empty()) {
    const Problems problems = prepare_folder(arguments.out);
    if (!problems.empty()) return report(problems, console, kFailedRun);
  }

  // Build, play out, sum up.
  ProgressLine line(arguments, console);
  SimulationOptions options{.record = !arguments.out.empty(),
                            .fold = arguments.fold,
                            .log = [&](std::string_view text) { logger.debug("{}", text); }};
  if (line.shown()) {
    options.progress = [&](Instant now, std::int64_t events) {
      if (line.due()) line.show(progress_text(now, events));
    };
  }
  const Result<Simulation> simulation = simulate(scenario, options);
  line.clear();
  if (!simulation) return report(simulation.problems(), console, kFailedRun);
  const Summary& summary = simulation->summary;

  // Write files.
  Problems unwritten;
  if (!arguments.out.empty()) {
    unwritten = write_files(arguments.out, *simulation);
    if (unwritten.empty()) logger.info("wrote summary, trace and metrics to {}", arguments.out);
  }

  // Print, whether or not the files are there: the run took its time.
  if (arguments.json) {
    console.out << summary_json(summary);
  } else {
    console.out << summary_text(summary);
  }
  const bool good = unwritten.empty() && summary.fits();
  return report(unwritten, console, good ? kOk : kFailedRun);
}

}  // namespace orrery
