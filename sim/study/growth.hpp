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

// Least squares on the logarithms. Points where n or y is not positive have no logarithm and are left out; absent when
// fewer than two different n remain.
[[nodiscard]] std::optional<PowerLaw> fit_power_law(std::span<const std::pair<double, double>> points);

}  // namespace orrery
