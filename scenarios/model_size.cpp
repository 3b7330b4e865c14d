// A shape for "a model of 5e8 parameters".
//
// Loss depends little on a transformer's shape and much on its size (Kaplan et al. 2020, section 3.1), but speed and
// memory depend on both, so the shape follows what was built: GPT-3's family (Brown et al. 2020, table 2.1), where
//   - heads are 64 wide below 10^9 parameters and 128 wide above,
//   - hidden over layers is about 64 below 10^9 and rises to 128 at 7 x 10^9 and beyond,
//   - layers are a multiple of four (of two below 10^9 parameters, where four would be too coarse).
// Among the shapes whose hidden-to-layers ratio is within a factor 1.5 of that, the one whose parameter count is
// nearest to the target is taken; of equally near ones, the one nearest in ratio. Heads come in multiples of 2, 4 and 8
// (below 10^9, 5 x 10^10, and beyond) so that tensor parallelism can divide them. Sizes already given stay.
#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include "scenarios/model_defaults.hpp"
#include "scenarios/readers.hpp"

namespace orrery {

namespace {

constexpr double kLargeModel = 1e9;
constexpr double kHugeModel = 5e10;
constexpr std::int64_t kHiddenMax = 1 << 18;
constexpr std::int64_t kLayersMax = 1024;
constexpr std::array kRatioSlacks{1.5, 4.0, 16.0};
constexpr std::int64_t kHeadWidthStep = 8;  // of heads whose number is given and whose width is not
constexpr double kErrorMax = 0.1;           // farther from the target than this is not "about"

double ratio_of(double target) {
  if (target <= kLargeModel) return 64;
  const double along = std::min(1.0, (target - kLargeModel) / (7e9 - kLargeModel));
  return 64 + 64 * along;
}

struct Shape {
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  double error = 0;       // of the parameter count, relative
  double ratio_slip = 1;  // factor between its ratio and the family's, at least 1
};

ModelSpec with_shape(const ModelSpec& model, std::int64_t layers, std::int64_t hidden, std::int64_t head_dim) {
  ModelSpec shaped = model;
  shaped.layers = layers;
  shaped.hidden = hidden;
  if (shaped.head_dim == 0) shaped.head_dim = model.heads > 0 ? hidden / model.heads : head_dim;
  if (shaped.heads == 0) shaped.heads = std::max<std::int64_t>(1, hidden / shaped.head_dim);
  fill_in_sizes(shaped);
  return shaped;
}

// Parameters are linear in layers: the number of layers that comes nearest, as a multiple of `step`.
std::int64_t nearest_layers(const ModelSpec& model, std::int64_t hidden, std::int64_t head_dim, double target,
                            std::int64_t step) {
  const auto one = static_cast<double>(parameters(with_shape(model, 1, hidden, head_dim)));
  const auto two = static_cast<double>(parameters(with_shape(model, 2, hidden, head_dim)));
  const double layers = 1 + (target - one) / std::max(1.0, two - one);
  const double steps = std::clamp(std::round(layers / static_cast<double>(step)), 1.0, double(kLayersMax));
  return static_cast<std::int64_t>(steps) * step;
}

bool better(const Shape& a, const Shape& b) {
  if (a.error != b.error) return a.error < b.error;
  return a.ratio_slip < b.ratio_slip;
}

// Widths and steps of the search, from the target and from what was given.
struct Search {
  double target = 0;
  std::int64_t head_dim = 0;
  std::int64_t hidden_step = 0;
  std::int64_t layer_step = 0;
};

Search search_for(const ModelSpec& model, double target) {
  Search search;
  search.target = target;
  search.head_dim = model.head_dim > 0 ? model.head_dim : (target < kLargeModel ? 64 : 128);
  std::int64_t heads = model.heads;
  if (heads == 0) heads = target < kLargeModel ? 2 : (target < kHugeModel ? 4 : 8);
  const std::int64_t width = model.heads > 0 && model.head_dim == 0 ? kHeadWidthStep : search.head_dim;
  search.hidden_step = heads * width;
  search.layer_step = target < kLargeModel ? 2 : 4;
  return search;
}

std::optional<Shape> best_shape(const ModelSpec& model, const Search& search, double ratio_slack) {
  const bool fixed = model.hidden > 0 || model.layers > 0;
  std::optional<Shape> best;
  for (std::int64_t hidden = model.hidden > 0 ? model.hidden : search.hidden_step; hidden <= kHiddenMax;
       hidden += search.hidden_step) {
    const std::int64_t layers = model.layers > 0
                                    ? model.layers
                                    : nearest_layers(model, hidden, search.head_dim, search.target, search.layer_step);
    const auto count = static_cast<double>(parameters(with_shape(model, layers, hidden, search.head_dim)));
    const double ratio = static_cast<double>(hidden) / static_cast<double>(layers) / ratio_of(search.target);
    const Shape shape{layers, hidden, std::abs(count / search.target - 1), std::max(ratio, 1 / ratio)};
    const bool alike = fixed || shape.ratio_slip <= ratio_slack;
    if (shape.error <= kErrorMax && alike && (!best || better(shape, *best))) best = shape;
    if (model.hidden > 0 || count > 4 * search.target) break;  // wider is only farther
  }
  return best;
}

}  // namespace

bool choose_shape(std::int64_t target, ModelSpec& model) {
  const Search search = search_for(model, static_cast<double>(target));
  std::optional<Shape> best;
  for (const double slack : kRatioSlacks) {
    if (!best) best = best_shape(model, search, slack);
  }
  if (!best) return false;
  model = with_shape(model, best->layers, best->hidden, search.head_dim);
  return true;
}

}  // namespace orrery
