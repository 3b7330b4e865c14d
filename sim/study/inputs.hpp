// A digest of all that a simulation's result depends on beside the settings of a sweep: the scenario file, the files it
// names, the catalogue, and this program. A sweep takes over earlier results only where it is the same.
#pragma once

#include <string>

#include "scenarios/load.hpp"

namespace orrery {

// Files that a scenario names are found by their looks (a word that ends in .yaml, .yml or .json and is a file when
// taken relative to where it stands): a digest that covers too much costs a simulation, one that covers too little a
// wrong answer. Files that cannot be read count as empty. O(bytes of all these files).
[[nodiscard]] std::string digest_of_inputs(const std::string& scenario_file, const LoadOptions& load);

}  // namespace orrery
