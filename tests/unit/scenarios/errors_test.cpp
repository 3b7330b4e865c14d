// Every file of tests/errors is refused with exactly the expected words at the expected place.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "support.hpp"

namespace orrery {

namespace {

namespace fs = std::filesystem;
using namespace scenario_tests;

const std::string kErrors = kSource + "/tests/errors/";

std::string read(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::vector<Override> overrides_of(const std::string& text) {
  constexpr std::string_view kMark = "# set: ";
  std::vector<Override> overrides;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line) && line.starts_with(kMark);) {
    const std::string set = line.substr(kMark.size());
    const std::size_t equals = set.find('=');
    overrides.push_back({set.substr(0, equals), set.substr(equals + 1)});
  }
  return overrides;
}

// As a run would load it.
LoadOptions options_for(const fs::path& file) {
  return {overrides_of(read(file)), kCatalog, {"ring", "tree", "halving_doubling", "nvls", "pairwise"}};
}

std::string without(std::string text, const std::string& prefix) {
  for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix))
    text.erase(at, prefix.size());
  return text;
}

std::vector<fs::path> broken_files() {
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(kErrors)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TEST_CASE("a broken scenario is refused in exactly the expected words") {
  const bool update = std::getenv("ORRERY_UPDATE_EXPECTED") != nullptr;
  const std::vector<fs::path> files = broken_files();
  CHECK(files.size() >= 70);
  for (const fs::path& file : files) {
    CAPTURE(file.filename().string());
    const Result<Scenario> scenario = load_scenario(file.string(), options_for(file));
    CHECK_FALSE(scenario.ok());
    const std::string found = without(without(errors(scenario), kErrors), kSource + "/") + "\n";
    fs::path expected = file;
    expected.replace_extension(".expected");
    if (update) std::ofstream(expected, std::ios::binary) << found;
    CHECK(found == read(expected));
  }
}

TEST_CASE("every problem of a broken scenario stands at a place in a file or is an option's") {
  for (const fs::path& file : broken_files()) {
    CAPTURE(file.filename().string());
    const Result<Scenario> scenario = load_scenario(file.string(), options_for(file));
    for (const Problem& problem : scenario.problems()) {
      CAPTURE(problem.message);
      const bool option = problem.where.file.starts_with("--set ");
      CHECK(!problem.where.file.empty());
      CHECK((option || (problem.where.line >= 1 && problem.where.column >= 1)));
      CHECK(!problem.message.empty());
      CHECK(problem.message.back() != '.');
    }
  }
}

TEST_CASE("a missing file and a folder are refused, with the nearest name where there is one") {
  const Result<Scenario> missing = load_scenario(kErrors + "emty.yaml", {{}, kCatalog});
  CHECK(without(errors(missing), kErrors) ==
        "emty.yaml: error: the file does not exist\n  note: did you mean \"empty.yaml\"?");
  const Result<Scenario> folder = load_scenario(kErrors, {{}, kCatalog});
  CHECK(errors(folder) == kErrors + ": error: the file is a folder\n  note: name a file in it");
  CHECK_FALSE(load_scenario("", {{}, kCatalog}).ok());
  CHECK_FALSE(load_scenario(std::string("a\0b", 3), {{}, kCatalog}).ok());
}

// Ten megabytes of each kind of text that a parser might be slow on; that it ends at all is the test.
TEST_CASE("ten megabytes are refused by what is wrong with them, not by waiting") {
  constexpr std::size_t kSize = 10'000'000;
  const auto repeated = [](const std::string& piece) {
    std::string text;
    while (text.size() < kSize) text += piece;
    return text;
  };
  std::string distinct_keys;
  for (int i = 0; distinct_keys.size() < kSize; ++i) distinct_keys += "key" + std::to_string(i) + ": 1\n";
  CHECK(errors(load(distinct_keys)).find("more than 100000 values") != std::string::npos);
  CHECK(errors(load(fmt::format("[{}]", repeated("a, ")))).find("more than 100000 brackets") != std::string::npos);
  CHECK(errors(load(fmt::format("name: {}\n", repeated("v")))).find("a value of 10000000 characters") !=
        std::string::npos);
  CHECK(errors(load(repeated("["))).find("more than 100000 brackets") != std::string::npos);
  CHECK(errors(load(std::string(90'000, '['))).find("nested too deeply") != std::string::npos);
  CHECK(errors(load(std::string(90'000, '{'))).find("nested too deeply") != std::string::npos);
  CHECK(errors(load(repeated("- "))).find("nested too deeply") != std::string::npos);
  CHECK(errors(load(repeated("# comment\n"))).find("the file is empty") != std::string::npos);
  CHECK(errors(load(fmt::format("name: \"{}\n", repeated("\\u0041")))).find("error:") != std::string::npos);
  CHECK(errors(load(repeated("---\n"))).find("a second document") != std::string::npos);
  CHECK(errors(load(std::string(20'000'000, ' '))).find("at most 16 MiB") != std::string::npos);
}

TEST_CASE("at most a hundred problems are shown, and the rest counted") {
  std::string text = kBase;
  for (int i = 0; i < 150; ++i) text += "unknown" + std::to_string(i) + ": 1\n";
  const Problems problems = load(text).problems();
  CHECK(problems.size() == 101);
  CHECK(problems.back().message == "50 more problems are not shown");
}

}  // namespace orrery
