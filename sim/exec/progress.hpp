// How far a run has come, for who waits for it.
#pragma once

#include <cstdint>
#include <functional>

#include "sim/base/units.hpp"

namespace orrery {

// Told the simulated time and the number of events handled, every kProgressEvents events.
using ProgressFunction = std::function<void(Instant now, std::int64_t events)>;
inline constexpr std::uint64_t kProgressEvents = 1 << 16;  // some 30 ms of work

}  // namespace orrery
