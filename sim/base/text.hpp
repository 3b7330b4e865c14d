// Small helpers for messages: the nearest name to a misspelt one, and lists of names.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace orrery {

// The first candidate that begins with `word`; else the one with the least edit distance (insert, delete, replace, swap
// neighbours) to it, or an empty string when even the nearest differs in more than a third of its letters. Ties go to
// the first candidate. O(candidates x letters^2).
[[nodiscard]] std::string nearest_name(std::string_view word, std::span<const std::string> candidates);

// "a, b, c"
[[nodiscard]] std::string join(std::span<const std::string> words, std::string_view separator = ", ");

}  // namespace orrery
