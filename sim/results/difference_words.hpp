// The phrases that differences between two runs are told in: one for each cause.
#pragma once

#include <string>

#include "sim/results/difference.hpp"

namespace orrery {

// "the data all-gather "gather parameters"", "pipeline transfers in the backward pass"
[[nodiscard]] std::string subject_of(const std::string& among, const std::string& operation, Phase phase,
                                     const std::string& label);

// What a difference is, without its amount: "longer waits for ...: ..."
[[nodiscard]] std::string words_of(const Difference& difference, const ComparedRun& base, const ComparedRun& variant);

// The whole explanation, from its differences, whose words are there already.
[[nodiscard]] std::string paragraph_of(const Explanation& explanation, const ComparedRun& base,
                                       const ComparedRun& variant);

}  // namespace orrery
