// The same scenario gives the same bits on every compiler and build type: each build compares with one file of
// fingerprints. A change of the model changes them on purpose; ORRERY_UPDATE_EXPECTED=1 then writes the file anew, and
// the commit says why.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "scenarios/load.hpp"
#include "sim/study/simulate.hpp"

using namespace orrery;

namespace {

const std::filesystem::path kFolder = std::filesystem::path(ORRERY_SOURCE_DIR) / "tests" / "fingerprints";

std::vector<std::filesystem::path> scenario_files() {
  std::vector<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path());
  }
  std::sort(files.begin(), files.end());
  return files;
}

std::string fingerprint_of(const std::filesystem::path& file) {
  const Result<Scenario> scenario = load_scenario(file.string());
  if (!scenario) return to_string(scenario.problems());
  const Result<Simulation> simulation = simulate(*scenario);
  return simulation ? simulation->run.fingerprint : to_string(simulation.problems());
}

std::map<std::string, std::string> expected_fingerprints() {
  std::ifstream file(kFolder / "expected.txt");
  std::map<std::string, std::string> expected;
  std::string name;
  std::string fingerprint;
  while (file >> name >> fingerprint) expected[name] = fingerprint;
  return expected;
}

}  // namespace

TEST_CASE("every scenario has the fingerprint that all builds agree on") {
  const std::vector<std::filesystem::path> files = scenario_files();
  REQUIRE(files.size() >= 4);
  const bool update = std::getenv("ORRERY_UPDATE_EXPECTED") != nullptr;
  const std::map<std::string, std::string> expected = expected_fingerprints();
  std::string written;
  for (const std::filesystem::path& file : files) {
    const std::string name = file.stem().string();
    const std::string fingerprint = fingerprint_of(file);
    written += name + " " + fingerprint + "\n";
    INFO(name);
    if (!update) CHECK((expected.contains(name) ? expected.at(name) : "(none)") == fingerprint);
  }
  if (update) std::ofstream(kFolder / "expected.txt") << written;
}

TEST_CASE("simulations in two threads at once do not disturb each other") {
  const std::vector<std::filesystem::path> files = scenario_files();
  std::vector<std::string> alone;
  for (const auto& file : files) alone.push_back(fingerprint_of(file));
  std::vector<std::string> forwards(files.size());
  std::vector<std::string> backwards(files.size());
  std::thread first([&] {
    for (std::size_t i = 0; i < files.size(); ++i) forwards[i] = fingerprint_of(files[i]);
  });
  std::thread second([&] {
    for (std::size_t i = files.size(); i-- > 0;) backwards[i] = fingerprint_of(files[i]);
  });
  first.join();
  second.join();
  CHECK(forwards == alone);
  CHECK(backwards == alone);
}
