#include "sim/results/quantities.hpp"

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <string_view>

namespace orrery {

namespace {

// Three significant digits without an exponent, and all digits of what is larger.
std::string three_digits(double value) {
  const double size = std::abs(value);
  if (size >= 99.95) return fmt::format("{:.0f}", value);
  if (size >= 9.995) return fmt::format("{:.1f}", value);
  return fmt::format("{:.2f}", value);
}

// The value in the largest of `units` that leaves at least one; `step` is the ratio between neighbours.
template <std::size_t N>
std::string scaled(double value, double step, const std::array<std::string_view, N>& units) {
  std::size_t unit = 0;
  // 0.9995: what would be printed as 1000 belongs to the next unit.
  while (unit + 1 < N && std::abs(value) >= step * 0.9995) {
    value /= step;
    ++unit;
  }
  const std::string digits = unit == 0 ? fmt::format("{:.0f}", value) : three_digits(value);
  return units[unit].empty() ? digits : fmt::format("{} {}", digits, units[unit]);
}

}  // namespace

std::string with_separators(std::int64_t value) {
  std::string digits = fmt::format("{}", value);
  const std::size_t first = digits[0] == '-' ? 1 : 0;
  for (std::size_t at = digits.size(); at > first + 3;) {
    at -= 3;
    digits.insert(at, 1, ',');
  }
  return digits;
}

std::string human_seconds(double seconds) {
  constexpr double kMinute = 60;
  constexpr double kHour = 3600;
  constexpr double kDay = 86400;
  const double size = std::abs(seconds);
  if (size == 0) return "0 s";
  if (size < 0.9995e-3) return three_digits(seconds * 1e6) + " us";
  if (size < 0.9995) return three_digits(seconds * 1e3) + " ms";
  if (size < 2 * kMinute) return three_digits(seconds) + " s";
  if (size < 2 * kHour) return three_digits(seconds / kMinute) + " min";
  if (size < 2 * kDay) return three_digits(seconds / kHour) + " h";
  return three_digits(seconds / kDay) + " days";
}

std::string human_memory(std::int64_t bytes) {
  constexpr std::array<std::string_view, 6> kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
  return scaled(static_cast<double>(bytes), 1024, kUnits);
}

std::string human_traffic(std::int64_t bytes) {
  constexpr std::array<std::string_view, 7> kUnits{"B", "KB", "MB", "GB", "TB", "PB", "EB"};
  return scaled(static_cast<double>(bytes), 1000, kUnits);
}

std::string human_count(double count) {
  constexpr std::array<std::string_view, 5> kUnits{"", "thousand", "million", "billion", "trillion"};
  return scaled(count, 1000, kUnits);
}

std::string human_percent(double fraction) { return fmt::format("{:.1f} %", fraction * 100); }

}  // namespace orrery
