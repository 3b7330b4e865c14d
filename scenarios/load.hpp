// From a YAML file to a validated Scenario, or to all of the file's problems, each with file, line and column.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/scenario.hpp"
#include "sim/base/problem.hpp"

namespace orrery {

struct YamlNode;

struct LoadOptions {
  std::vector<Override> overrides = {};  // --set key=value: applied in order, after includes
  std::string catalog_root = {};  // folder that holds topology/catalog and workloads/; empty: find_catalog_root()
  // The names, beside auto, that collectives.algorithm may have: the layer that plays collectives out knows them, and
  // is above this one. Empty: any name is taken.
  std::vector<std::string> collective_algorithms = {};
};

// Reads the file, resolves `include:`, catalogue names and Hugging Face config.json paths (relative to the file),
// applies overrides, checks types, units, ranges, unknown keys, and the whole plan (topology and workload checks
// included).
[[nodiscard]] Result<Scenario> load_scenario(const std::string& path, const LoadOptions& options = {});

// The same for text already in memory; `name` stands for the file in messages and is what relative paths start from.
[[nodiscard]] Result<Scenario> load_scenario_text(std::string_view text, const std::string& name,
                                                  const LoadOptions& options = {});

// The same for a tree that is not from one file: each problem stands where its node does. `name` as above.
[[nodiscard]] Result<Scenario> load_scenario_tree(YamlNode root, const std::string& name, const LoadOptions& options);

// Where the catalogue is: $ORRERY_ROOT, else the source tree this binary was built from.
[[nodiscard]] std::string find_catalog_root();

}  // namespace orrery
