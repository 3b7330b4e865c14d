// What the loader's tests share: the made-up catalogue, and loading from text.
#pragma once

#include <string>

#include "scenarios/load.hpp"

namespace orrery::scenario_tests {

inline const std::string kSource = ORRERY_SOURCE_DIR;
inline const std::string kCatalog = kSource + "/tests/unit/scenarios/catalog";

// A complete scenario in three blocks; tests add to it.
inline const std::string kCluster = "cluster: {node: box, nodes: 2}\n";
inline const std::string kModel = "model: small\n";
inline const std::string kTraining = "training: {sequence_length: 1024, global_batch: 64}\n";
inline const std::string kBase = kCluster + kModel + kTraining;

inline Result<Scenario> load(const std::string& text, std::vector<Override> overrides = {}) {
  return load_scenario_text(text, "test.yaml", {std::move(overrides), kCatalog});
}

// The problems as shown to the user; empty when there are none.
inline std::string errors(const Result<Scenario>& scenario) { return to_string(scenario.problems()); }

}  // namespace orrery::scenario_tests
