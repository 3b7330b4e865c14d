#include "scenarios/fitted.hpp"

#include <fmt/format.h>

#include <array>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>

#include "scenarios/csv_cells.hpp"
#include "scenarios/tree.hpp"
#include "scenarios/yaml_document.hpp"

namespace orrery {

namespace {

constexpr std::array<std::string_view, 4> kColumns{"file", "key", "measured", "on"};

// The value under the key of a catalogue's file; of a source file nothing. Absent: the key is not there.
std::optional<std::string> value_in(const std::string& file, const std::string& text, const std::string& key) {
  if (!file.ends_with(".yaml")) {
    if (text.find(key) == std::string::npos) return std::nullopt;
    return "";
  }
  const Result<YamlNode> tree = parse_yaml(text, std::make_shared<YamlOrigin>(YamlOrigin{file, ""}));
  if (!tree) return std::nullopt;
  const YamlNode* value = find_value(*tree, key);
  if (value == nullptr || !value->is_scalar()) return std::nullopt;
  return value->text;
}

}  // namespace

Result<std::vector<FittedConstant>> fitted_constants(const std::string& root) {
  const Result<CsvTable> table = read_csv_table(root + "/topology/catalog/fitted.csv");
  if (!table) return table.problems();
  Problems problems = missing_columns(*table, kColumns, "fitted constants");
  if (!problems.empty()) return problems;
  std::vector<FittedConstant> constants;
  std::map<std::string, Result<std::string>> texts;
  for (const CsvRow& row : table->rows) {
    CsvCells cells(*table, row, problems);
    FittedConstant constant{cells.text("file"), cells.text("key"), "", cells.text("measured"), cells.text("on")};
    auto text = texts.find(constant.file);
    if (text == texts.end()) {
      text = texts.emplace(constant.file, read_text_file(root + "/" + constant.file)).first;
    }
    if (!text->second) {
      cells.wrong("file", fmt::format("{} cannot be read", in_quotes(constant.file)), "");
      continue;
    }
    const std::optional<std::string> value = value_in(constant.file, *text->second, constant.key);
    if (!value) {
      cells.wrong("key", fmt::format("{} is not in {}", in_quotes(constant.key), constant.file), "");
      continue;
    }
    constant.value = *value;
    constants.push_back(std::move(constant));
  }
  if (!problems.empty()) return problems;
  return constants;
}

}  // namespace orrery
