#include "sim/study/compare_files.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "sim/results/files.hpp"
#include "sim/results/summary_json.hpp"
#include "sim/study/compare_text.hpp"
#include "sim/study/run_files.hpp"

namespace orrery {

namespace {

using Json = nlohmann::ordered_json;

NamedRun named(const CompareRun& run) {
  return {run.name, run.set, run.summary.has_value() ? &*run.summary : nullptr, run.error};
}

std::string_view name_of(Work work) {
  constexpr std::string_view kNames[] = {"compute", "communication", "copying", "launching", "host_work"};
  return kNames[static_cast<std::size_t>(work)];
}

Json json_of(const WorkKind& kind, const WorkShare& share) {
  Json json;
  json["work"] = name_of(kind.work);
  json["phase"] = name_of(kind.phase);
  if (kind.during != kind.phase) json["during"] = name_of(kind.during);
  if (!kind.among.empty()) json["among"] = kind.among;
  if (!kind.operation.empty()) json["operation"] = kind.operation;
  if (!kind.label.empty()) json["label"] = kind.label;
  json["critical_path_s"] = to_seconds(share.path);
  if (kind.work == Work::communication) json["critical_path_latency_s"] = to_seconds(share.path_latency);
  json["busy_s"] = share.busy_s;
  if (kind.work != Work::launching) json["count"] = share.count;
  if (share.bytes > 0) json["bytes"] = share.bytes;
  if (share.flops > 0) json["flops"] = share.flops;
  if (share.kernels > 0) json["kernels"] = share.kernels;
  return json;
}

Json json_of(const CompareRun& run) {
  Json json = Json::parse(run_json(named(run)));
  if (!run.summary.has_value()) return json;
  json["work"] = Json::array();
  for (const auto& [kind, share] : run.profile) json["work"].push_back(json_of(kind, share));
  return json;
}

Json json_of(const DifferenceSide& side) {
  Json json;
  json["seconds"] = side.seconds;
  json["busy_s"] = side.busy_s;
  json["bytes"] = side.bytes;
  json["count"] = side.count;
  json["flops"] = side.flops;
  return json;
}

Json json_of(const Explanation& explanation) {
  Json json;
  json["base"] = explanation.base;
  json["variant"] = explanation.variant;
  json["base_s"] = explanation.base_s;
  json["variant_s"] = explanation.variant_s;
  json["text"] = explanation.text;
  json["differences"] = Json::array();
  for (const Difference& d : explanation.differences) {
    Json& difference = json["differences"].emplace_back();
    difference["seconds"] = d.seconds();
    difference["cause"] = name_of(d.cause);
    difference["work"] = name_of(d.work);
    if (!d.subject.empty()) difference["subject"] = d.subject;
    if (!d.among.empty()) difference["among"] = d.among;
    if (!d.operation.empty()) difference["operation"] = d.operation;
    if (!d.phase.empty()) difference["phase"] = d.phase;
    difference["base"] = json_of(d.base);
    difference["variant"] = json_of(d.variant);
    difference["text"] = d.text;
  }
  json["memory"] = Json::array();
  for (const MemoryDifference& d : explanation.memory) {
    json["memory"].push_back({{"tag", d.tag}, {"base_bytes", d.base_bytes}, {"variant_bytes", d.variant_bytes}});
  }
  return json;
}

}  // namespace

std::string comparison_json(const Comparison& comparison) {
  Json json;
  json["scenario"] = comparison.scenario;
  json["runs"] = Json::array();
  for (const CompareRun& run : comparison.runs) json["runs"].push_back(json_of(run));
  Json& explanation = json["explanation"];
  explanation["text"] = explanation_text(comparison);
  explanation["base"] = comparison.runs.empty() ? "" : comparison.runs.front().name;
  explanation["pairs"] = Json::array();
  for (const Explanation& pair : comparison.explanations) explanation["pairs"].push_back(json_of(pair));
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string comparison_csv(const Comparison& comparison) {
  std::vector<NamedRun> rows;
  for (const CompareRun& run : comparison.runs) rows.push_back(named(run));
  return csv_of(rows);
}

std::string file_name_of(const std::string& run_name) {
  std::string name;
  for (const char c : run_name) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' ||
                       c == '_' || c == '.' || c == '+';
    if (plain) {
      name += c;
    } else if (!name.empty() && name.back() != '-') {
      name += '-';
    }
  }
  while (!name.empty() && (name.back() == '-' || name.back() == '.')) name.pop_back();
  while (!name.empty() && name.front() == '.') name.erase(0, 1);
  return name.empty() ? "run" : name;
}

Problems write_files(const std::string& folder, const Comparison& comparison) {
  std::vector<std::pair<std::string, std::string>> files{{"comparison.json", comparison_json(comparison)},
                                                         {"comparison.csv", comparison_csv(comparison)},
                                                         {"comparison.txt", comparison_text(comparison)}};
  std::set<std::string> taken;
  for (const CompareRun& run : comparison.runs) {
    if (!run.summary.has_value()) continue;
    const std::string name = file_name_of(run.name);
    std::string free = name;
    for (int number = 2; !taken.insert(free).second; ++number) free = fmt::format("{}-{}", name, number);
    files.emplace_back(fmt::format("runs/{}.json", free), summary_json(*run.summary));
  }
  for (const auto& [name, contents] : files) {
    Problems problems = write_file(folder + "/" + name, contents);
    if (!problems.empty()) return problems;
  }
  return {};
}

}  // namespace orrery
