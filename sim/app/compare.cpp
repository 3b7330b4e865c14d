// `orrery compare`: a scenario and its variants side by side, and why they differ.
#include <fmt/format.h>

#include <ostream>

#include "sim/app/command.hpp"
#include "sim/app/commands.hpp"
#include "sim/app/progress.hpp"
#include "sim/study/compare.hpp"
#include "sim/study/compare_files.hpp"
#include "sim/study/compare_text.hpp"

namespace orrery {

int run_compare_command(const Arguments& arguments, const Console& console) {
  CompareOptions options{.threads = arguments.threads, .fold = arguments.fold, .out = arguments.out};
  ProgressLine line(arguments, console);
  if (line.shown()) {
    options.progress = [&](std::size_t finished) { line.show(fmt::format("{} simulated", finished)); };
  }
  const Result<Comparison> comparison = compare_file(arguments.positional.at(0), {arguments.overrides}, options);
  line.clear();
  if (!comparison) return report(comparison.problems(), console, kBadInput);
  if (comparison->runs.empty()) return report(comparison->file_problems, console, kFailedRun);  // nowhere to write to

  console.out << (arguments.json ? comparison_json(*comparison) : comparison_text(*comparison));
  if (!arguments.out.empty() && !arguments.quiet && comparison->file_problems.empty()) {
    console.err << fmt::format("wrote comparison.json, .csv and .txt, and runs/, to {}\n", arguments.out);
  }
  if (arguments.json) {  // the text says it itself
    for (const CompareRun& run : comparison->runs) {
      if (!run.error.empty()) console.err << run.name << ": " << run.error << "\n";
    }
  }
  const bool good = comparison->failures() == 0 && comparison->file_problems.empty();
  return report(comparison->file_problems, console, good ? kOk : kFailedRun);
}

}  // namespace orrery
