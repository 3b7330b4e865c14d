#include "sim/study/validation/validation_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "sim/results/quantities.hpp"

namespace orrery {

namespace {

std::string signed_percent(double fraction) { return fmt::format("{:+.1f} %", fraction * 100); }

std::string table(const Validation& validation, ErrorOf what) {
  const std::vector<ErrorSummary> without = by_group(validation, what, false);
  const std::vector<ErrorSummary> all = by_group(validation, what, true);
  if (std::all_of(all.begin(), all.end(), [](const ErrorSummary& group) { return group.rows == 0; })) return "";
  std::string text = fmt::format("{:<18} {:>5} {:>8} {:>8} {:>8} {:>9} {:>9}  {:<9} {:>8} {:>9}\n",
                                 what == ErrorOf::step_time ? "step time" : "peak memory", "rows", "mean", "median",
                                 "bias", "worst", "", "", "all rows", "not run");
  for (const ErrorSummary& group : all) {
    const auto found = std::find_if(without.begin(), without.end(),
                                    [&](const ErrorSummary& other) { return other.group == group.group; });
    const ErrorSummary none;
    const ErrorSummary& sound = found == without.end() ? none : *found;
    if (group.rows == 0 && what == ErrorOf::memory) continue;
    if (sound.rows == 0) {
      text += fmt::format("{:<18} {:>5} {:>63} {:>8}\n", group.group, 0, "", group.failed);
      continue;
    }
    text += fmt::format("{:<18} {:>5} {:>8} {:>8} {:>8} {:>9} {:>9}  {:<9} {:>8} {:>9}\n", sound.group, sound.rows,
                        human_percent(sound.mean), human_percent(sound.median), signed_percent(sound.bias),
                        signed_percent(sound.worst), sound.worst_id, "", human_percent(group.mean), group.failed);
  }
  text += fmt::format(
      "{:<18} {:>5} {:>8} {:>8} {:>8} {:>30} {:>8}\n", "mean over sources", "",
      human_percent(mean_over(without, &ErrorSummary::mean)), human_percent(mean_over(without, &ErrorSummary::median)),
      signed_percent(mean_over(without, &ErrorSummary::bias)), "", human_percent(mean_over(all, &ErrorSummary::mean)));
  return text;
}

std::string reasons(const Validation& validation) {
  std::map<std::string, std::vector<std::string>> ids;
  for (const ValidatedRun& run : validation.runs) {
    if (!run.error.empty()) ids[run.measured.group + ": " + run.error].push_back(run.measured.id);
  }
  if (ids.empty()) return "";
  std::string text = "\nnot simulated\n";
  for (const auto& [reason, rows] : ids) {
    text += fmt::format("  {:>4}  {} ({}{})\n", rows.size(), reason, rows.front(),
                        rows.size() > 1 ? fmt::format(" to {}", rows.back()) : "");
  }
  return text;
}

std::string row_lines(const Validation& validation) {
  std::string text;
  for (const ValidatedRun& run : validation.runs) {
    const MeasuredRun& m = run.measured;
    text += fmt::format("{:<10} {:<28.28} {:>10} ", m.id, m.model, human_seconds(m.step_time_s));
    if (run.step_time_s) {
      text += fmt::format("{:>10} {:>9}", human_seconds(*run.step_time_s), signed_percent(*run.time_error()));
    } else {
      text += run.error;
    }
    if (!m.suspect.empty()) text += "  suspect";
    if (run.step_time_s && !m.assumptions.empty()) text += fmt::format("  ({})", fmt::join(m.assumptions, ", "));
    text += "\n";
  }
  return text + "\n";
}

// As RFC 4180 has it.
std::string cell(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"') quoted += '"';
    quoted += c;
  }
  return quoted + "\"";
}

std::string figure(const std::optional<double>& value) { return value ? fmt::format("{}", *value) : ""; }

}  // namespace

std::string validation_text(const Validation& validation, bool rows) {
  std::string text = rows ? row_lines(validation) : "";
  text += table(validation, ErrorOf::step_time);
  if (const std::string memory = table(validation, ErrorOf::memory); !memory.empty()) text += "\n" + memory;
  return text + reasons(validation);
}

std::string validation_csv(const Validation& validation) {
  std::string text =
      "id,group,source,model,suspect,measured_step_time_s,step_time_s,step_time_error,measured_peak_memory_gib,"
      "peak_memory_gib,peak_memory_error,assumptions,error\n";
  for (const ValidatedRun& run : validation.runs) {
    const MeasuredRun& m = run.measured;
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{}\n", cell(m.id), cell(m.group), cell(m.source),
                    cell(m.model), cell(m.suspect), m.step_time_s, figure(run.step_time_s), figure(run.time_error()),
                    figure(m.peak_memory_gib), figure(run.peak_memory_gib), figure(run.memory_error()),
                    cell(fmt::format("{}", fmt::join(m.assumptions, "; "))), cell(run.error));
  }
  return text;
}

}  // namespace orrery
