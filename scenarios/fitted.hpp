// The constants that are fits: topology/catalog/fitted.csv says which, on what kind of measurement each was fitted, and
// on which. What is carried over to another entry is one constant, listed where it was fitted.
#pragma once

#include <string>
#include <vector>

#include "sim/base/problem.hpp"

namespace orrery {

struct FittedConstant {
  std::string file;      // from the catalogue's root: "topology/catalog/gpus/h100-80gb-sxm.yaml"
  std::string key;       // in that file, dotted; of a source file, the name by which it is found
  std::string value;     // as the catalogue's file has it; empty: it is in a source file
  std::string measured;  // "kernels", "collectives", "steps"
  std::string on;        // which measurements
};

// Problems: an unreadable table or file, and constants that the files do not have, each with its place in the table.
[[nodiscard]] Result<std::vector<FittedConstant>> fitted_constants(const std::string& root);

}  // namespace orrery
