// Tables in CSV files, each cell with its place.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/problem.hpp"

namespace orrery {

struct CsvRow {
  std::vector<std::string> cells;  // [columns]
  std::vector<int> at;             // [columns] column of the file's line where the cell begins
  int line = 0;
};

// Comma-separated values as RFC 4180 has them: cells may be quoted, and quoted ones hold commas, quotes (doubled) and
// line ends. The first line names the columns.
struct CsvTable {
  std::string file;
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;

  // The place of a column of this name.
  [[nodiscard]] std::optional<std::size_t> column(std::string_view name) const;
};

// Problems: an unreadable or empty file, a column that is named twice, rows with more or fewer cells than the first
// line, a quote that nothing closes; all of them, with line and column. O(bytes).
[[nodiscard]] Result<CsvTable> read_csv_table(const std::string& path);
[[nodiscard]] Result<CsvTable> parse_csv_table(std::string_view text, const std::string& name);

}  // namespace orrery
