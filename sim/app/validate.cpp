// `orrery validate`: published training steps, simulated and compared.
#include <fmt/format.h>

#include <ostream>

#include "sim/app/command.hpp"
#include "sim/app/commands.hpp"
#include "sim/app/progress.hpp"
#include "sim/results/files.hpp"
#include "sim/study/validation/validation.hpp"
#include "sim/study/validation/validation_text.hpp"

namespace orrery {

int run_validate_command(const Arguments& arguments, const Console& console) {
  if (!arguments.out.empty()) {
    const Problems problems = prepare_folder(arguments.out);
    if (!problems.empty()) return report(problems, console, kFailedRun);
  }
  ValidationOptions options{.threads = arguments.threads};
  ProgressLine line(arguments, console);
  if (line.shown()) options.progress = [&](std::size_t finished) { line.show(fmt::format("{} simulated", finished)); };
  const Result<Validation> validation = validate(arguments.positional, options);
  line.clear();
  if (!validation) return report(validation.problems(), console, kBadInput);
  console.out << validation_text(*validation, arguments.rows);
  if (arguments.out.empty()) return kOk;
  return report(write_file(arguments.out + "/validation.csv", validation_csv(*validation)), console, kOk);
}

}  // namespace orrery
