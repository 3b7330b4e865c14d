#include "sim/study/sweep_files.hpp"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "sim/results/summary_json.hpp"
#include "sim/study/run_files.hpp"

namespace orrery {

namespace {

using Json = nlohmann::ordered_json;

NamedRun named(const SweepRun& run) {
  return {run.point.name, run.point.set, run.summary.has_value() ? &*run.summary : nullptr, run.error};
}

Json json_of(const SweepRun& run) {
  Json json = Json::parse(run_json(named(run)));
  json["key"] = run.key;
  return json;
}

Json json_of(const Growth& growth) {
  Json json;
  json["quantity"] = growth.quantity;
  json["axes"] = growth.axes;
  json["set"] = Json::parse(settings_json(growth.others));
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
  std::vector<NamedRun> rows;
  for (const SweepRun& run : runs) {
    if (finished(run)) rows.push_back(named(run));
  }
  return csv_of(rows);
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
