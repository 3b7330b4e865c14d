#include "sim/fluid/rate.hpp"

namespace orrery {

Duration time_for(Ticks work, Rate rate) {
  if (work <= 0) return Duration::zero();
  if (rate.count() <= 0) return Duration::max();
  const auto divisor = static_cast<UInt128>(rate.count());
  const UInt128 quotient = (static_cast<UInt128>(work) + divisor - 1) / divisor;
  constexpr auto kLongest = static_cast<UInt128>(std::numeric_limits<std::int64_t>::max());
  return quotient >= kLongest ? Duration::max() : Duration(static_cast<std::int64_t>(quotient));
}

}  // namespace orrery
