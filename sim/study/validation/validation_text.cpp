#include "sim/study/validation/validation_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "sim/results/quantities.hpp"
#include "sim/study/validation/ranking.hpp"

namespace orrery {

namespace {

std::string signed_percent(double fraction) { return fmt::format("{:+.1f} %", fraction * 100); }

std::string table(const Validation& validation, ErrorOf what) {
  const std::vector<ErrorSummary> without = by_group(validation, what, false);
  const std::vector<ErrorSummary> all = by_group(validation, what, true);
  if (std::all_of(all.begin(), all.end(), [](const ErrorSummary& group) { return group.rows == 0; })) return "";
  std::string text = fmt::format("{:<18} {:>5} {:>8} {:>8} {:>8} {:>9} {:>9}  {:<9} {:>8} {:>9}\n", name_of(what),
                                 "rows", "mean", "median", "bias", "worst", "", "", "all rows", "not run");
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

std::string band_words(const ReadingBand& band) {
  const auto because = [](const std::string& what) { return what.empty() ? "" : fmt::format(" with {}", what); };
  return fmt::format("  band {}{} to {}{}", human_seconds(band.low_s), because(band.low), human_seconds(band.high_s),
                     because(band.high));
}

// How many measured times other readings of their rows can explain.
std::string bands(const Validation& validation) {
  int rows = 0;
  int within = 0;
  for (const ValidatedRun& run : validation.runs) {
    if (!run.band || !run.measured.suspect.empty()) continue;
    ++rows;
    const double measured = run.measured.step_time_s;
    if (measured >= run.band->low_s && measured <= run.band->high_s) ++within;
  }
  if (rows == 0) return "";
  return fmt::format(
      "\nother readings of {} rows that leave settings open: {} were measured between the simulated times\n", rows,
      within);
}

std::string ranking(const Validation& validation, bool rows) {
  const std::vector<PlanSweep> sweeps = plan_sweeps(validation);
  if (sweeps.empty()) return "";
  std::string text =
      fmt::format("\n{:<18} {:>6} {:>6} {:>9} {:>6} {:>8} {:>12} {:>6} {:>15}\n", "plans ranked", "sweeps", "plans",
                  "Spearman", "least", ">= 0.95", "choice costs", "most", "3 % or less");
  for (const RankingSummary& sum : ranking_by_group(sweeps)) {
    text += fmt::format("{:<18} {:>6} {:>6} {:>9.3f} {:>6.2f} {:>8} {:>12} {:>6} {:>15}\n", sum.group, sum.sweeps,
                        sum.plans, sum.spearman, sum.least_spearman, sum.ranked, human_percent(sum.loss),
                        human_percent(sum.most_loss), sum.found);
  }
  if (!rows) return text;
  for (const PlanSweep& sweep : sweeps) {
    text += fmt::format("  {:<16} {:<60.60} {:>3} plans, Spearman {}, choice costs {} ({}, best {})\n", sweep.group,
                        sweep.name, sweep.plans, sweep.spearman ? fmt::format("{:.3f}", *sweep.spearman) : "unknown",
                        human_percent(sweep.loss), sweep.chosen_id, sweep.best_id);
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
    if (run.band) text += band_words(*run.band);
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
  return text + ranking(validation, rows) + bands(validation) + reasons(validation);
}

std::string validation_csv(const Validation& validation) {
  std::string text =
      "id,group,source,model,suspect,measured_step_time_s,step_time_s,step_time_error,measured_peak_memory_gib,"
      "peak_memory_gib,peak_memory_error,assumptions,band_low_s,band_high_s,error\n";
  for (const ValidatedRun& run : validation.runs) {
    const MeasuredRun& m = run.measured;
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", cell(m.id), cell(m.group), cell(m.source),
                        cell(m.model), cell(m.suspect), m.step_time_s, figure(run.step_time_s),
                        figure(run.time_error()), figure(m.peak_memory_gib), figure(run.peak_memory_gib),
                        figure(run.memory_error()), cell(fmt::format("{}", fmt::join(m.assumptions, "; "))),
                        run.band ? fmt::format("{}", run.band->low_s) : "",
                        run.band ? fmt::format("{}", run.band->high_s) : "", cell(run.error));
  }
  return text;
}

std::string ranking_csv(const Validation& validation) {
  std::string text = "group,sweep,plans,spearman,choice_costs,chosen,best\n";
  for (const PlanSweep& sweep : plan_sweeps(validation)) {
    text += fmt::format("{},{},{},{},{},{},{}\n", cell(sweep.group), cell(sweep.name), sweep.plans,
                        figure(sweep.spearman), sweep.loss, sweep.chosen_id, sweep.best_id);
  }
  return text;
}

std::string validation_markdown(const Validation& validation) {
  std::string text =
      "| source | rows | mean error | median | bias | all rows | not simulated "
      "|\n|---|---:|---:|---:|---:|---:|---:|\n";
  const std::vector<ErrorSummary> sound = by_group(validation, ErrorOf::step_time, false);
  const std::vector<ErrorSummary> all = by_group(validation, ErrorOf::step_time, true);
  std::vector<const ErrorSummary*> order;
  for (const ErrorSummary& group : sound) order.push_back(&group);
  std::stable_sort(order.begin(), order.end(),
                   [](const ErrorSummary* a, const ErrorSummary* b) { return a->mean < b->mean; });
  for (const ErrorSummary* group : order) {
    const auto whole =
        std::find_if(all.begin(), all.end(), [&](const ErrorSummary& other) { return other.group == group->group; });
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} |\n", group->group, group->rows, human_percent(group->mean),
                        human_percent(group->median), signed_percent(group->bias), human_percent(whole->mean),
                        whole->failed);
  }
  text += fmt::format(
      "| mean over sources | | {} | {} | {} | {} | |\n", human_percent(mean_over(sound, &ErrorSummary::mean)),
      human_percent(mean_over(sound, &ErrorSummary::median)), signed_percent(mean_over(sound, &ErrorSummary::bias)),
      human_percent(mean_over(all, &ErrorSummary::mean)));
  return text;
}

}  // namespace orrery
