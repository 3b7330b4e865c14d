// `orrery plot`: hands a folder of results to plots/plot.py, which reads files only. With --schedule it makes the file
// first.
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <ostream>
#include <vector>

#include "scenarios/load.hpp"
#include "sim/app/command.hpp"
#include "sim/app/commands.hpp"
#include "sim/results/files.hpp"
#include "sim/study/schedule_drawing.hpp"
#include "sim/study/simulate.hpp"

namespace orrery {

namespace {

// The system's Python, so that Debian's matplotlib is found whatever else is first in $PATH.
constexpr const char* kPython = "/usr/bin/python3";
constexpr int kNoProgram = 127;  // what shells return for a program that is not there

// Runs a program with this process's standard streams; its exit status, or kNoProgram where it cannot be started.
int run_program(const std::vector<std::string>& words) {
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return kNoProgram;
  if (child == 0) {
    ::execv(arguments[0], arguments.data());
    ::_exit(kNoProgram);
  }
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) return kNoProgram;
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : kFailedRun;
}

int draw(const std::string& script, const std::string& folder, const Arguments& arguments, const Console& console) {
  std::vector<std::string> words{kPython, find_catalog_root() + "/plots/" + script, folder};
  if (!arguments.out.empty()) words.insert(words.end(), {"--out", arguments.out});
  if (arguments.quiet) words.emplace_back("--quiet");
  console.out.flush();
  const int status = run_program(words);
  if (status == kNoProgram) {
    return report({Problem{"", fmt::format("cannot start {}", kPython), "install it: apt install python3-matplotlib"}},
                  console, kFailedRun);
  }
  return status;
}

// Simulates the scenario and writes schedule.json.
int draw_schedule(const Arguments& arguments, const Console& console) {
  const Result<Scenario> loaded = load_scenario(arguments.schedule, for_running({arguments.overrides, ""}));
  if (!loaded) return report(loaded.problems(), console, kBadInput);
  Scenario scenario = *loaded;
  if (scenario.parallelism.pipeline == 1) {
    return report({Problem{"", fmt::format("'{}' has no pipeline", arguments.schedule), "set parallelism.pipeline"}},
                  console, kBadInput);
  }
  const std::string folder = arguments.out.empty() ? "." : arguments.out;
  if (const Problems problems = prepare_folder(folder); !problems.empty()) {
    return report(problems, console, kFailedRun);
  }
  const Result<Simulation> simulation = simulate(scenario, {.record = true});
  if (!simulation) return report(simulation.problems(), console, kFailedRun);
  scenario.training.micro_batch = simulation->summary.plan.micro_batch;  // where it was to be found
  const Result<Schedule> schedule = schedule_of(scenario);
  if (!schedule) return report(schedule.problems(), console, kBadInput);
  const Problems unwritten = write_file(folder + "/schedule.json", schedule_json(scenario, *schedule, *simulation));
  if (!unwritten.empty()) return report(unwritten, console, kFailedRun);
  return draw("schedule.py", folder, arguments, console);
}

}  // namespace

int plot_results(const Arguments& arguments, const Console& console) {
  if (arguments.schedule.empty() == arguments.positional.empty()) {
    return report({Problem{"", "plot needs a folder of results, or --schedule with a scenario",
                           "usage: orrery plot DIR, or orrery plot --schedule FILE"}},
                  console, kBadInput);
  }
  if (!arguments.schedule.empty()) return draw_schedule(arguments, console);
  const std::string& folder = arguments.positional.front();
  if (!std::filesystem::is_directory(folder)) {
    return report({Problem{"", fmt::format("no folder '{}'", folder), "run or sweep with --out makes one"}}, console,
                  kBadInput);
  }
  return draw("plot.py", folder, arguments, console);
}

}  // namespace orrery
