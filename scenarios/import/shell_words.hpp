// The part of the shell's language that training scripts are written in: commands, quotes, line continuations,
// comments, variables, arrays, here-documents. A script is read, never run.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/yaml_document.hpp"
#include "sim/base/problem.hpp"

namespace orrery {

// A word after all expansions, and where its first character stands: in the value of a variable where it is from one.
struct ShellWord {
  std::string text;
  YamlPlace place;
};

using ShellCommand = std::vector<ShellWord>;

struct ShellScript {
  std::vector<ShellCommand> commands;  // in the order written; assignments alone are none
  std::vector<YamlPlace> conditions;   // of if, case, for and while: what they guard is read as if they were not there
};

// Text between quotes is not split; unquoted expansions are, at blanks. Known: $A, ${A}, ${A:-default}, ${A[@]},
// $((1 + A * 2)). A variable that nothing sets, a positional parameter and the output of a command stay as they are
// written ("$A", "$1", "$(nproc)"), so that whoever needs the value can say which is missing. Problems: quotes and
// brackets that do not close, expansions without end. O(bytes + bytes of expansions).
[[nodiscard]] Result<ShellScript> read_shell(std::string_view text, std::shared_ptr<const YamlOrigin> origin);

}  // namespace orrery
