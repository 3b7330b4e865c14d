// Rates and amounts of work of the fluid layer, in integers.
//
// A rate is a whole number of 1/64 unit per second, the unit being whatever the user counts work in: bytes, FLOPs.
// Sums of rates are then exact whatever their order, and k shares of one rate are one share counted k times. Work is
// kept in ticks, the work done in one picosecond at the smallest rate: rate times time is a whole number of ticks, so
// progress is never rounded. 128 bits hold 2^63 units of work.
#pragma once

#include <cstdint>
#include <limits>

#include "sim/base/check.hpp"
#include "sim/base/int128.hpp"
#include "sim/base/units.hpp"

namespace orrery {

// In 1/64 unit per second.
using Rate = Quantity<struct SixtyFourthsPerSecondUnit, std::int64_t>;

// The cap of an activity that is limited by its resources alone.
inline constexpr Rate kUncapped = Rate(std::numeric_limits<std::int64_t>::max());

// The largest capacity: 1.8e16 units per second. Beyond, sums of rates might not fit in 64 bits.
inline constexpr Rate kMaxRate = Rate(std::int64_t{1} << 60);

// An amount of work in 1/64 unit per second times picoseconds.
using Ticks = Int128;

inline constexpr std::int64_t kRateStepsPerUnit = 64;
inline constexpr std::int64_t kTicksPerUnit = kRateStepsPerUnit * 1'000'000'000'000;

// The largest rate that is not above `units_per_second`; kUncapped for infinity. Must lie in [0, kMaxRate] or be
// infinite.
[[nodiscard]] inline Rate rate_from(double units_per_second) {
  if (units_per_second == std::numeric_limits<double>::infinity()) return kUncapped;
  const double steps = units_per_second * kRateStepsPerUnit;
  ORRERY_CHECK(steps >= 0 && steps <= static_cast<double>(kMaxRate.count()), "a rate out of range", units_per_second);
  return Rate(static_cast<std::int64_t>(steps));
}
[[nodiscard]] inline Rate rate_from(BytesPerSecond rate) { return rate_from(rate.count()); }
[[nodiscard]] inline Rate rate_from(FlopsPerSecond rate) { return rate_from(rate.count()); }

// Units per second; exact below 2^53 steps.
[[nodiscard]] constexpr double units_per_second(Rate rate) {
  return rate == kUncapped ? std::numeric_limits<double>::infinity()
                           : static_cast<double>(rate.count()) / kRateStepsPerUnit;
}

[[nodiscard]] constexpr Ticks ticks_from_units(std::int64_t units) { return static_cast<Ticks>(units) * kTicksPerUnit; }

// What is done at `rate` within `time`.
[[nodiscard]] constexpr Ticks work_done(Rate rate, Duration time) {
  return static_cast<Ticks>(rate.count()) * time.count();
}

// How long `work` takes at `rate`, rounded up to the next picosecond; Duration::max() where that does not fit or the
// rate is zero.
[[nodiscard]] Duration time_for(Ticks work, Rate rate);

}  // namespace orrery
