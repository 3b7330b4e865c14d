// A scenario's tree as a YAML file for people: blocks in their usual order, small maps on one line, comments.
#pragma once

#include <functional>
#include <string>

#include "scenarios/yaml_document.hpp"

namespace orrery {

// `head` stands above as comment lines; `comment_of` gives the remark at a dotted key's line, or nothing. Reads back as
// the same tree. O(nodes).
[[nodiscard]] std::string write_scenario(const YamlNode& root, const std::string& head,
                                         const std::function<std::string(const std::string& key)>& comment_of);

}  // namespace orrery
