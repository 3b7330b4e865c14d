#include "workloads/schedules/user_table.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace orrery {

namespace {

constexpr const char* kKey = "parallelism.schedule.file";
constexpr std::size_t kProblemsMost = 20;  // of one table
constexpr std::int64_t kNumberMost = 1'000'000;

// A pass as a cell says it, and where.
struct Cell {
  Pass pass = Pass::forward;
  std::int64_t virtual_stage = 0;
  std::int64_t micro_batch = 0;
  int column = 0;       // of the file
  bool paired = false;  // with the one after it
};

struct Row {
  std::vector<Cell> cells;
  int line = 0;
};

struct Table {
  std::vector<Row> rows;
  Problems problems;
};

std::string_view trimmed(std::string_view text, int& column) {
  constexpr std::string_view kBlank = " \t\r\"";
  const std::size_t first = std::min(text.find_first_not_of(kBlank), text.size());
  column += static_cast<int>(first);
  text.remove_prefix(first);
  return text.substr(0, text.find_last_not_of(kBlank) + 1);
}

// A number at the front of the text, which it leaves.
std::optional<std::int64_t> take_number(std::string_view& text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || number < 0 || number > kNumberMost) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return number;
}

std::optional<Cell> parse_pass(std::string_view text) {
  const std::optional<std::int64_t> stage = take_number(text);
  if (!stage || text.empty()) return std::nullopt;
  const std::size_t pass = kPassLetters.find(text.front());
  if (pass == std::string_view::npos) return std::nullopt;
  text.remove_prefix(1);
  const std::optional<std::int64_t> micro_batch = take_number(text);
  if (!micro_batch || !text.empty()) return std::nullopt;
  return Cell{static_cast<Pass>(pass), *stage, *micro_batch};
}

class TableReader {
 public:
  explicit TableReader(const FileText& file) : file_(file) {}

  Table run() && {
    std::string_view rest = file_.text;
    for (int line = 1; !rest.empty(); ++line) {
      const std::size_t end = std::min(rest.find('\n'), rest.size());
      read_row(rest.substr(0, end), line);
      rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    // Lines at the end that hold nothing are no stages.
    while (!table_.rows.empty() && table_.rows.back().cells.empty()) table_.rows.pop_back();
    return std::move(table_);
  }

 private:
  void read_row(std::string_view line, int number) {
    table_.rows.push_back({{}, number});
    int column = 1;
    while (!line.empty()) {
      const std::size_t end = std::min(line.find(','), line.size());
      read_cell(line.substr(0, end), number, column);
      column += static_cast<int>(end) + 1;
      line.remove_prefix(std::min(end + 1, line.size()));
    }
  }

  void read_cell(std::string_view text, int line, int column) {
    text = trimmed(text, column);
    if (text.empty()) return;
    constexpr std::string_view kPair = ")OVERLAP_F_B";
    if (text.front() == '(' && text.ends_with(kPair)) {
      const std::string_view both = text.substr(1, text.size() - 1 - kPair.size());
      const std::size_t middle = both.find(';');
      if (middle != std::string_view::npos) {
        add(both.substr(0, middle), line, column + 1, true);
        add(both.substr(middle + 1), line, column + 2 + static_cast<int>(middle));
        return;
      }
    }
    add(text, line, column);
  }

  void add(std::string_view text, int line, int column, bool paired = false) {
    text = trimmed(text, column);
    std::optional<Cell> cell = parse_pass(text);
    if (!cell) {
      constexpr std::size_t kShown = 40;
      table_.problems.push_back(
          {kKey,
           fmt::format("'{}' is no pass of a micro-batch", text.substr(0, kShown)),
           "such as 0F3, 0B3, or by halves 0I3 and 0W3: virtual stage, pass, micro-batch; without communication",
           {file_.path, line, column}});
      return;
    }
    cell->column = column;
    cell->paired = paired;
    table_.rows.back().cells.push_back(*cell);
  }

  const FileText& file_;
  Table table_;
};

// From rows to stages: which virtual stages each holds, in the order of the model.
class ScheduleMaker {
 public:
  ScheduleMaker(const FileText& file, Table table, std::int64_t stages, std::int64_t micro_batches)
      : file_(file), table_(std::move(table)), stages_(stages), micro_batches_(micro_batches) {}

  Result<Schedule> run() && {
    problems_ = table_.problems;
    if (problems_.empty()) find_places();
    if (problems_.empty()) check_numbers();
    if (!problems_.empty()) return first_of(std::move(problems_));
    Schedule schedule = made();
    for (const ScheduleMistake& mistake : check_schedule(schedule)) {
      const Row& row = table_.rows[static_cast<std::size_t>(mistake.stage)];
      const int column = mistake.slot < 0 ? 1 : row.cells[static_cast<std::size_t>(mistake.slot)].column;
      add(mistake.text, "", row.line, column);
    }
    if (!problems_.empty()) return first_of(std::move(problems_));
    return schedule;
  }

 private:
  void add(std::string message, std::string note, int line = 0, int column = 0) {
    problems_.push_back({kKey, std::move(message), std::move(note), {file_.path, line, column}});
  }

  static Problems first_of(Problems problems) {
    if (problems.size() > kProblemsMost) problems.resize(kProblemsMost);
    return problems;
  }

  void find_places() {
    if (file_.path.empty()) {
      problems_.push_back({"parallelism.schedule", "a table needs its file", "schedule: {kind: table, file: my.csv}"});
      return;
    }
    const auto rows = static_cast<std::int64_t>(table_.rows.size());
    if (rows != stages_) {
      add(fmt::format("{} rows for {} pipeline stages", rows, stages_), "one for each stage");
      return;
    }
    std::map<std::int64_t, std::size_t> held_by;
    for (std::size_t s = 0; s < table_.rows.size(); ++s) {
      std::map<std::int64_t, std::int32_t> chunk_of;
      for (const Cell& cell : table_.rows[s].cells) {
        const auto [found, fresh] = held_by.try_emplace(cell.virtual_stage, s);
        if (found->second != s) {
          add(fmt::format("virtual stage {} is in the rows of stages {} and {}", cell.virtual_stage, found->second, s),
              "each belongs to one stage", table_.rows[s].line, cell.column);
          return;
        }
        chunk_of[cell.virtual_stage] = 0;
      }
      std::int32_t chunks = 0;
      for (auto& [virtual_stage, chunk] : chunk_of) chunk = chunks++;
      chunks_.push_back(std::move(chunk_of));
    }
  }

  void check_numbers() {
    std::vector<std::int64_t> all;
    for (std::size_t s = 0; s < chunks_.size(); ++s) {
      if (chunks_[s].size() != chunks_[0].size()) {
        add(fmt::format("stage {} holds {} virtual stages, stage 0 {}", s, chunks_[s].size(), chunks_[0].size()),
            "as many on each", table_.rows[s].line, 1);
      }
      for (const auto& [virtual_stage, chunk] : chunks_[s]) all.push_back(virtual_stage);
    }
    std::sort(all.begin(), all.end());
    for (std::size_t v = 0; v < all.size() && problems_.empty(); ++v) {
      if (all[v] != static_cast<std::int64_t>(v)) add(fmt::format("virtual stage {} is missing", v), "");
    }
    std::int64_t most = -1;
    for (const Row& row : table_.rows) {
      for (const Cell& cell : row.cells) most = std::max(most, cell.micro_batch);
    }
    if (most + 1 != micro_batches_) {
      add(fmt::format("the table has {} micro-batches, the step {}", most + 1, micro_batches_),
          "the step has global_batch / (data degree x micro_batch)");
    }
    // Before anything is made that is as large as the numbers in the cells.
    for (std::size_t s = 0; s < table_.rows.size() && problems_.empty(); ++s) {
      const auto passes = static_cast<std::int64_t>(table_.rows[s].cells.size());
      const std::int64_t least = 2 * micro_batches_ * static_cast<std::int64_t>(chunks_[s].size());
      if (passes >= least) continue;
      add(fmt::format("stage {} runs {} passes, of {} micro-batches through {} chunks", s, passes, micro_batches_,
                      chunks_[s].size()),
          fmt::format("at least {}: forward and backward of each", least), table_.rows[s].line, 1);
    }
  }

  [[nodiscard]] Schedule made() const {
    Schedule schedule;
    schedule.shape = {stages_, micro_batches_, static_cast<std::int64_t>(chunks_[0].size())};
    schedule.overlaps_transfers = true;
    schedule.streams_per_chunk = true;
    std::vector<std::vector<VirtualStage>> at;
    for (std::size_t s = 0; s < chunks_.size(); ++s) {
      at.emplace_back();
      for (const auto& [virtual_stage, chunk] : chunks_[s]) at.back().push_back({virtual_stage, 0});
      schedule.slots.emplace_back();
      for (const Cell& cell : table_.rows[s].cells) {
        schedule.slots.back().push_back(
            {cell.pass, static_cast<std::int32_t>(cell.micro_batch), chunks_[s].at(cell.virtual_stage), cell.paired});
      }
    }
    schedule.placement = PipelinePlacement(std::move(at));
    return schedule;
  }

  const FileText& file_;
  Table table_;
  std::int64_t stages_;
  std::int64_t micro_batches_;
  std::vector<std::map<std::int64_t, std::int32_t>> chunks_;  // [stages]: the chunk that a virtual stage is
  Problems problems_;
};

}  // namespace

Result<Schedule> read_user_table(const FileText& file, std::int64_t stages, std::int64_t micro_batches) {
  return ScheduleMaker(file, TableReader(file).run(), stages, micro_batches).run();
}

std::int64_t user_table_chunks(const FileText& file, std::int64_t stages) {
  std::int64_t most = 0;
  for (const Row& row : TableReader(file).run().rows) {
    for (const Cell& cell : row.cells) most = std::max(most, cell.virtual_stage);
  }
  return std::max<std::int64_t>(1, (most + 1) / stages);
}

}  // namespace orrery
