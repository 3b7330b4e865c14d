// A TOML text as a tree in which every key and value knows where it stands. The parser is toml++, seen by
// toml_document.cpp alone.
#pragma once

#include <memory>
#include <string_view>

#include "scenarios/yaml_document.hpp"
#include "sim/base/problem.hpp"

namespace orrery {

// Numbers keep their value and lose their spelling (1_000 is 1000). Problems: what the parser finds, and nesting or
// sizes beyond those of YAML files (yaml_document.hpp).
[[nodiscard]] Result<YamlNode> parse_toml(std::string_view text, std::shared_ptr<const YamlOrigin> origin);

}  // namespace orrery
