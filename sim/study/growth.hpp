// How a quantity grows with the number of GPUs: the exponent of the power law through simulated points.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace orrery {

// y = coefficient x n^exponent.
struct PowerLaw {
  double coefficient = 0;
  double exponent = 0;
  double r_squared = 0;  // of the straight line through the logarithms; 1 when the points lie on it
  int points = 0;        // that the fit rests on
};

// A straight line goes through any two points: of that many different n on, a fit says something.
inline constexpr int kSizesForLaw = 3;

// How many different n there are among the points where n and y are positive; the others have no logarithm.
[[nodiscard]] int sizes_with_logarithm(std::span<const std::pair<double, double>> points);

// Least squares on the logarithms. Points without one are left out; absent when fewer than kSizesForLaw different n
// remain.
[[nodiscard]] std::optional<PowerLaw> fit_power_law(std::span<const std::pair<double, double>> points);

}  // namespace orrery
