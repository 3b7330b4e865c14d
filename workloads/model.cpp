#include "workloads/model.hpp"

#include <fmt/core.h>

namespace orrery {

namespace {

std::int64_t norm_parameters(const ModelSpec& model) {
  return model.norm == NormKind::layer_norm && model.norm_bias ? 2 * model.hidden : model.hidden;
}

std::int64_t layer_parameters(const ModelSpec& m) {
  const std::int64_t query = m.heads * m.head_dim;
  const std::int64_t kv = m.kv_heads * m.head_dim;
  std::int64_t sum = 2 * norm_parameters(m);
  sum += m.hidden * (query + 2 * kv) + query * m.hidden;
  if (m.attention_bias) sum += query + 2 * kv + m.hidden;
  const std::int64_t into = m.gated_mlp ? 2 : 1;
  sum += m.hidden * into * m.ffn_hidden + m.ffn_hidden * m.hidden;
  if (m.mlp_bias) sum += into * m.ffn_hidden + m.hidden;
  return sum;
}

}  // namespace

std::int64_t parameters(const ModelSpec& m) {
  std::int64_t sum = m.vocabulary * m.hidden;
  if (m.position == PositionKind::learned) sum += m.positions * m.hidden;
  if (m.embedding_norm) sum += norm_parameters(m);
  sum += m.layers * layer_parameters(m);
  sum += norm_parameters(m);
  if (!m.tied_embeddings) sum += m.vocabulary * m.hidden;
  return sum;
}

Problems check(const ModelSpec& m) {
  Problems problems;
  const auto positive = [&](const char* key, std::int64_t value) {
    if (value < 1)
      problems.push_back({fmt::format("model.{}", key), fmt::format("{} is {}", key, value), "at least 1"});
  };
  positive("layers", m.layers);
  positive("hidden", m.hidden);
  positive("heads", m.heads);
  positive("kv_heads", m.kv_heads);
  positive("head_dim", m.head_dim);
  positive("ffn_hidden", m.ffn_hidden);
  positive("vocabulary", m.vocabulary);
  positive("positions", m.positions);
  if (m.kv_heads > 0 && m.heads > 0 && m.heads % m.kv_heads != 0) {
    std::string nearest;
    for (std::int64_t n = m.kv_heads; n <= m.heads && nearest.empty(); ++n) {
      if (m.heads % n == 0) nearest = fmt::format("nearest valid: {}", n);
    }
    if (nearest.empty()) nearest = fmt::format("at most {}", m.heads);
    problems.push_back({"model.kv_heads",
                        fmt::format("{} key-value heads cannot be shared evenly by {} heads", m.kv_heads, m.heads),
                        nearest});
  }
  return problems;
}

}  // namespace orrery
