// Operations on scenario trees before they are read: `include:` and `--set`.
#pragma once

#include <string>

#include "scenarios/load.hpp"
#include "scenarios/yaml_document.hpp"

namespace orrery {

// Replaces each `include:` at the top of the document by what it names (relative to the including file), merged
// beneath: maps key by key, anything else by the including file's value. A later file of a list goes over an earlier
// one. Cycles and missing files are problems at the include.
[[nodiscard]] Result<YamlNode> resolve_includes(YamlNode root);

// `over` laid over `base`: maps are merged key by key, all else is replaced. Places stay those of where each value was
// written.
[[nodiscard]] YamlNode merge(YamlNode base, YamlNode over);

// Sets the value of a dotted key ("training.micro_batch", "variation.slow[0].gpu" or "variation.slow.0.gpu"), making
// the maps and lists on the way; an index one past a list's end adds an item. A name on the way becomes the map it
// abbreviates: cluster.node=dgx-a100-80gb and then cluster.node.gpus=4 is {base: dgx-a100-80gb, gpus: 4}. Keys that are
// made stand at `key_place`. Returns what is wrong with the key; empty when done.
[[nodiscard]] Problems set_value(YamlNode& root, const std::string& key, const YamlNode& value,
                                 const YamlPlace& key_place);

// The value under a dotted key, or null.
[[nodiscard]] const YamlNode* find_value(const YamlNode& root, const std::string& key);

// set_value of each override, whose value is parsed as YAML. Problems are located at its place, or at
// "--set key=value".
[[nodiscard]] Problems apply_overrides(YamlNode& root, const std::vector<Override>& overrides,
                                       const std::string& folder);

}  // namespace orrery
