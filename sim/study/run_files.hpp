// What the result files of all studies have in common: runs by name, each with what was set and what came out.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "scenarios/scenario.hpp"
#include "sim/results/summary.hpp"

namespace orrery {

struct NamedRun {
  std::string name;
  std::vector<Override> set;
  const Summary* summary = nullptr;  // null: it failed
  std::string error;                 // why
};

// JSON text: {name, set{}, summary{} | error}, and the settings alone.
[[nodiscard]] std::string run_json(const NamedRun& run);
[[nodiscard]] std::string settings_json(std::span<const Override> set);

// One row per run: name, one column per setting, the summary's figures ("step.time_s", ...), error.
[[nodiscard]] std::string csv_of(std::span<const NamedRun> runs);

}  // namespace orrery
