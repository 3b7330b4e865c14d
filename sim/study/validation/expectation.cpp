#include "sim/study/validation/expectation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

#include "scenarios/csv_cells.hpp"
#include "scenarios/load.hpp"
#include "sim/base/text.hpp"
#include "workloads/build.hpp"

namespace orrery {

namespace {

constexpr std::string_view kBetween = "; ";
constexpr std::array<std::string_view, 11> kColumns{"framework", "width", "span", "rows", "sources", "gpus",
                                                    "q05",       "q25",   "q50",  "q75",  "q95"};
constexpr std::size_t kFirstQuantile = 6;

std::string width_of(PrecisionRecipe recipe) {
  switch (compute_precision(recipe)) {
    case Precision::fp8:
      return "8 bits";
    case Precision::fp32:
    case Precision::tf32:
      return "32 bits";
    default:
      return "16 bits";
  }
}

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> words;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(kBetween, at), text.size());
    words.push_back(text.substr(at, end - at));
    at = end + kBetween.size();
  }
  return words;
}

void add_once(std::vector<std::string>& words, const std::string& word) {
  if (std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
}

// The value at which the weights of smaller ones come to `share` of all; a value's own weight counts half.
double weighted_quantile(const std::vector<std::pair<double, double>>& sorted, double share) {
  double all = 0;
  for (const auto& [value, weight] : sorted) all += weight;
  double below = 0;
  double before = sorted.front().first;
  double before_at = 0;
  for (const auto& [value, weight] : sorted) {
    const double at = (below + weight / 2) / all;
    if (at >= share) {
      return before_at == at ? value : before + (value - before) * (share - before_at) / (at - before_at);
    }
    below += weight;
    before = value;
    before_at = at;
  }
  return sorted.back().first;
}

bool is_ideal(const GpuSpec& gpu) {
  const auto& rates = gpu.kernels.gemm_rate;
  return std::all_of(rates.begin(), rates.end(), [](double rate) { return rate >= 1; });
}

// The kinds of GPU of the scenario that hold for `what`.
template <class What>
std::string gpus_that(const Scenario& scenario, const What& what) {
  std::vector<std::string> names;
  for (const NodeGroup& group : scenario.cluster.groups) {
    if (what(group.node.gpu)) add_once(names, group.node.gpu.name);
  }
  return join(names);
}

std::string words_for(const RunClass& of) { return fmt::format("{}, {}, {}", of.framework, of.width, of.span); }

struct Band {
  double low = 1;
  double typical = 1;
  double high = 1;
};

Band widest(std::span<const ClassAccuracy> classes) {
  Band band{.low = classes.front().ratio.front(), .typical = 0, .high = classes.front().ratio.back()};
  for (const ClassAccuracy& row : classes) {
    band.low = std::min(band.low, row.ratio.front());
    band.high = std::max(band.high, row.ratio.back());
    band.typical += row.ratio[kExpectationShares.size() / 2] / static_cast<double>(classes.size());
  }
  return band;
}

}  // namespace

RunClass run_class(const Scenario& scenario) {
  std::int64_t first_node = 0;
  if (!scenario.cluster.groups.empty()) first_node = scenario.cluster.groups.front().node.gpus;
  return {.framework = scenario.training.framework.name,
          .width = width_of(scenario.training.precision),
          .span = scenario.gpus > first_node ? "several nodes" : "one node"};
}

std::vector<std::string> gpus_of(const Scenario& scenario) {
  std::vector<std::string> names;
  for (const NodeGroup& group : scenario.cluster.groups) add_once(names, group.node.gpu.name);
  return names;
}

std::string accuracy_path() { return find_catalog_root() + "/scenarios/measured/accuracy.csv"; }

Result<std::vector<ClassAccuracy>> read_accuracy(const std::string& path) {
  const Result<CsvTable> table = read_csv_table(path);
  if (!table) return table.problems();
  Problems problems = missing_columns(*table, kColumns, "accuracies");
  if (!problems.empty()) return problems;
  std::vector<ClassAccuracy> classes;
  for (const CsvRow& row : table->rows) {
    CsvCells cells(*table, row, problems);
    ClassAccuracy accuracy{.of = {cells.text("framework"), cells.text("width"), cells.text("span")},
                           .rows = static_cast<int>(cells.count("rows")),
                           .sources = split(cells.text("sources")),
                           .gpus = split(cells.text("gpus"))};
    for (std::size_t q = 0; q < accuracy.ratio.size(); ++q) {
      accuracy.ratio[q] = cells.number(kColumns[kFirstQuantile + q], 1e-6);
    }
    classes.push_back(std::move(accuracy));
  }
  if (!problems.empty()) return problems;
  return classes;
}

std::vector<ClassAccuracy> accuracy_of(std::span<const ComparedRun> runs) {
  std::map<RunClass, std::vector<const ComparedRun*>> classes;
  for (const ComparedRun& run : runs) classes[run.of].push_back(&run);
  std::vector<ClassAccuracy> accuracies;
  for (const auto& [of, rows] : classes) {
    ClassAccuracy accuracy{.of = of, .rows = static_cast<int>(rows.size()), .sources = {}, .gpus = {}};
    std::map<std::string, int> rows_of;
    for (const ComparedRun* row : rows) {
      ++rows_of[row->source];
      add_once(accuracy.sources, row->source);
      for (const std::string& gpu : row->gpus) add_once(accuracy.gpus, gpu);
    }
    std::vector<std::pair<double, double>> weighted;
    for (const ComparedRun* row : rows)
      weighted.emplace_back(row->ratio, std::min(1.0, kFullSource / rows_of.at(row->source)));
    std::sort(weighted.begin(), weighted.end());
    for (std::size_t q = 0; q < kExpectationShares.size(); ++q) {
      accuracy.ratio[q] = weighted_quantile(weighted, kExpectationShares[q]);
    }
    std::sort(accuracy.sources.begin(), accuracy.sources.end());
    std::sort(accuracy.gpus.begin(), accuracy.gpus.end());
    accuracies.push_back(std::move(accuracy));
  }
  return accuracies;
}

std::string accuracy_csv(std::span<const ClassAccuracy> classes) {
  std::string text = fmt::format("{}\n", fmt::join(kColumns, ","));
  for (const ClassAccuracy& row : classes) {
    text += fmt::format("{},{},{},{},{},{}", row.of.framework, row.of.width, row.of.span, row.rows,
                        join(row.sources, kBetween), join(row.gpus, kBetween));
    for (const double ratio : row.ratio) text += fmt::format(",{:.3f}", ratio);
    text += "\n";
  }
  return text;
}

std::optional<Summary::Expectation> expectation_of(const Scenario& scenario, double step_time_s,
                                                   std::span<const ClassAccuracy> classes) {
  if (classes.empty() || scenario.model.images() || !gpus_that(scenario, is_ideal).empty()) return std::nullopt;
  const RunClass of = run_class(scenario);
  const auto known = std::find_if(classes.begin(), classes.end(),
                                  [&](const ClassAccuracy& row) { return row.of == of && row.rows >= kLeastRows; });
  const auto seen_on = [&](const GpuSpec& gpu) {
    return std::any_of(classes.begin(), classes.end(), [&](const ClassAccuracy& row) {
      return std::find(row.gpus.begin(), row.gpus.end(), gpu.name) != row.gpus.end();
    });
  };
  std::string strange;
  if (known != classes.end()) {
    strange = gpus_that(scenario, [&](const GpuSpec& gpu) {
      return std::find(known->gpus.begin(), known->gpus.end(), gpu.name) == known->gpus.end();
    });
  }
  Summary::Expectation expectation;
  Band band;
  if (known != classes.end() && strange.empty()) {
    band = {known->ratio.front(), known->ratio[kExpectationShares.size() / 2], known->ratio.back()};
    expectation.covered = true;
    expectation.basis = fmt::format("{} published steps ({}; {})", known->rows, words_for(of), join(known->sources));
  } else {
    band = widest(classes);
    expectation.basis = known == classes.end()
                            ? fmt::format("hardly any step is published of {}", words_for(of))
                            : fmt::format("no step of {} is published on {}", words_for(of), strange);
    expectation.basis += "; the widest band of what is";
    const std::string carried =
        gpus_that(scenario, [&](const GpuSpec& gpu) { return !gpu.kernels.measured && !seen_on(gpu); });
    if (!carried.empty()) {
      band.low /= kCarriedOver;
      band.high *= kCarriedOver;
      expectation.basis += fmt::format(", and more, as kernels of {} are not measured", carried);
    }
  }
  expectation.low_s = step_time_s * band.low;
  expectation.typical_s = step_time_s * band.typical;
  expectation.high_s = step_time_s * band.high;
  return expectation;
}

}  // namespace orrery
