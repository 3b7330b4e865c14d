// `orrery import`: another framework's plan as a scenario, and a report of what became of each of its keys.
#include "scenarios/import/import.hpp"

#include <filesystem>
#include <ostream>

#include "sim/app/command.hpp"
#include "sim/app/commands.hpp"
#include "sim/results/files.hpp"
#include "sim/study/simulate.hpp"

namespace orrery {

int import_plan_command(const Arguments& arguments, const Console& console) {
  ImportOptions options;
  options.format = arguments.format;
  options.model = arguments.model;
  options.clusters = arguments.clusters;
  options.scenario_folder = std::filesystem::path(arguments.out).parent_path().string();
  options.load = for_running({arguments.overrides, ""});
  const Result<ImportedPlan> plan = import_plan(arguments.positional.at(0), options);
  if (!plan) return report(plan.problems(), console, kBadInput);

  if (arguments.out.empty()) {
    console.out << plan->text;
  } else {
    const Problems unwritten = write_file(arguments.out, plan->text);
    if (!unwritten.empty()) return report(unwritten, console, kFailedRun);
  }
  if (!arguments.quiet) {
    std::ostream& out = arguments.out.empty() ? console.err : console.out;
    out << to_string(plan->lines);
    for (const std::string& remark : plan->scenario.remarks) out << remark << "\n";
    if (!arguments.out.empty())
      out << "wrote " << arguments.out << "; play it with  orrery run " << arguments.out << "\n";
  }
  return kOk;
}

}  // namespace orrery
