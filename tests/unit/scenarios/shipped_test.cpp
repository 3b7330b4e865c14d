// The scenarios that ship with Orrery, whatever they are: each loads against the real catalogue, at every point of its
// sweep, and says at its top what it shows.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "support.hpp"

namespace orrery {

namespace {

using namespace scenario_tests;
namespace fs = std::filesystem;

std::vector<std::string> shipped() {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(kSource + "/scenarios")) {
    if (entry.path().extension() == ".yaml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace

TEST_CASE("every shipped scenario loads") {
  CHECK(shipped().size() >= 5);
  for (const std::string& file : shipped()) {
    CAPTURE(file);
    const auto scenario = load_scenario(file, {{}, kSource});
    CAPTURE(errors(scenario));
    CHECK(scenario.ok());
  }
}

TEST_CASE("every shipped scenario loads at every point of its zips and axes") {
  for (const std::string& file : shipped()) {
    CAPTURE(file);
    const auto scenario = load_scenario(file, {{}, kSource});
    REQUIRE(scenario.ok());
    const std::vector<SweepAxis>& axes = scenario->sweep;
    for (std::size_t first = 0; first < axes.size(); ++first) {
      if (first > 0 && axes[first].zip_group >= 0 && axes[first].zip_group == axes[first - 1].zip_group) continue;
      for (std::size_t i = 0; i < axes[first].values.size(); ++i) {
        std::vector<Override> overrides;
        for (const SweepAxis& axis : axes) {
          const bool zipped = axis.zip_group >= 0 && axis.zip_group == axes[first].zip_group;
          if (zipped || axis.key == axes[first].key) overrides.push_back({axis.key, axis.values[i]});
        }
        const auto point = load_scenario(file, {overrides, kSource});
        CAPTURE(errors(point));
        CHECK(point.ok());
      }
    }
  }
}

TEST_CASE("every shipped scenario loads as each of its variants") {
  int variants = 0;
  for (const std::string& file : shipped()) {
    CAPTURE(file);
    const auto scenario = load_scenario(file, {{}, kSource});
    REQUIRE(scenario.ok());
    for (const Variant& variant : scenario->compare.variants) {
      CAPTURE(variant.name);
      const auto changed = load_scenario(file, {variant.set, kSource});
      CAPTURE(errors(changed));
      CHECK(changed.ok());
      ++variants;
    }
  }
  CHECK(variants >= 15);
}

TEST_CASE("every shipped scenario begins with a comment that says what it shows") {
  for (const std::string& file : shipped()) {
    CAPTURE(file);
    std::ifstream text(file);
    std::string line;
    std::getline(text, line);
    CHECK(line.starts_with("# "));
    CHECK(line.size() > 20);
  }
}

}  // namespace orrery
