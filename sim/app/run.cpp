// `orrery run`: one scenario, from file to figures.
#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include <memory>
#include <ostream>
#include <utility>

#include "scenarios/load.hpp"
#include "sim/app/command.hpp"
#include "sim/app/commands.hpp"
#include "sim/results/files.hpp"
#include "sim/results/metrics.hpp"
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

}  // namespace

int run_scenario(const Arguments& arguments, const Console& console) {
  spdlog::logger logger = logger_for(arguments, console);

  // Read and check the scenario: all that can be wrong with it is said here.
  const Result<Scenario> scenario = load_scenario(arguments.positional.at(0), for_running({arguments.overrides, ""}));
  if (!scenario) return report(scenario.problems(), console, kBadInput);

  // Build, play out, sum up.
  const SimulationOptions options{.record = !arguments.out.empty(),
                                  .log = [&](std::string_view line) { logger.debug("{}", line); }};
  const Result<Simulation> simulation = simulate(*scenario, options);
  if (!simulation) return report(simulation.problems(), console, kFailedRun);
  const Summary& summary = simulation->summary;

  // Write files.
  if (!arguments.out.empty()) {
    const Problems problems = write_files(arguments.out, *simulation);
    if (!problems.empty()) return report(problems, console, kFailedRun);
    logger.info("wrote summary, trace and metrics to {}", arguments.out);
  }

  // Print.
  if (arguments.json) {
    console.out << summary_json(summary);
  } else {
    console.out << summary_text(summary);
  }
  console.out.flush();
  return summary.memory.fits.value_or(true) ? kOk : kFailedRun;
}

}  // namespace orrery
