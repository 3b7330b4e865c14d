#include "workloads/flops.hpp"

#include "workloads/image_model.hpp"

namespace orrery {

Flops forward_flops(const ModelSpec& m, std::int64_t sequence) {
  if (m.images()) return Flops(2.0 * static_cast<double>(image_multiply_adds(m)));
  const std::int64_t with_experts = m.expert_layers();
  const std::int64_t active =
      m.experts * m.hidden + m.top_k * mlp_matrices(m, m.expert_ffn_hidden) + mlp_matrices(m, m.shared_ffn_hidden());
  const std::int64_t matrices = m.layers * attention_matrices(m) +
                                (m.layers - with_experts) * mlp_matrices(m, m.ffn_hidden) + with_experts * active +
                                m.vocabulary * m.hidden;
  const auto s = static_cast<double>(sequence);
  const double products = 2.0 * static_cast<double>(matrices) * s;
  const auto widths = static_cast<double>(m.heads * (m.key_dim() + m.value_dim()));
  const double attention = 2.0 * s * s * widths * static_cast<double>(m.layers);
  return Flops(products + attention);
}

Flops model_flops(const ModelSpec& model, std::int64_t sequence, std::int64_t sequences) {
  return Flops(3.0 * forward_flops(model, sequence).count() * static_cast<double>(sequences));
}

}  // namespace orrery
