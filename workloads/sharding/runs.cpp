#include "workloads/sharding/runs.hpp"

#include <fmt/core.h>

#include <algorithm>

namespace orrery {

std::string misfit(std::int64_t size, std::int64_t members) {
  if (size >= 1 && members % size == 0) return {};
  std::string text;
  for (std::int64_t below = std::min(size - 1, members); below >= 1; --below) {
    if (members % below != 0) continue;
    text = fmt::format("{}", below);
    break;
  }
  for (std::int64_t above = size + 1; above <= members; ++above) {
    if (members % above != 0) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", above);
    break;
  }
  return "nearest valid: " + text;
}

}  // namespace orrery
