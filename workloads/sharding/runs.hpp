// Sizes of the groups that hybrid strategies cut the data group into.
#pragma once

#include <cstdint>
#include <string>

namespace orrery {

// Empty when groups of `size` divide `members`; otherwise the nearest sizes that do.
[[nodiscard]] std::string misfit(std::int64_t size, std::int64_t members);

}  // namespace orrery
