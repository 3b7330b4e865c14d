#include "sim/study/compare_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "sim/results/quantities.hpp"

namespace orrery {

namespace {

constexpr std::size_t kPage = 100;     // columns of a terminal
constexpr std::size_t kLeast = 10;     // of a column
constexpr std::size_t kMost = 16;      // of a column whose name can be broken
constexpr double kWorthARow = 0.0005;  // of a step, in some run

struct TableRow {
  std::string name;
  std::vector<std::string> cells;  // [runs that are in the table]
};

class Table {
 public:
  explicit Table(const Comparison& comparison) {
    for (const CompareRun& run : comparison.runs) {
      if (!run.summary.has_value()) continue;
      names_.push_back(run.name);
      runs_.push_back(&*run.summary);
    }
    if (runs_.empty()) return;
    time_rows();
    traffic_rows();
    memory_rows();
    row("training time", [](const Summary& s) { return s.training ? human_seconds(s.training->time_s) : ""; });
    row("GPU-hours",
        [](const Summary& s) { return s.training ? with_separators(std::llround(s.training->gpu_hours)) : ""; });
  }

  // As many parts as it takes; each has the first run, and at least one other if there is one.
  [[nodiscard]] std::string text() const {
    if (names_.empty()) return "";
    std::size_t label = 0;
    for (const TableRow& row : rows_) label = std::max(label, row.name.size());
    std::vector<std::size_t> widths;
    for (std::size_t i = 0; i < names_.size(); ++i) widths.push_back(width_of(i));
    std::string text;
    std::size_t next = 1;
    do {
      std::vector<std::size_t> columns{0};
      std::size_t used = label + 2 + widths[0];
      while (next < names_.size() && (columns.size() == 1 || used + 2 + widths[next] <= kPage)) {
        used += 2 + widths[next];
        columns.push_back(next++);
      }
      if (!text.empty()) text += '\n';
      text += part(columns, widths, label);
    } while (next < names_.size());
    return text;
  }

 private:
  using Cell = std::function<std::string(const Summary&)>;

  // Left out where it is empty for all.
  void row(std::string name, const Cell& cell) {
    TableRow row{std::move(name), {}};
    bool any = false;
    for (const Summary* run : runs_) {
      row.cells.push_back(cell(*run));
      any = any || !row.cells.back().empty();
    }
    if (any) rows_.push_back(std::move(row));
  }

  void seconds_row(std::string name, const std::function<double(const Summary&)>& seconds) {
    const bool shown = std::any_of(runs_.begin(), runs_.end(),
                                   [&](const Summary* run) { return seconds(*run) >= kWorthARow * run->step.time_s; });
    if (!shown) return;
    row(std::move(name), [&](const Summary& s) { return human_seconds(seconds(s)); });
  }

  void time_rows() {
    const double base_s = runs_[0]->step.time_s;
    row("GPUs", [&](const Summary& s) { return with_separators(s.cluster.gpus); });
    row("step time", [](const Summary& s) { return human_seconds(s.step.time_s); });
    row("  against the first", [&](const Summary& s) { return fmt::format("{:.3f}", s.step.time_s / base_s); });
    row(fmt::format("{}/s", throughput_of(runs_[0]->step).unit),
        [](const Summary& s) { return with_separators(std::llround(throughput_of(s.step).per_s)); });
    row("TFLOP/s per GPU", [](const Summary& s) { return fmt::format("{:.1f}", s.step.model_tflops_per_gpu); });
    row("MFU", [](const Summary& s) { return s.step.mfu.has_value() ? human_percent(*s.step.mfu) : ""; });
    seconds_row("compute", [](const Summary& s) { return s.breakdown.compute_s; });
    std::set<std::string> kinds;
    for (const Summary* run : runs_) {
      for (const auto& [kind, seconds] : run->breakdown.exposed_communication_s) kinds.insert(kind);
    }
    for (const std::string& kind : kinds) {
      seconds_row(fmt::format("exposed {}", kind), [&](const Summary& s) {
        const auto found = s.breakdown.exposed_communication_s.find(kind);
        return found == s.breakdown.exposed_communication_s.end() ? 0.0 : found->second;
      });
    }
    seconds_row("pipeline bubble", [](const Summary& s) { return s.breakdown.bubble_s - s.breakdown.waiting_s; });
    seconds_row("waiting for late ranks", [](const Summary& s) { return s.breakdown.waiting_s; });
    seconds_row("waiting for input", [](const Summary& s) { return s.breakdown.data_stall_s; });
    seconds_row("host and launches", [](const Summary& s) { return s.breakdown.other_s; });
  }

  void traffic_rows() {
    row("messages", [](const Summary& s) {
      return s.communication.messages == 0 ? "" : human_count(static_cast<double>(s.communication.messages));
    });
    row("bytes sent",
        [](const Summary& s) { return s.communication.bytes == 0 ? "" : human_traffic(s.communication.bytes); });
    std::set<std::string> kinds;
    for (const Summary* run : runs_) {
      for (const auto& [kind, bytes] : run->communication.by_link_kind) kinds.insert(kind);
    }
    for (const std::string& kind : kinds) {
      row(fmt::format("  over {}", kind), [&](const Summary& s) {
        const auto found = s.communication.by_link_kind.find(kind);
        return found == s.communication.by_link_kind.end() || found->second == 0 ? "" : human_traffic(found->second);
      });
    }
  }

  void memory_rows() {
    row("peak memory", [](const Summary& s) { return human_memory(s.memory.peak_bytes); });
    std::vector<std::string> tags;  // in order of first appearance: of the base by size
    for (const Summary* run : runs_) {
      for (const auto& [tag, bytes] : run->memory.by_tag) {
        if (std::find(tags.begin(), tags.end(), tag) == tags.end()) tags.push_back(tag);
      }
    }
    for (const std::string& tag : tags) {
      std::string spoken = tag;
      std::replace(spoken.begin(), spoken.end(), '_', ' ');
      row("  " + spoken, [&](const Summary& s) {
        for (const auto& [name, bytes] : s.memory.by_tag) {
          if (name == tag) return human_memory(bytes);
        }
        return std::string();
      });
    }
    row("fits", [](const Summary& s) { return !s.memory.fits.has_value() ? "" : s.fits() ? "yes" : "NO"; });
  }

  // Names stand above their columns, in several lines where they are longer than what is below them.
  static std::vector<std::string> lines_of(const std::string& name) {
    std::vector<std::string> lines{""};
    std::size_t at = 0;
    while (at < name.size()) {
      const std::size_t end = std::min(name.find(' ', at), name.size());
      const std::string word = name.substr(at, end - at);
      if (!lines.back().empty() && lines.back().size() + 1 + word.size() > kMost) lines.emplace_back();
      if (!lines.back().empty()) lines.back() += ' ';
      lines.back() += word;
      at = end + 1;
    }
    return lines;
  }

  [[nodiscard]] std::size_t width_of(std::size_t i) const {
    std::size_t width = kLeast;
    for (const std::string& line : lines_of(names_[i])) width = std::max(width, line.size());
    for (const TableRow& row : rows_) width = std::max(width, row.cells[i].size());
    return width;
  }

  [[nodiscard]] std::string part(const std::vector<std::size_t>& columns, const std::vector<std::size_t>& widths,
                                 std::size_t label) const {
    std::size_t height = 0;
    for (const std::size_t column : columns) height = std::max(height, lines_of(names_[column]).size());
    std::string text;
    for (std::size_t line = 0; line < height; ++line) {
      text += std::string(label, ' ');
      for (const std::size_t column : columns) {
        const std::vector<std::string> lines = lines_of(names_[column]);
        const std::size_t above = height - lines.size();  // names end at the table
        text += fmt::format("  {:>{}}", line < above ? std::string() : lines[line - above], widths[column]);
      }
      text += "\n";
    }
    for (const TableRow& row : rows_) {
      text += fmt::format("{:<{}}", row.name, label);
      for (const std::size_t column : columns) text += fmt::format("  {:>{}}", row.cells[column], widths[column]);
      text += "\n";
    }
    return text;
  }

  std::vector<std::string> names_;
  std::vector<const Summary*> runs_;
  std::vector<TableRow> rows_;
};

// Broken at blanks into lines of at most a page.
std::string wrapped(const std::string& paragraph) {
  std::string text;
  std::size_t line = 0;
  for (std::size_t at = 0; at < paragraph.size();) {
    const std::size_t end = std::min(paragraph.find(' ', at), paragraph.size());
    const std::size_t word = end - at;
    if (line > 0 && line + 1 + word > kPage) {
      text += '\n';
      line = 0;
    } else if (line > 0) {
      text += ' ';
      ++line;
    }
    text += paragraph.substr(at, word);
    line += word;
    at = end + 1;
  }
  return text + "\n";
}

}  // namespace

std::string explanation_text(const Comparison& comparison) {
  std::string text;
  const auto add = [&](const std::string& paragraph) {
    if (!text.empty()) text += '\n';
    text += paragraph;
  };
  for (const CompareRun& run : comparison.runs) {
    const bool base = &run == &comparison.runs.front();
    if (!run.summary.has_value()) {
      add(fmt::format("{} cannot be run: {}\n", run.name, run.error));
    } else if (base || comparison.explanations.empty()) {
      add(wrapped(fmt::format("{} takes {} a step; of it, {}.", run.name, human_seconds(run.summary->step.time_s),
                              parts_of_step(*run.summary))));
    } else {
      const auto found = std::find_if(comparison.explanations.begin(), comparison.explanations.end(),
                                      [&](const Explanation& e) { return e.variant == run.name; });
      add(wrapped(fmt::format("{} Of its step, {}.", found->text, parts_of_step(*run.summary))));
    }
  }
  return text;
}

std::string comparison_text(const Comparison& comparison) {
  return fmt::format("{}\n\n{}\n{}", comparison.scenario, Table(comparison).text(), explanation_text(comparison));
}

}  // namespace orrery
