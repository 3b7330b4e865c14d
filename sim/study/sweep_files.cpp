#include "sim/study/sweep_files.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "sim/results/summary_json.hpp"

namespace orrery {

namespace {

using Json = nlohmann::ordered_json;

// A setting is YAML text; numbers and booleans look the same in JSON, and all else becomes a string.
Json json_of_value(const std::string& text) {
  const Json value = Json::parse(text, nullptr, false);
  return value.is_number() || value.is_boolean() ? value : Json(text);
}

Json json_of_settings(std::span<const Override> set) {
  Json json = Json::object();
  for (const Override& setting : set) json[setting.key] = json_of_value(setting.value);
  return json;
}

Json json_of_summary(const Summary& summary) { return Json::parse(summary_json(summary)); }

Json json_of(const SweepRun& run) {
  Json json;
  json["name"] = run.point.name;
  json["key"] = run.key;
  json["set"] = json_of_settings(run.point.set);
  if (run.summary.has_value()) json["summary"] = json_of_summary(*run.summary);
  if (!run.error.empty()) json["error"] = run.error;
  return json;
}

Json json_of(const Growth& growth) {
  Json json;
  json["quantity"] = growth.quantity;
  json["axes"] = growth.axes;
  json["set"] = json_of_settings(growth.others);
  if (growth.law.has_value()) {
    json["exponent"] = growth.law->exponent;
    json["coefficient"] = growth.law->coefficient;
    json["r_squared"] = growth.law->r_squared;
    json["points"] = growth.law->points;
  }
  json["gpus"] = growth.gpus;
  json["unlike_points"] = growth.unlike;
  if (!growth.played.empty()) json["played"] = growth.played;
  return json;
}

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

Row row_of(const SweepRun& run) {
  Row row{{"name", run.point.name}};
  for (const Override& setting : run.point.set) row.emplace_back(setting.key, setting.value);
  if (run.summary.has_value()) flatten(json_of_summary(*run.summary), "", row);
  if (!run.error.empty()) row.emplace_back("error", run.error);
  return row;
}

bool finished(const SweepRun& run) { return run.summary.has_value() || !run.error.empty(); }

}  // namespace

std::string results_json(std::span<const SweepRun> runs, std::span<const Growth> growth) {
  Json json;
  json["runs"] = Json::array();
  for (const SweepRun& run : runs) {
    if (finished(run)) json["runs"].push_back(json_of(run));
  }
  json["growth"] = Json::array();
  for (const Growth& law : growth) json["growth"].push_back(json_of(law));
  json["explanation"] = explain(growth);
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string results_csv(std::span<const SweepRun> runs) {
  std::vector<Row> rows;
  std::vector<std::string> columns;  // in order of first appearance
  std::map<std::string, std::size_t> column_of;
  for (const SweepRun& run : runs) {
    if (!finished(run)) continue;
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

Result<std::map<std::string, Summary>> parse_results_json(std::string_view text) {
  std::map<std::string, Summary> finished_points;
  try {
    const Json json = Json::parse(text);
    for (const Json& run : json.at("runs")) {
      if (!run.contains("summary")) continue;
      Result<Summary> summary = parse_summary_json(run.at("summary").dump());
      if (!summary) return summary.problems();
      finished_points.emplace(run.at("key").get<std::string>(), std::move(summary).value());
    }
  } catch (const Json::exception& error) {
    return Problem{.key = "", .message = std::string("not a sweep's results: ") + error.what(), .note = ""};
  }
  return finished_points;
}

}  // namespace orrery
