// The command `orrery`, callable in-process: commands and options are tables, from which parsing, --help and
// suggestions follow. Adding a command is one row in command.cpp and one function.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

namespace orrery {

// Exit statuses.
inline constexpr int kOk = 0;
inline constexpr int kFailedRun = 1;  // the simulation, the simulated step (out of memory) or writing files failed
inline constexpr int kBadInput = 2;   // command line or scenario

// Does what the arguments (without the program's name) say. Results go to `out`; errors, progress and logs to `err`.
// Several calls may run at the same time, on streams of their own.
[[nodiscard]] int run_command(const std::vector<std::string>& arguments, std::ostream& out, std::ostream& err);

}  // namespace orrery
