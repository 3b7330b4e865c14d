// Plans of other frameworks as scenarios: a DeepSpeed JSON, Megatron-LM arguments, a TorchTitan TOML.
//
// A plan file says how a model is trained and rarely on what, so a cluster (and, for DeepSpeed, a model) comes from the
// options. Whatever the file says ends in the report: understood, with the scenario key that it led to; assumed, where
// the framework's default or a guess had to stand in; or ignored, with the reason. Nothing is dropped in silence.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/load.hpp"
#include "sim/base/problem.hpp"

namespace orrery {

struct ImportOptions {
  std::string format;                 // deepspeed, megatron, torchtitan; empty: by the file's name and contents
  std::string model;                  // catalogue name or path; empty: what the plan says
  std::vector<std::string> clusters;  // "dgx-h100 x 8", one a kind of node; "x N" may be left to the plan
  std::string scenario_folder;        // where the scenario will lie: relative paths in it start there
  LoadOptions load;                   // overrides win over what the plan says
};

// What became of a key of the plan.
enum class Fate : std::uint8_t {
  understood,
  assumed,        // the plan does not say, or says "auto"
  given,          // an option of the command line wins
  no_influence,   // on the time and memory of a step
  not_simulated,  // it has an influence, which the simulated step lacks
  unknown,
};

struct ImportLine {
  Fate fate = Fate::unknown;
  std::string key;       // as the plan spells it
  std::string value;     // empty: a flag, or not given
  std::string leads_to;  // "parallelism.tensor: 8"; empty where nothing came of it
  std::string why;
  SourceLocation where;
};

struct ImportedPlan {
  std::string format;
  std::string text;               // the scenario, YAML
  std::vector<ImportLine> lines;  // in the order of the file; what was assumed beyond it last
  Scenario scenario;              // the text, loaded
};

// Reads a plan file and makes a scenario of it that load_scenario takes. Problems stand at their places in the plan.
[[nodiscard]] Result<ImportedPlan> import_plan(const std::string& path, const ImportOptions& options);

// The same for text already in memory; `name` stands for the file in messages.
[[nodiscard]] Result<ImportedPlan> import_plan_text(std::string_view text, const std::string& name,
                                                    const ImportOptions& options);

// The report as a table for a terminal, and its last line as a sentence.
[[nodiscard]] std::string to_string(const std::vector<ImportLine>& lines);

// Names of the formats.
[[nodiscard]] std::vector<std::string> import_format_names();

}  // namespace orrery
