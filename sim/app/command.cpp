#include "sim/app/command.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <iostream>
#include <new>
#include <span>
#include <stdexcept>

#include "sim/app/commands.hpp"
#include "sim/base/text.hpp"

namespace orrery {

namespace {

constexpr std::string_view kVersion = ORRERY_VERSION;

struct CommandRow {
  std::string_view name;
  std::string_view usage;  // the positional words
  std::size_t words_least = 0;
  std::size_t words_most = 0;
  std::string_view doc;  // one line
  std::string_view help;
  std::span<const std::string_view> options;
  int (*run)(const Arguments&, const Console&) = nullptr;
};

constexpr std::string_view kRunOptions[] = {"--set",     "--out",     "--json",  "--seed",
                                            "--threads", "--no-fold", "--quiet", "--verbose"};
constexpr std::string_view kSweepOptions[] = {"--set",     "--out",     "--json",  "--seed",
                                              "--threads", "--no-fold", "--quiet", "--verbose"};
constexpr std::string_view kCompareOptions[] = {"--set",     "--out",     "--json",  "--seed",
                                                "--threads", "--no-fold", "--quiet", "--verbose"};
constexpr std::string_view kValidateOptions[] = {"--rows",    "--sample", "--bounds",  "--bands", "--collectives",
                                                 "--kernels", "--out",    "--threads", "--quiet", "--verbose"};
constexpr std::string_view kCatalogOptions[] = {"--fitted"};
constexpr std::string_view kPlotOptions[] = {"--schedule", "--set", "--out", "--quiet"};
constexpr std::string_view kImportOptions[] = {"--format", "--model", "--cluster", "--set", "--out", "--quiet"};

constexpr std::string_view kRunHelp =
    R"(Simulates one training step of the scenario and prints how long it takes, what that makes of the
whole training, and where time, bytes and memory go.

With --out, the folder gets summary.json, summary.txt, trace.json (open it in ui.perfetto.dev),
metrics.csv and metrics.prom. Trace and metrics over time are of one rank per pipeline stage; the trace
of a long step is some 50 MB. The exit status is 1 when the step does not fit into GPU memory.

Ranks that provably behave alike are played once: the result is the same to the picosecond as that of
--no-fold, which plays every rank. One simulation uses one thread, whatever --threads says: that is for
sweeps.

examples
  orrery run scenarios/gpt3-175b-1024xa100.yaml
  orrery run scenarios/gpt3-175b-1024xa100.yaml --set parallelism.tensor=4 --set cluster.nodes=64
  orrery run scenarios/gpt3-175b-1024xa100.yaml --out out/gpt3 && orrery plot out/gpt3
  orrery run scenarios/gpt3-175b-1024xa100.yaml --json | jq .step.mfu
)";
constexpr std::string_view kSweepHelp =
    R"(Simulates every combination of the values in the scenario's `sweep:` block, on all cores, and prints
a line each. Where an axis changes the number of GPUs, it says how messages, bytes and exposed
communication grow with it.

With --out, the folder gets results.json and results.csv while the sweep runs; the same command
again simulates only what is missing. The exit status is 1 when a point failed; a point that does
not fit into GPU memory is an answer, not a failure.

examples
  orrery sweep scenarios/speedup-10-to-40.yaml --out out/speedup && orrery plot out/speedup
  orrery sweep scenarios/speedup-10-to-40.yaml --threads 4 --set training.precision=fp16
)";
constexpr std::string_view kCompareHelp =
    R"(Simulates the scenario and each variant in its `compare:` block, on all cores, and prints them side by
side: times and where they go, bytes and messages, memory; then, for each variant, why it takes longer
or less than the scenario itself. The figures of that explanation are differences of the critical paths
and add up to the difference of the times.

A variant is a name and the keys that it sets:

  compare:
    base: tf32                     # what the scenario without changes is called
    bf16: {training.precision: bf16}
    bf16, recomputed: {training.precision: bf16, training.recompute: full}

With --out, the folder gets comparison.json, comparison.csv, comparison.txt and the summary of each run
in runs/. A variant that cannot be run is listed with its problem, and the exit status is 1; one that
does not fit into GPU memory is an answer, not a failure.

examples
  orrery compare scenarios/a100-vs-h100.yaml
  orrery compare scenarios/mixed-precision-a100.yaml --out out/precision && orrery plot out/precision
  orrery compare scenarios/a100-vs-h100.yaml --json | jq -r .explanation.text
)";
constexpr std::string_view kValidateHelp =
    R"(Simulates every published training step in the tables, on all cores, and prints how far the simulated
times are from the measured ones: per source, the mean and median of absolute errors, the bias (mean of
signed errors) and the worst row; rows that their own source makes doubtful apart. Rows that cannot be
simulated are listed with the reason. Errors are predicted / measured - 1. Where a source has several
plans for one model, cluster and batch, also whether the simulation ranks them as they were measured.

A row whose source leaves a setting open is simulated with the framework's default, which --rows tells;
--bands simulates such rows with the other plausible settings too.

The exit status is 1 when errors exceed their bounds: those of --bounds FILE, or of the repository
(tests/validation/bounds.csv) where the tables are its own.

With --out, the folder gets validation.csv, a line for each row, for orrery plot; ranking.csv, a line
for each sweep of plans; and what these errors make of the repository's tables: bounds.csv, accuracy.csv
(measured / simulated time by class of runs, for the band that orrery run prints) and accuracy.md.

With --collectives or --kernels, the tables are of nccl-tests' times or of kernels' times.

examples
  orrery validate tests/validation/steps/*.csv
  orrery validate tests/validation/steps/meg.csv --rows
  orrery validate tests/validation/steps/*.csv --out out && orrery plot out
  orrery validate --collectives tests/validation/collectives.csv
  orrery validate --kernels tests/calibration/*.csv
)";
constexpr std::string_view kCatalogHelp =
    R"(Lists what scenarios can name: without words the kinds, with a kind its entries, with a name all
that is known of it. The kind `keys` lists all keys of a scenario, with the name of a block those in it.

examples
  orrery catalog
  orrery catalog gpus
  orrery catalog nodes dgx-a100-80gb
  orrery catalog schedules
  orrery catalog keys training
  orrery catalog keys training.global_batch
  orrery catalog --fitted                        constants that are fits, and what each was fitted on
)";
constexpr std::string_view kImportHelp =
    R"(Makes a scenario of another framework's plan: a DeepSpeed JSON, Megatron-LM arguments (the script that
starts a training, or a list of them), a TorchTitan TOML. Prints what became of each key of the plan:
understood, and as what; assumed, where the plan leaves it to a default; or ignored, and why.

A plan rarely says on what it runs, and a DeepSpeed one not what it trains either: --cluster and --model
do. --set sets any key of the scenario, and wins over the plan.

Without --out, the scenario goes to standard output and the report to standard error. With it, the
scenario goes into that file and the report to standard output.

examples
  orrery import ds_config.json --model llama2-7b --cluster dgx-a100-80gb x 4 \
    --set training.sequence_length=4096 --out llama2.yaml && orrery run llama2.yaml
  orrery import pretrain_gpt.sh --cluster dgx-h100 --out gpt.yaml     as many GPUs as the script starts
  orrery import llama3_8b.toml --cluster dgx-h100 x 1 > llama3.yaml
)";
constexpr std::string_view kPlotHelp =
    R"(Draws what the folder's result files hold, as SVG and PNG, into the same folder or into --out:
  results.json (of a sweep)   speedup: time, speedup, efficiency and communication against GPUs
                              breakdown: a bar per run, where its step's time goes
  comparison.json             comparison: a bar per run, where its step's time goes, and its memory by tag
  validation.csv              parity: predicted against measured times; errors: how they are spread
  metrics.csv (of a run)      utilization: compute, memory and collectives over the step
  trace.json (of a run)       timeline: the schedule of the recorded ranks
  schedule.json               schedule: passes of micro-batches by stage, on paper and as simulated
With --schedule FILE, a scenario in place of a folder: simulates it and draws its pipeline schedule,
a user's own (parallelism.schedule: {kind: table, file: my.csv}) included, into --out, or into the
current folder.
Needs Python 3 with matplotlib (Debian: python3-matplotlib).

examples
  orrery plot --schedule scenarios/gpt3-175b-1024xa100.yaml --set parallelism.schedule=zb-v
  orrery sweep scenarios/speedup-10-to-40.yaml --out out/speedup && orrery plot out/speedup
  orrery run scenarios/gpt3-175b-1024xa100.yaml --out out/gpt3 && orrery plot out/gpt3
)";

constexpr std::array kCommands{
    CommandRow{"run", "FILE", 1, 1, "simulate a scenario", kRunHelp, kRunOptions, run_scenario},
    CommandRow{"sweep", "FILE", 1, 1, "simulate a scenario over a grid of settings", kSweepHelp, kSweepOptions,
               run_sweep_command},
    CommandRow{"compare", "FILE", 1, 1, "lay a scenario and variants of it side by side, and say why they differ",
               kCompareHelp, kCompareOptions, run_compare_command},
    CommandRow{"validate", "FILE...", 1, 1000, "compare published training steps with simulated ones", kValidateHelp,
               kValidateOptions, run_validate_command},
    CommandRow{"catalog", "[KIND [NAME]]", 0, 2, "list hardware, models, strategies and schedules", kCatalogHelp,
               kCatalogOptions, show_catalog},
    CommandRow{"import", "FILE", 1, 1, "make a scenario of a plan of DeepSpeed, Megatron-LM or TorchTitan", kImportHelp,
               kImportOptions, import_plan_command},
    CommandRow{"plot", "[DIR]", 0, 1, "draw the results in a folder, or a pipeline schedule", kPlotHelp, kPlotOptions,
               plot_results},
};

void print_option(std::ostream& out, const OptionRow& row) {
  const std::string brief = row.brief.empty() ? "    " : fmt::format("{}, ", row.brief);
  out << fmt::format("  {}{:<22} {}\n", brief, fmt::format("{} {}", row.name, row.value), row.doc);
}

void print_overview(std::ostream& out) {
  out << "Orrery simulates GPU training clusters: how long a training step takes, and why.\n\n"
         "usage: orrery COMMAND [WORDS] [OPTIONS]\n\ncommands\n";
  for (const CommandRow& command : kCommands) {
    out << fmt::format("  {:<24} {}\n", fmt::format("{} {}", command.name, command.usage), command.doc);
  }
  out << "\n./orrery, the script at the root, builds before it runs; ./orrery test builds and runs the tests.\n"
         "orrery COMMAND --help tells more, with examples. To begin with:\n"
         "  orrery run scenarios/speedup-10-to-40.yaml\n";
}

void print_help(std::ostream& out, const CommandRow& command) {
  out << fmt::format("usage: orrery {} {} [OPTIONS]\n\n{}\noptions\n", command.name, command.usage, command.help);
  for (const std::string_view name : command.options) print_option(out, option_row(name));
  print_option(out, option_row("--help"));
}

Problem unknown_command(const std::string& word) {
  std::vector<std::string> names;
  for (const CommandRow& command : kCommands) names.emplace_back(command.name);
  const std::string nearest = nearest_name(word, names);
  return {"", fmt::format("no command '{}'", word),
          nearest.empty() ? "known: " + join(names) : fmt::format("did you mean '{}'?", nearest)};
}

}  // namespace

int report(const Problems& problems, const Console& console, int status) {
  if (!problems.empty()) console.err << to_string(problems) << std::endl;
  return status;
}

namespace {

const CommandRow* find_command(const std::string& name) {
  const auto* const found =
      std::find_if(kCommands.begin(), kCommands.end(), [&](const CommandRow& row) { return row.name == name; });
  return found == kCommands.end() ? nullptr : found;
}

// "help", "help run".
int show_help(std::span<const std::string> words, const Console& console) {
  if (words.empty()) {
    print_overview(console.out);
    return kOk;
  }
  const CommandRow* command = find_command(words.front());
  if (command == nullptr) return report({unknown_command(words.front())}, console, kBadInput);
  print_help(console.out, *command);
  return kOk;
}

Problem wrong_words(const CommandRow& command, std::size_t words) {
  const std::string message = words < command.words_least
                                  ? fmt::format("'{}' needs a {}", command.name, command.usage)
                                  : fmt::format("{} words after '{}' are too many", words, command.name);
  return {"", message,
          fmt::format("usage: orrery {} {}; orrery {} --help tells more", command.name, command.usage, command.name)};
}

int dispatch(const std::vector<std::string>& arguments, const Console& console) {
  // The first word that is no option names the command; before it only --help and --version make sense.
  if (arguments.empty()) {
    print_overview(console.err);
    return kBadInput;
  }
  const std::string& first = arguments.front();
  if (first == "--help" || first == "-h" || first == "help") return show_help(std::span(arguments).subspan(1), console);
  if (first == "--version") {
    console.out << "orrery " << kVersion << "\n";
    return kOk;
  }
  const CommandRow* const command = find_command(first);
  if (command == nullptr) return report({unknown_command(first)}, console, kBadInput);

  const Result<Arguments> parsed = parse_arguments(std::span(arguments).subspan(1), command->options);
  if (!parsed) return report(parsed.problems(), console, kBadInput);
  if (parsed->help) {
    print_help(console.out, *command);
    return kOk;
  }
  if (parsed->version) {
    console.out << "orrery " << kVersion << "\n";
    return kOk;
  }
  const std::size_t words = parsed->positional.size();
  if (words < command->words_least || words > command->words_most) {
    return report({wrong_words(*command, words)}, console, kBadInput);
  }
  return command->run(*parsed, console);
}

int out_of_memory(const Console& console) {
  return report({Problem{"", "out of memory", "a smaller cluster, batch or model, or fewer --threads, needs less"}},
                console, kFailedRun);
}

// What was printed is out, or the status says that it is not: on a full disk, results that nobody has are no success.
int finish_output(int status, const Console& console) {
  errno = 0;
  if (console.out.flush()) return status;
  const std::string reason = errno != 0 ? fmt::format(": {}", std::strerror(errno)) : "";
  const int failed = report({Problem{"", "cannot write to standard output" + reason, ""}}, console, kFailedRun);
  return status == kOk ? failed : status;
}

}  // namespace

int run_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err) {
  const Console console{out, err, &err == &std::cerr && ::isatty(STDERR_FILENO) == 1};
  // The last resort: scenarios that cannot fit are refused before they are built.
  try {
    return finish_output(dispatch(arguments, console), console);
  } catch (const std::bad_alloc&) {
    return out_of_memory(console);
  } catch (const std::length_error&) {  // of a container that would be larger than memory can be
    return out_of_memory(console);
  }
}

}  // namespace orrery
