// `orrery plot`: hands a folder of results to plots/plot.py, which reads files only.
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

}  // namespace

int plot_results(const Arguments& arguments, const Console& console) {
  const std::string& folder = arguments.positional.at(0);
  if (!std::filesystem::is_directory(folder)) {
    return report({Problem{"", fmt::format("no folder '{}'", folder), "run or sweep with --out makes one"}}, console,
                  kBadInput);
  }
  const std::string script = find_catalog_root() + "/plots/plot.py";
  std::vector<std::string> words{kPython, script, folder};
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

}  // namespace orrery
