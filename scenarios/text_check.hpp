// Is it text at all? What a YAML parser should not be given, found and located beforehand.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/base/problem.hpp"

namespace orrery {

// The first thing that makes `text` no UTF-8 text (another encoding's mark, a NUL or other control character, a broken
// UTF-8 sequence), or too much of one. O(bytes).
[[nodiscard]] std::optional<Problem> find_text_problem(std::string_view text, const std::string& name);

[[nodiscard]] std::string_view without_byte_order_mark(std::string_view text);
[[nodiscard]] std::string_view without_trailing_space(std::string_view text);

// In double quotes, with YAML's (and JSON's) escapes for quotes, backslashes and control characters.
[[nodiscard]] std::string escaped_in_quotes(std::string_view text);

}  // namespace orrery
