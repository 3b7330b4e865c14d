// One row of a CSV table as text and numbers: what is wrong with a cell becomes a problem at its place, and reading
// goes on with a harmless value.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "scenarios/csv_table.hpp"
#include "sim/base/problem.hpp"

namespace orrery {

// A problem for each of these columns that the table does not have; `what` is what it should be a table of.
[[nodiscard]] Problems missing_columns(const CsvTable& table, std::span<const std::string_view> columns,
                                       std::string_view what);

// The table must have every column that is asked for (checked), and outlive this, as must the row and the problems.
class CsvCells {
 public:
  CsvCells(const CsvTable& table, const CsvRow& row, Problems& problems)
      : table_(table), row_(row), problems_(problems) {}

  [[nodiscard]] const std::string& text(std::string_view column) const;
  // A finite number from `least` up; else a problem, and `least` or 1, whichever is more.
  double number(std::string_view column, double least);
  // A whole number from 0 to 10^12; an empty cell is 0.
  std::int64_t count(std::string_view column);
  // y or n; an empty cell is n.
  bool yes(std::string_view column);
  void wrong(std::string_view column, std::string message, std::string note);

  [[nodiscard]] int line() const { return row_.line; }

 private:
  [[nodiscard]] std::size_t at(std::string_view column) const;

  const CsvTable& table_;
  const CsvRow& row_;
  Problems& problems_;
};

}  // namespace orrery
