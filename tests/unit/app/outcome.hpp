// A command, called in-process.
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "sim/app/command.hpp"

namespace orrery::test {

struct Outcome {
  int status = 0;
  std::string out;
  std::string err;
};

inline Outcome command(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  std::ostringstream err;
  const int status = run_command(arguments, out, err);
  return {status, out.str(), err.str()};
}

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace orrery::test
