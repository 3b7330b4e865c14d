#include "sim/study/run_files.hpp"

#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "sim/results/summary_json.hpp"

namespace orrery {

namespace {

using Json = nlohmann::ordered_json;

// A setting is YAML text; numbers and booleans look the same in JSON, and all else becomes a string.
Json json_of_value(const std::string& text) {
  const Json value = Json::parse(text, nullptr, false);
  return value.is_number() || value.is_boolean() ? value : Json(text);
}

Json json_of_summary(const Summary& summary) { return Json::parse(summary_json(summary)); }

// A summary's plain figures as columns: "step.time_s". Lists are left to the JSON file.
void flatten(const Json& json, const std::string& prefix, std::vector<std::pair<std::string, std::string>>& columns) {
  for (const auto& [key, value] : json.items()) {
    const std::string name = prefix.empty() ? key : prefix + "." + key;
    if (value.is_object()) {
      flatten(value, name, columns);
    } else if (value.is_string()) {
      columns.emplace_back(name, value.get<std::string>());
    } else if (!value.is_array()) {
      columns.emplace_back(name, value.dump());
    }
  }
}

// RFC 4180.
std::string csv_field(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  quoted += '"';
  return quoted;
}

std::string csv_line(std::span<const std::string> fields) {
  std::string line;
  for (std::size_t i = 0; i < fields.size(); ++i) {
    if (i > 0) line += ',';
    line += csv_field(fields[i]);
  }
  return line + "\n";
}

using Row = std::vector<std::pair<std::string, std::string>>;

Row row_of(const NamedRun& run) {
  Row row{{"name", run.name}};
  for (const Override& setting : run.set) row.emplace_back(setting.key, setting.value);
  if (run.summary != nullptr) flatten(json_of_summary(*run.summary), "", row);
  if (!run.error.empty()) row.emplace_back("error", run.error);
  return row;
}

Json json_of_settings(std::span<const Override> set) {
  Json json = Json::object();
  for (const Override& setting : set) json[setting.key] = json_of_value(setting.value);
  return json;
}

}  // namespace

std::string settings_json(std::span<const Override> set) {
  return json_of_settings(set).dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string run_json(const NamedRun& run) {
  Json json;
  json["name"] = run.name;
  json["set"] = json_of_settings(run.set);
  if (run.summary != nullptr) json["summary"] = json_of_summary(*run.summary);
  if (!run.error.empty()) json["error"] = run.error;
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::string csv_of(std::span<const NamedRun> runs) {
  std::vector<Row> rows;
  std::vector<std::string> columns;  // in order of first appearance
  std::map<std::string, std::size_t> column_of;
  for (const NamedRun& run : runs) {
    rows.push_back(row_of(run));
    for (const auto& [name, value] : rows.back()) {
      if (column_of.emplace(name, columns.size()).second) columns.push_back(name);
    }
  }
  std::string text = csv_line(columns);
  for (const Row& row : rows) {
    std::vector<std::string> fields(columns.size());
    for (const auto& [name, value] : row) fields[column_of.at(name)] = value;
    text += csv_line(fields);
  }
  return text;
}

}  // namespace orrery
