// What the tests of imports share: plans from tests/imports with the options that their first comment asks for.
#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "scenarios/import/import.hpp"
#include "support.hpp"

namespace orrery::scenario_tests {

inline const std::string kImports = kSource + "/tests/imports/";

inline std::string contents(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Words of a command line: blanks part them, single quotes hold them together.
inline std::vector<std::string> split_words(const std::string& line) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
    } else if (c == ' ' && !quoted) {
      words.emplace_back();
    } else {
      words.back() += c;
    }
  }
  return words;
}

// "orrery import: --model NAME --cluster 'NODE x N' --set KEY=VALUE", up to the end of the line or quotation mark.
inline ImportOptions options_in(const std::string& text) {
  constexpr std::string_view kMark = "orrery import: ";
  ImportOptions options;
  options.load.catalog_root = kSource;
  const std::size_t at = text.find(kMark);
  if (at == std::string::npos) return options;
  const std::size_t start = at + kMark.size();
  const std::vector<std::string> words = split_words(text.substr(start, text.find_first_of("\"\n", start) - start));
  for (std::size_t i = 0; i + 1 < words.size(); i += 2) {
    const std::string& value = words[i + 1];
    if (words[i] == "--model") options.model = value;
    if (words[i] == "--cluster") options.clusters.push_back(value);
    if (words[i] == "--set") {
      const std::size_t equals = value.find('=');
      options.load.overrides.push_back({value.substr(0, equals), value.substr(equals + 1)});
    }
  }
  return options;
}

// A plan in memory, on the shipped catalogue.
inline Result<ImportedPlan> import_text(const std::string& text, const std::string& name, ImportOptions options = {}) {
  options.load.catalog_root = kSource;
  return import_plan_text(text, name, options);
}

// The line of a key; a line without a key where there is none.
inline ImportLine line_of(const ImportedPlan& plan, const std::string& key) {
  for (const ImportLine& line : plan.lines) {
    if (line.key == key) return line;
  }
  return {};
}

}  // namespace orrery::scenario_tests
