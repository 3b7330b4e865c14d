#include "workloads/flops.hpp"

namespace orrery {

Flops forward_flops(const ModelSpec& m, std::int64_t sequence) {
  const std::int64_t query = m.heads * m.head_dim;
  const std::int64_t kv = m.kv_heads * m.head_dim;
  const std::int64_t layer = m.hidden * (2 * query + 2 * kv) + (m.gated_mlp ? 3 : 2) * m.hidden * m.ffn_hidden;
  const std::int64_t matrices = m.layers * layer + m.vocabulary * m.hidden;
  const auto s = static_cast<double>(sequence);
  const double products = 2.0 * static_cast<double>(matrices) * s;
  const double attention = 4.0 * s * s * static_cast<double>(query) * static_cast<double>(m.layers);
  return Flops(products + attention);
}

Flops model_flops(const ModelSpec& model, std::int64_t sequence, std::int64_t sequences) {
  return Flops(3.0 * forward_flops(model, sequence).count() * static_cast<double>(sequences));
}

}  // namespace orrery
