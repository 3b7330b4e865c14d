// Numbers with units, as users write them: "400 Gb/s", "80 GiB", "5 us", "312 TFLOP/s", "300e9 tokens", "2 %".
//
// Prefixes are exact: GB is 10^9 bytes and GiB 2^30; b is a bit and B a byte. Where a unit is needed a bare number is
// an error, since it could mean anything; counts and fractions may go without.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace orrery {

enum class Dimension : std::uint8_t {
  number,        // no unit
  fraction,      // none, or %
  tokens,        // none, or tokens; K, M, B, T
  parameters,    // none, or parameters; K, M, B, T
  size,          // bytes
  time,          // picoseconds
  data_rate,     // bytes per second
  compute_rate,  // FLOP per second
  power,         // watts
  price,         // US dollars per hour
};
inline constexpr std::size_t kDimensions = 10;

// What the dimension is called ("a data rate") and a right example ("400 Gb/s").
[[nodiscard]] std::string_view name_of(Dimension dimension);
[[nodiscard]] std::string_view example_of(Dimension dimension);

struct QuantityError {
  std::string message;
  std::string note;
};

// The value in the dimension's base unit (the one its comment names). Finite. O(text).
[[nodiscard]] std::variant<double, QuantityError> parse_quantity(std::string_view text, Dimension dimension);

// The value with the largest unit that leaves a number of at least one: "2 TB/s".
[[nodiscard]] std::string format_quantity(double value, Dimension dimension);

}  // namespace orrery
