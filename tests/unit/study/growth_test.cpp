#include "sim/study/growth.hpp"

#include <doctest/doctest.h>

#include <cmath>

using namespace orrery;

TEST_CASE("an exact power law is found exactly") {
  for (const double exponent : {-1.0, 0.5, 1.0, 2.0, 2.5}) {
    std::vector<std::pair<double, double>> points;
    for (const double n : {10.0, 20.0, 30.0, 40.0}) points.emplace_back(n, 7 * std::pow(n, exponent));
    const auto law = fit_power_law(points);
    REQUIRE(law.has_value());
    CHECK(law->exponent == doctest::Approx(exponent).epsilon(1e-10));
    CHECK(law->coefficient == doctest::Approx(7).epsilon(1e-9));
    CHECK(law->r_squared == doctest::Approx(1));
    CHECK(law->points == 4);
  }
}

TEST_CASE("a constant has exponent zero") {
  const auto law = fit_power_law(std::vector<std::pair<double, double>>{{8, 3}, {16, 3}, {32, 3}});
  REQUIRE(law.has_value());
  CHECK(law->exponent == doctest::Approx(0));
  CHECK(law->r_squared == doctest::Approx(1));
}

TEST_CASE("n (n - 1) messages approach the square from above") {
  // log(40 x 39 / (10 x 9)) / log 4 = 2.058: the chord; the fit over all points lies near it.
  std::vector<std::pair<double, double>> points;
  for (const double n : {10.0, 20.0, 30.0, 40.0}) points.emplace_back(n, n * (n - 1));
  const auto law = fit_power_law(points);
  REQUIRE(law.has_value());
  CHECK(law->exponent == doctest::Approx(2.058).epsilon(0.005));
  CHECK(law->r_squared < 1);
  CHECK(law->r_squared > 0.999);
}

TEST_CASE("points without a logarithm are left out, and one size makes no law") {
  const std::vector<std::pair<double, double>> squares{{1, 0}, {2, 4}, {4, 16}, {8, 64}};
  CHECK(sizes_with_logarithm(squares) == 3);
  const auto law = fit_power_law(squares);
  REQUIRE(law.has_value());
  CHECK(law->exponent == doctest::Approx(2));
  CHECK(law->points == 3);
  CHECK_FALSE(fit_power_law(std::vector<std::pair<double, double>>{{8, 1}, {8, 2}}).has_value());
  CHECK_FALSE(fit_power_law(std::vector<std::pair<double, double>>{{8, 0}, {16, 0}}).has_value());
  CHECK_FALSE(fit_power_law({}).has_value());
}

TEST_CASE("two sizes are no fit, however often they were run") {
  // Any two points lie on a power law; repeated ones add no third.
  CHECK_FALSE(fit_power_law(std::vector<std::pair<double, double>>{{8, 1}, {16, 2}}).has_value());
  CHECK_FALSE(fit_power_law(std::vector<std::pair<double, double>>{{8, 1}, {16, 2}, {16, 3}}).has_value());
  CHECK(fit_power_law(std::vector<std::pair<double, double>>{{8, 1}, {16, 2}, {32, 3}}).has_value());
}
