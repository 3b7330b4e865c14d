#include "sim/engine/event.hpp"

#include <array>
#include <cstddef>

namespace orrery {

std::string_view to_string(EventPhase phase) {
  static constexpr std::array<std::string_view, kPhaseCount> kNames = {"complete", "start", "settle"};
  return kNames[static_cast<std::size_t>(phase)];
}

}  // namespace orrery
