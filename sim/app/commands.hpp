// One function per command. Each gets a parsed command line whose number of positional words has been checked, and
// returns an exit status (command.hpp).
#pragma once

#include <iosfwd>

#include "sim/app/options.hpp"

namespace orrery {

// Where a command writes.
struct Console {
  std::ostream& out;      // results
  std::ostream& err;      // errors, progress, logs
  bool terminal = false;  // err is a terminal: progress may rewrite its line
};

[[nodiscard]] int run_scenario(const Arguments& arguments, const Console& console);
[[nodiscard]] int run_sweep_command(const Arguments& arguments, const Console& console);
[[nodiscard]] int run_compare_command(const Arguments& arguments, const Console& console);
[[nodiscard]] int run_validate_command(const Arguments& arguments, const Console& console);
[[nodiscard]] int show_catalog(const Arguments& arguments, const Console& console);
[[nodiscard]] int import_plan_command(const Arguments& arguments, const Console& console);
[[nodiscard]] int plot_results(const Arguments& arguments, const Console& console);

// Prints problems to console.err; returns `status`.
[[nodiscard]] int report(const Problems& problems, const Console& console, int status);

}  // namespace orrery
