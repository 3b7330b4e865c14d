// Physical quantities as types, so that bytes cannot be added to seconds and GB cannot be taken for GiB.
//
// Simulated time is an integer number of picoseconds: equal instants compare equal, nothing drifts, and 2^63 ps is
// 106 days, ample for one training step. Amounts that are counted (bytes) are integers; rates and FLOPs are doubles,
// and every function that turns a rate into a time rounds up to the next picosecond.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>

namespace orrery {

// A length of simulated time, in picoseconds.
using Duration = std::chrono::duration<std::int64_t, std::pico>;

// The clock of one training step; its epoch is the start of the simulation.
struct SimClock {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<SimClock, Duration>;
  static constexpr bool is_steady = true;
};

// A moment of simulated time. Instant - Instant is a Duration; two Instants cannot be added.
using Instant = SimClock::time_point;

// Later than every event: "never".
inline constexpr Instant kNever = Instant::max();

// A number with a unit. Quantities of one unit can be added, compared and scaled; mixing units does not compile.
template <class Unit, class Rep>
class Quantity {
 public:
  using rep = Rep;

  constexpr Quantity() = default;
  constexpr explicit Quantity(Rep count) : count_(count) {}

  // The bare number, in the unit that the type names.
  [[nodiscard]] constexpr Rep count() const { return count_; }

  constexpr Quantity& operator+=(Quantity other) {
    count_ += other.count_;
    return *this;
  }
  constexpr Quantity& operator-=(Quantity other) {
    count_ -= other.count_;
    return *this;
  }
  friend constexpr Quantity operator+(Quantity a, Quantity b) { return Quantity(a.count_ + b.count_); }
  friend constexpr Quantity operator-(Quantity a, Quantity b) { return Quantity(a.count_ - b.count_); }
  friend constexpr Quantity operator*(Quantity a, Rep factor) { return Quantity(a.count_ * factor); }
  friend constexpr Quantity operator*(Rep factor, Quantity a) { return Quantity(a.count_ * factor); }
  friend constexpr Quantity operator/(Quantity a, Rep divisor) { return Quantity(a.count_ / divisor); }
  friend constexpr auto operator<=>(Quantity, Quantity) = default;

 private:
  Rep count_{};
};

using Bytes = Quantity<struct ByteUnit, std::int64_t>;
using Flops = Quantity<struct FlopUnit, double>;  // floating-point operations (an amount)
using BytesPerSecond = Quantity<struct BytePerSecondUnit, double>;
using FlopsPerSecond = Quantity<struct FlopPerSecondUnit, double>;
using Watts = Quantity<struct WattUnit, double>;

inline constexpr double kPicosecondsPerSecond = 1e12;

// Seconds as a double, for reports. Exact below 2^53 ps (2.5 hours), correctly rounded above.
[[nodiscard]] constexpr double to_seconds(Duration d) { return static_cast<double>(d.count()) / kPicosecondsPerSecond; }

// The least whole number of picoseconds that is not shorter than `seconds`; saturates at Duration::max().
// `seconds` must not be negative or NaN.
[[nodiscard]] Duration duration_from_seconds(double seconds);

// How long `amount` takes at `rate`, rounded up. Zero for no bytes; Duration::max() at a rate of zero.
[[nodiscard]] Duration transfer_time(Bytes amount, BytesPerSecond rate);

// a + b, or Instant::max() / Duration::max() where the sum does not fit in 64 bits.
[[nodiscard]] Instant saturating_add(Instant a, Duration b);
[[nodiscard]] Duration saturating_add(Duration a, Duration b);

// ceil(a / b) for a >= 0, b > 0, without overflow.
[[nodiscard]] constexpr std::int64_t divide_up(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

namespace literals {
constexpr Bytes operator""_B(unsigned long long n) { return Bytes(static_cast<std::int64_t>(n)); }
constexpr Bytes operator""_KiB(unsigned long long n) { return Bytes(static_cast<std::int64_t>(n) << 10); }
constexpr Bytes operator""_MiB(unsigned long long n) { return Bytes(static_cast<std::int64_t>(n) << 20); }
constexpr Bytes operator""_GiB(unsigned long long n) { return Bytes(static_cast<std::int64_t>(n) << 30); }
constexpr Bytes operator""_MB(unsigned long long n) { return Bytes(static_cast<std::int64_t>(n) * 1'000'000); }
constexpr Bytes operator""_GB(unsigned long long n) { return Bytes(static_cast<std::int64_t>(n) * 1'000'000'000); }
constexpr BytesPerSecond operator""_GBps(unsigned long long n) { return BytesPerSecond(static_cast<double>(n) * 1e9); }
constexpr FlopsPerSecond operator""_TFLOPs(unsigned long long n) {
  return FlopsPerSecond(static_cast<double>(n) * 1e12);
}
constexpr Duration operator""_ps(unsigned long long n) { return Duration(static_cast<std::int64_t>(n)); }
constexpr Duration operator""_ns(unsigned long long n) { return Duration(static_cast<std::int64_t>(n) * 1'000); }
constexpr Duration operator""_us(unsigned long long n) { return Duration(static_cast<std::int64_t>(n) * 1'000'000); }
constexpr Duration operator""_ms(unsigned long long n) {
  return Duration(static_cast<std::int64_t>(n) * 1'000'000'000);
}
}  // namespace literals

}  // namespace orrery
