#include "sim/base/units.hpp"

#include <cmath>
#include <limits>

#include "sim/base/check.hpp"

namespace orrery {

namespace {

constexpr std::int64_t kMaxCount = std::numeric_limits<std::int64_t>::max();

// 2^63 as a double: the first value that no longer fits.
constexpr double kFirstTooLarge = 9223372036854775808.0;

Duration duration_from_picoseconds(double picoseconds) {
  ORRERY_CHECK(picoseconds >= 0, "a duration is never negative or NaN", picoseconds);
  const double rounded = std::ceil(picoseconds);
  return rounded >= kFirstTooLarge ? Duration::max() : Duration(static_cast<std::int64_t>(rounded));
}

std::int64_t saturating_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? kMaxCount : sum;
}

}  // namespace

Duration duration_from_seconds(double seconds) { return duration_from_picoseconds(seconds * kPicosecondsPerSecond); }

Duration transfer_time(Bytes amount, BytesPerSecond rate) {
  if (amount.count() == 0) return Duration::zero();
  if (rate.count() <= 0) return Duration::max();
  return duration_from_picoseconds(static_cast<double>(amount.count()) * kPicosecondsPerSecond / rate.count());
}

Instant saturating_add(Instant a, Duration b) {
  return Instant(Duration(saturating_sum(a.time_since_epoch().count(), b.count())));
}

Duration saturating_add(Duration a, Duration b) { return Duration(saturating_sum(a.count(), b.count())); }

}  // namespace orrery
