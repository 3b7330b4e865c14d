// The source tree itself under test: who may include whom, what stays out of headers, and how lines look.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

namespace fs = std::filesystem;
using Names = std::set<std::string>;

const fs::path kRoot = ORRERY_SOURCE_DIR;

// Layer and what it may include beside itself, lowest first. sim/exec gets run_result.hpp of results and no more.
const std::map<std::string, Names> kMayInclude{
    {"sim/base", {}},
    {"sim/engine", {"sim/base"}},
    {"sim/fluid", {"sim/base", "sim/engine"}},
    {"sim/graph", {"sim/base"}},
    {"topology", {"sim/base"}},
    {"workloads", {"sim/base", "sim/graph"}},
    {"sim/results", {"sim/base", "sim/graph"}},
    {"sim/exec", {"sim/base", "sim/engine", "sim/fluid", "sim/graph", "topology", "workloads"}},
    {"scenarios", {"sim/base", "topology", "workloads"}},
    {"sim/study",
     {"sim/base", "sim/engine", "sim/fluid", "sim/graph", "topology", "workloads", "sim/exec", "sim/results",
      "scenarios"}},
    {"sim/app",
     {"sim/base", "sim/engine", "sim/fluid", "sim/graph", "topology", "workloads", "sim/exec", "sim/results",
      "scenarios", "sim/study"}},
};
const Names kSharedWithExec{"sim/results/run_result.hpp"};

// Libraries that take seconds to compile, or that only one layer should know.
const std::vector<std::string> kNotInHeaders{"yaml-cpp/", "boost/",    "Eigen/",  "doctest/",
                                             "spdlog/",   "nlohmann/", "toml++/", "iostream>"};

bool has_ending(const fs::path& path, const Names& endings) { return endings.count(path.extension().string()) > 0; }

std::vector<fs::path> files_in(const std::vector<std::string>& folders, const Names& endings) {
  std::vector<fs::path> files;
  for (const std::string& folder : folders) {
    if (!fs::is_directory(kRoot / folder)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (entry.is_regular_file() && has_ending(entry.path(), endings)) files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::vector<std::string> lines_of(const fs::path& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

// What stands between the quotes or brackets of an include line, with the closing mark; empty for other lines.
std::string included(const std::string& line) {
  constexpr std::string_view kDirective = "#include ";
  if (line.compare(0, kDirective.size(), kDirective) != 0) return "";
  return line.substr(kDirective.size() + 1);
}

std::string layer_of(const std::string& path) {
  for (const auto& [layer, allowed] : kMayInclude) {
    if (path.compare(0, layer.size() + 1, layer + "/") == 0) return layer;
  }
  return "";
}

std::string place_of(const fs::path& path) { return fs::relative(path, kRoot).generic_string(); }

std::size_t columns(const std::string& line) {
  return static_cast<std::size_t>(std::count_if(line.begin(), line.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;  // of a UTF-8 character only its first byte
  }));
}

}  // namespace

TEST_CASE("includes between layers point one way") {
  std::size_t seen = 0;
  for (const fs::path& path : files_in({"sim", "topology", "workloads", "scenarios"}, {".hpp", ".cpp", ".cc"})) {
    const std::string file = place_of(path);
    const std::string layer = layer_of(file);
    CHECK_MESSAGE(!layer.empty(), file);
    for (const std::string& line : lines_of(path)) {
      std::string header = included(line);
      if (header.empty() || header.back() != '"') continue;
      header.pop_back();
      const std::string other = layer_of(header);
      CHECK_MESSAGE(!other.empty(), file << " includes " << header << ", which no layer owns");
      const bool shared = layer == "sim/exec" && kSharedWithExec.count(header) > 0;
      CHECK_MESSAGE((other == layer || shared || kMayInclude.at(layer).count(other) > 0),
                    file << " may not include " << header);
      ++seen;
    }
  }
  CHECK(seen > 100);  // the walk found the tree
}

TEST_CASE("headers are guarded and light") {
  for (const fs::path& path : files_in({"sim", "topology", "workloads", "scenarios"}, {".hpp"})) {
    const std::vector<std::string> lines = lines_of(path);
    CHECK_MESSAGE(std::find(lines.begin(), lines.end(), "#pragma once") != lines.end(), place_of(path));
    for (const std::string& line : lines) {
      for (const std::string& heavy : kNotInHeaders) {
        CHECK_MESSAGE(included(line).find(heavy) != 0, place_of(path) << ": " << line);
      }
    }
  }
}

TEST_CASE("YAML is read in scenarios alone, JSON in results and study") {
  for (const fs::path& path : files_in({"sim", "topology", "workloads", "scenarios"}, {".cpp", ".cc"})) {
    const std::string layer = layer_of(place_of(path));
    for (const std::string& line : lines_of(path)) {
      const std::string header = included(line);
      if (header.find("yaml-cpp/") == 0) CHECK_MESSAGE(layer == "scenarios", place_of(path));
      if (header.find("nlohmann/") == 0) {
        CHECK_MESSAGE((layer == "sim/results" || layer == "sim/study"), place_of(path));
      }
    }
  }
}

TEST_CASE("source lines are at most 120 columns, without tabs, trailing blanks or promises") {
  // Spelt so that this file does not hold them.
  const std::vector<std::string> promises{std::string("TO") + "DO", std::string("FIX") + "ME"};
  const Names endings{".hpp", ".cpp", ".cc", ".py", ".cmake"};
  for (const fs::path& path : files_in({"sim", "topology", "workloads", "scenarios", "tests", "plots"}, endings)) {
    std::size_t number = 0;
    for (const std::string& line : lines_of(path)) {
      const std::string place = place_of(path) + ":" + std::to_string(++number);
      CHECK_MESSAGE(columns(line) <= 120, place);
      CHECK_MESSAGE(line.find('\t') == std::string::npos, place);
      CHECK_MESSAGE((line.empty() || line.back() != ' '), place);
      for (const std::string& promise : promises) CHECK_MESSAGE(line.find(promise) == std::string::npos, place);
    }
  }
}
