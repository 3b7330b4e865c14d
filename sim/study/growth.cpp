#include "sim/study/growth.hpp"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

namespace orrery {

std::optional<PowerLaw> fit_power_law(std::span<const std::pair<double, double>> points) {
  std::vector<std::pair<double, double>> usable;
  std::copy_if(points.begin(), points.end(), std::back_inserter(usable),
               [](const auto& p) { return p.first > 0 && p.second > 0 && std::isfinite(p.second); });
  const bool varied =
      std::any_of(usable.begin(), usable.end(), [&](const auto& p) { return p.first != usable.front().first; });
  if (!varied) return std::nullopt;

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
