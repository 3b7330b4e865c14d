// `orrery validate`: what was published of training steps, collectives and kernels, simulated and compared.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "scenarios/load.hpp"
#include "sim/app/command.hpp"
#include "sim/app/commands.hpp"
#include "sim/app/progress.hpp"
#include "sim/results/files.hpp"
#include "sim/study/validation/bounds.hpp"
#include "sim/study/validation/collectives.hpp"
#include "sim/study/validation/expectation.hpp"
#include "sim/study/validation/kernels.hpp"
#include "sim/study/validation/validation.hpp"
#include "sim/study/validation/validation_text.hpp"

namespace orrery {

namespace {

namespace fs = std::filesystem;

// Rows of each source in the sample that is simulated with every change.
constexpr int kRecordedSample = 8;

// The bounds that hold for these tables; empty: none do.
std::string bounds_for(const Arguments& arguments) {
  if (arguments.bounds == "none") return "";
  if (!arguments.bounds.empty()) return arguments.bounds;
  const fs::path ours = fs::path(find_catalog_root()) / "tests/validation";
  const auto is_ours = [&](const std::string& file) {
    std::error_code error;
    return fs::equivalent(fs::path(file).parent_path().empty() ? "." : fs::path(file).parent_path(), ours / "steps",
                          error);
  };
  const std::vector<std::string>& files = arguments.positional;
  return std::all_of(files.begin(), files.end(), is_ours) ? (ours / "bounds.csv").string() : "";
}

// Says whether errors are within their bounds; an exit status.
int compare_with_bounds(const Validation& validation, const Arguments& arguments, const Console& console) {
  const std::string file = bounds_for(arguments);
  if (file.empty()) return kOk;
  const Result<std::vector<AccuracyBound>> bounds = read_bounds(file);
  if (!bounds) return report(bounds.problems(), console, kBadInput);
  const std::string set = set_of(arguments.sample);
  const bool any = std::any_of(bounds->begin(), bounds->end(), [&](const AccuracyBound& b) { return b.set == set; });
  if (!any) {
    console.out << fmt::format("\nno bounds are recorded for {} rows ({})\n", set, file);
    return arguments.bounds.empty() ? kOk : kFailedRun;
  }
  const std::vector<std::string> sentences = exceeded(validation, *bounds, set);
  if (sentences.empty()) {
    console.out << fmt::format("\nwithin the bounds of {}\n", file);
    return kOk;
  }
  console.out << fmt::format("\nbeyond the bounds of {}\n", file);
  for (const std::string& sentence : sentences) console.out << "  " << sentence << "\n";
  return kFailedRun;
}

Validation sample_of(const Validation& validation, int each) {
  std::vector<MeasuredRun> measured;
  for (const ValidatedRun& run : validation.runs) measured.push_back(run.measured);
  const std::vector<MeasuredRun> chosen = sample_of(measured, each);
  Validation sample;
  for (const ValidatedRun& run : validation.runs) {
    const bool in = std::any_of(chosen.begin(), chosen.end(),
                                [&](const MeasuredRun& other) { return other.id == run.measured.id; });
    if (in) sample.runs.push_back(run);
  }
  return sample;
}

Problems write_files(const Validation& validation, const Arguments& arguments) {
  std::string bounds = bounds_csv(validation, set_of(arguments.sample), true);
  if (arguments.sample == 0) {
    bounds += bounds_csv(sample_of(validation, kRecordedSample), set_of(kRecordedSample), false);
  }
  const std::pair<const char*, std::string> files[] = {
      {"validation.csv", validation_csv(validation)},
      {"ranking.csv", ranking_csv(validation)},
      {"bounds.csv", bounds},
      {"accuracy.csv", accuracy_csv(class_accuracies(validation))},
      {"accuracy.md", validation_markdown(validation)},
  };
  Problems problems;
  for (const auto& [name, contents] : files) {
    const Problems more = write_file(arguments.out + "/" + name, contents);
    problems.insert(problems.end(), more.begin(), more.end());
  }
  return problems;
}

int validate_steps(const Arguments& arguments, const Console& console) {
  ValidationOptions options{.threads = arguments.threads, .sample = arguments.sample, .bands = arguments.bands};
  ProgressLine line(arguments, console);
  if (line.shown()) options.progress = [&](std::size_t finished) { line.show(fmt::format("{} simulated", finished)); };
  const Result<Validation> validation = validate(arguments.positional, options);
  line.clear();
  if (!validation) return report(validation.problems(), console, kBadInput);
  console.out << validation_text(*validation, arguments.rows);
  const int status = compare_with_bounds(*validation, arguments, console);
  if (arguments.out.empty()) return status;
  const Problems unwritten = write_files(*validation, arguments);
  return report(unwritten, console, unwritten.empty() ? status : kFailedRun);
}

// Tables of single operations: printed, and written where a folder is given.
template <class Row>
int tell(const Result<std::vector<Row>>& rows, std::string (*text)(std::span<const Row>, bool),
         std::string (*csv)(std::span<const Row>), const char* name, const Arguments& arguments,
         const Console& console) {
  if (!rows) return report(rows.problems(), console, kBadInput);
  console.out << text(*rows, arguments.rows);
  if (arguments.out.empty()) return kOk;
  const Problems unwritten = write_file(arguments.out + "/" + name, csv(*rows));
  return report(unwritten, console, unwritten.empty() ? kOk : kFailedRun);
}

// Options that say nothing about tables of single operations.
Problems misplaced(const Arguments& arguments) {
  if (!arguments.collectives && !arguments.kernels) return {};
  Problems problems;
  const auto refuse = [&](bool given, const char* option, const char* note) {
    if (given) problems.push_back({option, "is of tables of training steps", note});
  };
  if (arguments.collectives && arguments.kernels) {
    problems.push_back({"--kernels", "and --collectives are two kinds of tables", "one command for each"});
  }
  refuse(arguments.sample > 0, "--sample", "");
  refuse(!arguments.bounds.empty(), "--bounds", "tests hold collectives and kernels to theirs");
  refuse(arguments.bands, "--bands", "");
  return problems;
}

}  // namespace

int run_validate_command(const Arguments& arguments, const Console& console) {
  if (const Problems problems = misplaced(arguments); !problems.empty()) return report(problems, console, kBadInput);
  if (!arguments.out.empty()) {
    const Problems problems = prepare_folder(arguments.out);
    if (!problems.empty()) return report(problems, console, kFailedRun);
  }
  if (arguments.collectives) {
    return tell(validate_collectives(arguments.positional), collectives_text, collectives_csv, "collectives.csv",
                arguments, console);
  }
  if (arguments.kernels) {
    return tell(validate_kernels(arguments.positional), kernels_text, kernels_csv, "kernels.csv", arguments, console);
  }
  return validate_steps(arguments, console);
}

}  // namespace orrery
