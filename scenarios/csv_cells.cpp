#include "scenarios/csv_cells.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "scenarios/yaml_document.hpp"
#include "sim/base/check.hpp"

namespace orrery {

Problems missing_columns(const CsvTable& table, std::span<const std::string_view> columns, std::string_view what) {
  Problems problems;
  for (const std::string_view column : columns) {
    if (table.column(column)) continue;
    problems.push_back({"",
                        fmt::format("no column {}", in_quotes(column)),
                        fmt::format("a table of {} has it", what),
                        {table.file, 1, 1}});
  }
  return problems;
}

std::size_t CsvCells::at(std::string_view column) const {
  const auto found = table_.column(column);
  ORRERY_CHECK(found.has_value(), "a column was asked for that the table does not have", column);
  return *found;
}

const std::string& CsvCells::text(std::string_view column) const { return row_.cells[at(column)]; }

void CsvCells::wrong(std::string_view column, std::string message, std::string note) {
  problems_.push_back(
      {std::string(column), std::move(message), std::move(note), {table_.file, row_.line, row_.at[at(column)]}});
}

double CsvCells::number(std::string_view column, double least) {
  const std::string& cell = text(column);
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error != std::errc() || end != cell.data() + cell.size() || !std::isfinite(value) || value < least) {
    wrong(column, fmt::format("{} {} is no number from {} up", column, in_quotes(cell), least), "");
    return std::max(least, 1.0);
  }
  return value;
}

std::int64_t CsvCells::count(std::string_view column) {
  if (text(column).empty()) return 0;
  const double value = number(column, 0);
  if (value != std::floor(value) || value > 1e12) wrong(column, fmt::format("{} is no count", column), "");
  return static_cast<std::int64_t>(value);
}

bool CsvCells::yes(std::string_view column) {
  const std::string& cell = text(column);
  if (cell != "y" && cell != "n" && !cell.empty()) wrong(column, fmt::format("{} is neither y nor n", column), "");
  return cell == "y";
}

}  // namespace orrery
