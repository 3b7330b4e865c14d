// `orrery sweep`: many scenarios at once, a line each.
#include <fmt/format.h>

#include <algorithm>
#include <ostream>

#include "sim/app/command.hpp"
#include "sim/app/commands.hpp"
#include "sim/app/progress.hpp"
#include "sim/results/quantities.hpp"
#include "sim/study/sweep.hpp"
#include "sim/study/sweep_files.hpp"

namespace orrery {

namespace {

std::string line_of(const SweepProgress& progress) {
  std::string line = fmt::format("{} of {} simulated", progress.finished, progress.total);
  if (progress.failed > 0) line += fmt::format(", {} failed", progress.failed);
  if (progress.remaining_s.has_value() && progress.finished < progress.total) {
    line += ", about " + human_seconds(*progress.remaining_s) + " left";
  }
  return line;
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

void print_table(const SweepResult& result, std::ostream& out) {
  std::size_t width = std::string_view("run").size();
  for (const SweepRun& run : result.runs) width = std::max(width, run.point.name.size());
  std::string unit = "tokens/s";
  for (const SweepRun& run : result.runs) {
    if (run.summary.has_value()) unit = fmt::format("{}/s", throughput_of(run.summary->step).unit);
  }
  out << fmt::format("{:<{}}  {:>6}  {:>10}  {:>12}  {:>7}  {:>10}  {:>9}\n", "run", width, "GPUs", "step time", unit,
                     "MFU", "exposed", "memory");
  for (const SweepRun& run : result.runs) {
    if (!run.summary.has_value()) {
      out << fmt::format("{:<{}}  {}\n", run.point.name, width, first_line(run.error));
      continue;
    }
    const Summary& s = *run.summary;
    out << fmt::format(
        "{:<{}}  {:>6}  {:>10}  {:>12}  {:>7}  {:>10}  {:>9}{}\n", run.point.name, width, s.cluster.gpus,
        human_seconds(s.step.time_s), with_separators(static_cast<std::int64_t>(throughput_of(s.step).per_s)),
        s.step.mfu.has_value() ? human_percent(*s.step.mfu) : "", human_seconds(s.breakdown.exposed_total_s()),
        human_memory(s.memory.peak_bytes), s.fits() ? "" : "  does not fit");
  }
  const std::string explanation = explain(result.growth);
  if (!explanation.empty()) out << "\n" << explanation;
}

}  // namespace

int run_sweep_command(const Arguments& arguments, const Console& console) {
  SweepOptions options;
  options.threads = arguments.threads;
  options.fold = arguments.fold;
  options.out = arguments.out;
  ProgressLine line(arguments, console);
  if (line.shown()) options.progress = [&](const SweepProgress& progress) { line.show(line_of(progress)); };

  const Result<SweepResult> result = sweep_file(arguments.positional.at(0), {arguments.overrides, ""}, options);
  line.clear();
  if (!result) return report(result.problems(), console, kBadInput);
  if (result->runs.empty()) return report(result->file_problems, console, kFailedRun);  // nowhere to write to

  if (arguments.json) {
    console.out << results_json(result->runs, result->growth);
  } else {
    print_table(*result, console.out);
  }
  if (!arguments.out.empty() && !arguments.quiet && result->file_problems.empty()) {
    const auto reused =
        std::count_if(result->runs.begin(), result->runs.end(), [](const SweepRun& run) { return run.reused; });
    console.err << fmt::format("wrote {}/results.json and results.csv ({} of {} runs taken over)\n", arguments.out,
                               reused, result->runs.size());
  }
  for (const SweepRun& run : result->runs) {
    if (!run.error.empty()) console.err << run.point.name << ": " << run.error << "\n";
  }
  const bool good = result->failures() == 0 && result->file_problems.empty();
  return report(result->file_problems, console, good ? kOk : kFailedRun);
}

}  // namespace orrery
