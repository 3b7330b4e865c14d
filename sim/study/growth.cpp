#include "sim/study/growth.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>
#include <set>

namespace orrery {

namespace {

std::vector<std::pair<double, double>> with_logarithm(std::span<const std::pair<double, double>> points) {
  std::vector<std::pair<double, double>> usable;
  std::copy_if(points.begin(), points.end(), std::back_inserter(usable),
               [](const auto& p) { return p.first > 0 && p.second > 0 && std::isfinite(p.second); });
  return usable;
}

}  // namespace

int sizes_with_logarithm(std::span<const std::pair<double, double>> points) {
  std::set<double> sizes;
  for (const auto& point : with_logarithm(points)) sizes.insert(point.first);
  return static_cast<int>(sizes.size());
}

std::optional<PowerLaw> fit_power_law(std::span<const std::pair<double, double>> points) {
  if (sizes_with_logarithm(points) < kSizesForLaw) return std::nullopt;
  const std::vector<std::pair<double, double>> usable = with_logarithm(points);

  // log y = log coefficient + exponent log n
  const auto rows = static_cast<Eigen::Index>(usable.size());
  Eigen::MatrixX2d design(rows, 2);
  Eigen::VectorXd observed(rows);
  for (Eigen::Index i = 0; i < rows; ++i) {
    const auto& [n, y] = usable[static_cast<std::size_t>(i)];
    design(i, 0) = 1;
    design(i, 1) = std::log(n);
    observed(i) = std::log(y);
  }
  const Eigen::Vector2d solution = design.colPivHouseholderQr().solve(observed);

  const double unexplained = (observed - design * solution).squaredNorm();
  const double total = (observed.array() - observed.mean()).matrix().squaredNorm();
  return PowerLaw{.coefficient = std::exp(solution(0)),
                  .exponent = solution(1),
                  // A constant has nothing to explain: the line through it is exact.
                  .r_squared = total > 0 ? std::max(0.0, 1 - unexplained / total) : 1,
                  .points = static_cast<int>(rows)};
}

}  // namespace orrery
