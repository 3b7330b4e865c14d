// Tables in CSV files: cells, quotes, places, and what is wrong with them.
#include "scenarios/csv_table.hpp"

#include <doctest/doctest.h>

using namespace orrery;

namespace {

using Cells = std::vector<std::string>;

CsvTable parsed(std::string_view text) {
  const Result<CsvTable> table = parse_csv_table(text, "t.csv");
  REQUIRE_MESSAGE(table.ok(), to_string(table.problems()));
  return *table;
}

std::string problems_of(std::string_view text) {
  const Result<CsvTable> table = parse_csv_table(text, "t.csv");
  return table.ok() ? "" : to_string(table.problems());
}

}  // namespace

TEST_CASE("cells may be empty, quoted, and of several lines") {
  const CsvTable table = parsed("a,b,c\n1,,3\n\"x,y\",\"say \"\"so\"\"\",\"two\nlines\"\r\n\nlast,\"\",z");
  CHECK(table.columns == Cells{"a", "b", "c"});
  REQUIRE(table.rows.size() == 3);
  CHECK(table.rows[0].cells == Cells{"1", "", "3"});
  CHECK(table.rows[1].cells == Cells{"x,y", "say \"so\"", "two\nlines"});
  CHECK(table.rows[2].cells == Cells{"last", "", "z"});
  CHECK(table.rows[1].line == 3);
  CHECK(table.rows[1].at == std::vector<int>{1, 7, 20});
  CHECK(table.rows[2].line == 6);  // the quoted line end and the empty line count
  CHECK(table.column("b") == std::optional<std::size_t>(1));
  CHECK_FALSE(table.column("d").has_value());
}

TEST_CASE("what is wrong with a table is said with line and column") {
  CHECK(problems_of("").find("t.csv:1:1: error: the table is empty") != std::string::npos);
  CHECK(problems_of("a,b,a\n").find("t.csv:1:5: error: a second column \"a\"") != std::string::npos);
  CHECK(problems_of("a,b\n1\n1,2,3\n").find("t.csv:2:1: error: 1 cells, not 2") != std::string::npos);
  CHECK(problems_of("a,b\n1\n1,2,3\n").find("t.csv:3:1: error: 3 cells, not 2") != std::string::npos);
  CHECK(problems_of("a,b\n1,\"open\n").find("t.csv:2:3: error: a quote that nothing closes") != std::string::npos);
  CHECK(problems_of("a,b\n1,\"x\"y\n").find("t.csv:2:3: error: text behind a closing quote") != std::string::npos);
  CHECK(problems_of(std::string_view("a\0b\n", 4)) != "");
}
