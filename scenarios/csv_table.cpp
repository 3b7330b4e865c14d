#include "scenarios/csv_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scenarios/text_check.hpp"
#include "scenarios/yaml_document.hpp"

namespace orrery {

namespace {

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& name) : text_(text) { table_.file = name; }

  Result<CsvTable> run() && {
    while (at_ < text_.size()) {
      CsvRow row = next_row();
      if (row.cells.size() == 1 && row.cells[0].empty()) continue;  // an empty line
      if (table_.columns.empty()) {
        name_columns(std::move(row));
      } else {
        add(std::move(row));
      }
    }
    if (table_.columns.empty()) problem(1, 1, "the table is empty", "its first line names the columns");
    if (!problems_.empty()) return std::move(problems_);
    return std::move(table_);
  }

 private:
  void problem(int line, int column, std::string message, std::string note) {
    problems_.push_back({"", std::move(message), std::move(note), {table_.file, line, column}});
  }

  // One record, which may be of several lines where cells are quoted.
  CsvRow next_row() {
    CsvRow row;
    row.line = line_;
    std::size_t begin = at_;  // of the present line
    for (;;) {
      row.at.push_back(static_cast<int>(at_ - begin) + 1);
      row.cells.push_back(at_ < text_.size() && text_[at_] == '"' ? quoted_cell(begin) : plain_cell());
      if (at_ >= text_.size()) return row;
      if (text_[at_++] == '\n') {
        ++line_;
        return row;
      }
    }
  }

  // Up to a comma or the end of the line.
  std::string plain_cell() {
    const std::size_t end = std::min(text_.find_first_of(",\n", at_), text_.size());
    std::string_view cell = text_.substr(at_, end - at_);
    if (!cell.empty() && cell.back() == '\r') cell.remove_suffix(1);
    at_ = end;
    return std::string(cell);
  }

  std::string quoted_cell(std::size_t& line_begin) {
    const int line = line_;
    const int column = static_cast<int>(at_ - line_begin) + 1;
    std::string cell;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"') {
        if (at_ + 1 >= text_.size() || text_[at_ + 1] != '"') break;
        ++at_;
      }
      if (text_[at_] == '\n') {
        ++line_;
        line_begin = at_ + 1;
      }
      cell += text_[at_];
    }
    if (at_ >= text_.size()) {
      problem(line, column, "a quote that nothing closes", "quotes inside a cell are doubled");
      return cell;
    }
    ++at_;
    const std::string rest = plain_cell();
    if (!rest.empty()) problem(line, column, "text behind a closing quote", "quotes inside a cell are doubled");
    return cell;
  }

  void name_columns(CsvRow row) {
    for (std::size_t i = 0; i < row.cells.size(); ++i) {
      const auto first = std::find(row.cells.begin(), row.cells.end(), row.cells[i]);
      if (static_cast<std::size_t>(first - row.cells.begin()) < i) {
        problem(row.line, row.at[i], fmt::format("a second column {}", in_quotes(row.cells[i])), "");
      }
    }
    table_.columns = std::move(row.cells);
  }

  void add(CsvRow row) {
    if (row.cells.size() != table_.columns.size()) {
      problem(row.line, 1, fmt::format("{} cells, not {}", row.cells.size(), table_.columns.size()),
              "as many as the first line names");
      return;
    }
    table_.rows.push_back(std::move(row));
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
  CsvTable table_;
  Problems problems_;
};

}  // namespace

std::optional<std::size_t> CsvTable::column(std::string_view name) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found == columns.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns.begin());
}

Result<CsvTable> parse_csv_table(std::string_view text, const std::string& name) {
  if (const std::optional<Problem> problem = find_text_problem(text, name)) return Problems{*problem};
  return CsvReader(without_byte_order_mark(text), name).run();
}

Result<CsvTable> read_csv_table(const std::string& path) {
  const Result<std::string> text = read_text_file(path);
  if (!text) return text.problems();
  return parse_csv_table(*text, path);
}

}  // namespace orrery
