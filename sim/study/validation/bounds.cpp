#include "sim/study/validation/bounds.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "scenarios/csv_cells.hpp"
#include "sim/results/quantities.hpp"

namespace orrery {

namespace {

constexpr double kMeanMargin = 0.003;
constexpr double kBiasMargin = 0.005;
constexpr std::string_view kOverall = "mean over sources";
constexpr std::array<std::string_view, 6> kColumns{"set", "source", "quantity", "rows", "mean_percent", "bias_percent"};

// What is compared with bounds: the sums of every source, and their mean.
struct Figure {
  std::string source;
  std::string_view quantity;
  int rows = 0;
  double mean = 0;
  double bias = 0;
};

std::vector<Figure> figures_of(const Validation& validation) {
  std::vector<Figure> figures;
  for (const ErrorOf what : {ErrorOf::step_time, ErrorOf::memory}) {
    const std::string_view quantity = name_of(what);
    const std::vector<ErrorSummary> groups = by_group(validation, what, false);
    int rows = 0;
    for (const ErrorSummary& group : groups) {
      if (group.rows == 0 && (what == ErrorOf::memory || group.failed == 0)) continue;
      figures.push_back({group.group, quantity, group.rows, group.mean, group.bias});
      rows += group.rows;
    }
    if (rows == 0) continue;
    figures.push_back({std::string(kOverall), quantity, rows, mean_over(groups, &ErrorSummary::mean),
                       mean_over(groups, &ErrorSummary::bias)});
  }
  return figures;
}

}  // namespace

std::string set_of(int sample) { return sample > 0 ? fmt::format("sample of {}", sample) : "all"; }

Result<std::vector<AccuracyBound>> read_bounds(const std::string& path) {
  const Result<CsvTable> table = read_csv_table(path);
  if (!table) return table.problems();
  Problems problems = missing_columns(*table, kColumns, "bounds");
  if (!problems.empty()) return problems;
  std::vector<AccuracyBound> bounds;
  for (const CsvRow& row : table->rows) {
    CsvCells cells(*table, row, problems);
    bounds.push_back({.set = cells.text("set"),
                      .source = cells.text("source"),
                      .quantity = cells.text("quantity"),
                      .rows = static_cast<int>(cells.count("rows")),
                      .mean = cells.number("mean_percent", 0) / 100,
                      .bias = cells.number("bias_percent", 0) / 100});
  }
  if (!problems.empty()) return problems;
  return bounds;
}

std::vector<std::string> exceeded(const Validation& validation, std::span<const AccuracyBound> bounds,
                                  std::string_view set) {
  const std::vector<Figure> figures = figures_of(validation);
  std::set<std::string> here;
  for (const Figure& figure : figures) here.insert(figure.source);
  const bool whole = std::all_of(bounds.begin(), bounds.end(), [&](const AccuracyBound& bound) {
    return bound.set != set || here.count(bound.source) == 1;
  });
  std::vector<std::string> sentences;
  for (const Figure& figure : figures) {
    if (figure.source == kOverall && !whole) continue;
    const auto bound = std::find_if(bounds.begin(), bounds.end(), [&](const AccuracyBound& b) {
      return b.set == set && b.source == figure.source && b.quantity == figure.quantity;
    });
    const std::string name = fmt::format("{}, {}", figure.source, figure.quantity);
    if (bound == bounds.end()) {
      sentences.push_back(fmt::format("{}: no bound is recorded", name));
      continue;
    }
    if (figure.mean > bound->mean) {
      sentences.push_back(
          fmt::format("{}: mean error {}, at most {}", name, human_percent(figure.mean), human_percent(bound->mean)));
    }
    if (std::abs(figure.bias) > bound->bias) {
      sentences.push_back(fmt::format("{}: bias {:+.1f} %, at most {} either way", name, figure.bias * 100,
                                      human_percent(bound->bias)));
    }
    if (figure.rows < bound->rows) {
      sentences.push_back(fmt::format("{}: {} rows, at least {}", name, figure.rows, bound->rows));
    }
  }
  return sentences;
}

std::string bounds_csv(const Validation& validation, std::string_view set, bool head) {
  std::string text = head ? fmt::format("{}\n", fmt::join(kColumns, ",")) : "";
  const auto tenths_up = [](double fraction) { return std::ceil(fraction * 1000) / 10; };
  for (const Figure& figure : figures_of(validation)) {
    text += fmt::format("{},{},{},{},{:.1f},{:.1f}\n", set, figure.source, figure.quantity, figure.rows,
                        tenths_up(figure.mean + kMeanMargin), tenths_up(std::abs(figure.bias) + kBiasMargin));
  }
  return text;
}

}  // namespace orrery
