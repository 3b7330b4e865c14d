#include "workloads/model.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <utility>

#include "sim/base/units.hpp"
#include "workloads/image_model.hpp"

namespace orrery {

namespace {

std::int64_t norm_parameters(const ModelSpec& model) {
  return model.norm == NormKind::layer_norm && model.norm_bias ? 2 * model.hidden : model.hidden;
}

// Norms within attention.
std::int64_t inner_norm_parameters(const ModelSpec& m) {
  std::int64_t sum = m.qk_norm ? 2 * m.key_dim() : 0;
  if (m.latent()) sum += m.kv_lora_rank + m.q_lora_rank;
  return sum;
}

std::int64_t attention_parameters(const ModelSpec& m) {
  const std::int64_t query = m.heads * m.head_dim;
  const std::int64_t kv = m.kv_heads * m.head_dim;
  return attention_matrices(m) + (m.attention_bias ? query + 2 * kv + m.hidden : 0);
}

std::int64_t mlp_parameters(const ModelSpec& m, std::int64_t ffn_hidden) {
  const std::int64_t into = m.gated_mlp ? 2 : 1;
  return mlp_matrices(m, ffn_hidden) + (m.mlp_bias ? into * ffn_hidden + m.hidden : 0);
}

// `routed`: how many of the experts are counted.
std::int64_t expert_layer_mlp(const ModelSpec& m, std::int64_t routed) {
  const std::int64_t shared = m.shared_experts > 0 ? mlp_parameters(m, m.shared_ffn_hidden()) : 0;
  return m.experts * m.hidden + routed * mlp_parameters(m, m.expert_ffn_hidden) + shared;
}

// Layers with weights of their own.
std::int64_t distinct_layers(const ModelSpec& m) { return m.layer_groups > 0 ? m.layer_groups : m.layers; }

// Outside the layers.
std::int64_t end_parameters(const ModelSpec& m) {
  if (m.images()) return norm_parameters(m) + image_end_parameters(m);
  return embedding_parameters(m, Part::embedding) + embedding_parameters(m, Part::norms) +
         head_parameters(m, Part::head) + head_parameters(m, Part::norms);
}

// `layers`: how many of these are counted.
std::int64_t count(const ModelSpec& m, std::int64_t layers, std::int64_t routed) {
  if (m.kind == ModelKind::resnet) return convolution_parameters(m);
  std::int64_t sum = end_parameters(m);
  const std::int64_t with_experts = m.expert_layers();
  sum += layers * (layer_parameters(m, Part::attention, false) + layer_parameters(m, Part::norms, false));
  sum += (layers - with_experts) * layer_parameters(m, Part::mlp, false);
  return sum + with_experts * expert_layer_mlp(m, routed);
}

// A key that must be at least `least`.
void at_least(Problems& problems, const char* key, std::int64_t value, std::int64_t least) {
  if (value >= least) return;
  problems.push_back(
      {fmt::format("model.{}", key), fmt::format("{} is {}", key, value), fmt::format("at least {}", least)});
}

void check_experts(const ModelSpec& m, Problems& problems) {
  if (m.experts == 0) return;
  at_least(problems, "experts", m.experts, 1);
  at_least(problems, "top_k", m.top_k, 1);
  at_least(problems, "expert_ffn_hidden", m.expert_ffn_hidden, 1);
  at_least(problems, "shared_experts", m.shared_experts, 0);
  at_least(problems, "dense_layers", m.dense_layers, 0);
  at_least(problems, "moe_every", m.moe_every, 1);
  at_least(problems, "expert_groups", m.expert_groups, 1);
  at_least(problems, "groups_per_token", m.groups_per_token, 1);
  if (!problems.empty()) return;
  const auto wrong = [&](const char* key, std::string message, std::string note) {
    problems.push_back({fmt::format("model.{}", key), std::move(message), std::move(note)});
  };
  if (m.top_k > m.experts) {
    wrong("top_k", fmt::format("a token cannot go to {} of {} experts", m.top_k, m.experts),
          fmt::format("at most {}", m.experts));
  }
  if (m.experts % m.expert_groups != 0) {
    wrong("expert_groups", fmt::format("{} experts do not fall into {} equal groups", m.experts, m.expert_groups),
          "it divides experts");
  } else if (m.groups_per_token > m.expert_groups) {
    wrong("groups_per_token", fmt::format("a token cannot go to {} of {} groups", m.groups_per_token, m.expert_groups),
          fmt::format("at most {}", m.expert_groups));
  } else if (m.top_k <= m.experts && m.groups_per_token * (m.experts / m.expert_groups) < m.top_k) {
    wrong("groups_per_token",
          fmt::format("{} groups of {} experts hold fewer than the {} that a token goes to", m.groups_per_token,
                      m.experts / m.expert_groups, m.top_k),
          fmt::format("at least {}", divide_up(m.top_k, m.experts / m.expert_groups)));
  }
  if (m.mlp_bias) wrong("mlp_bias", "experts with biases are not simulated", "false");
}

void check_latent(const ModelSpec& m, Problems& problems) {
  if (m.kv_lora_rank == 0) return;
  at_least(problems, "kv_lora_rank", m.kv_lora_rank, 1);
  at_least(problems, "q_lora_rank", m.q_lora_rank, 0);
  at_least(problems, "qk_nope_head_dim", m.qk_nope_head_dim, 1);
  at_least(problems, "qk_rope_head_dim", m.qk_rope_head_dim, 1);
  at_least(problems, "v_head_dim", m.v_head_dim, 1);
  if (m.kv_heads != m.heads) {
    problems.push_back({"model.kv_heads", "latent attention has keys and values for every head",
                        fmt::format("nearest valid: {}", m.heads)});
  }
  if (m.attention_bias) {
    problems.push_back({"model.attention_bias", "latent attention with biases is not simulated", "false"});
  }
}

void check_sharing(const ModelSpec& m, Problems& problems) {
  const auto wrong = [&](const char* key, std::string message, std::string note) {
    problems.push_back({fmt::format("model.{}", key), std::move(message), std::move(note)});
  };
  at_least(problems, "layer_groups", m.layer_groups, 0);
  if (m.layer_groups > 0 && m.layers > 0 && m.layers % m.layer_groups != 0) {
    std::int64_t below = std::min(m.layer_groups, m.layers);
    while (m.layers % below != 0) --below;
    wrong("layer_groups", fmt::format("{} layers do not fall into {} equal groups", m.layers, m.layer_groups),
          fmt::format("nearest valid: {}", below));
  }
  if (m.layer_groups > 0 && m.experts > 0) {
    wrong("layer_groups", "layers with experts that share their weights are not simulated", "leave it out");
  }
  at_least(problems, "low_rank.rank", m.low_rank, 0);
  if (m.low_rank == 0) return;
  if (m.experts > 0 || m.latent()) {
    wrong("low_rank", "low-rank matrices are simulated in dense layers with plain projections only", "leave it out");
  }
  if (m.low_rank_targets.has(Target::gate) && !m.gated_mlp && !m.low_rank_targets.has(Target::up)) {
    wrong("low_rank.targets", "the MLP has no gate", "q, k, v, o, up, down");
  }
}

}  // namespace

std::int64_t ModelSpec::expert_layers() const {
  std::int64_t sum = 0;
  for (std::int64_t layer = 0; layer < layers; ++layer) sum += has_experts(layer) ? 1 : 0;
  return sum;
}

std::int64_t layer_parameters(const ModelSpec& m, Part part, bool has_experts) {
  switch (part) {
    case Part::attention:
      return attention_parameters(m);
    case Part::mlp:
      return has_experts ? expert_layer_mlp(m, m.experts) : mlp_parameters(m, m.ffn_hidden);
    case Part::norms:
      return 2 * norm_parameters(m) + inner_norm_parameters(m);
    case Part::embedding:
    case Part::head:
      break;
  }
  return 0;
}

std::int64_t embedding_parameters(const ModelSpec& m, Part part) {
  if (part == Part::norms) return m.embedding_norm ? norm_parameters(m) : 0;
  if (part != Part::embedding) return 0;
  return (m.vocabulary + (m.position == PositionKind::learned ? m.positions : 0)) * m.hidden;
}

std::int64_t head_parameters(const ModelSpec& m, Part part) {
  if (part == Part::norms) return norm_parameters(m);
  return part == Part::head && !m.tied_embeddings ? m.vocabulary * m.hidden : 0;
}

std::int64_t matrix_elements(const ModelSpec& m, Target target, std::int64_t in, std::int64_t out) {
  const std::int64_t rank = m.rank_of(target);
  return rank > 0 ? rank * (in + out) : in * out;
}

std::int64_t adapter_elements(const ModelSpec& m, const LoraSpec& lora) {
  const std::int64_t query = m.heads * m.head_dim;
  const std::int64_t kv = m.kv_heads * m.head_dim;
  std::int64_t sides = 0;  // what goes into a matrix and what comes out of it, over all targets
  const auto add = [&](Target target, std::int64_t in, std::int64_t out) {
    if (lora.targets.has(target)) sides += in + out;
  };
  add(Target::q, m.hidden, query);
  add(Target::k, m.hidden, kv);
  add(Target::v, m.hidden, kv);
  add(Target::o, query, m.hidden);
  if (m.gated_mlp) add(Target::gate, m.hidden, m.ffn_hidden);
  add(Target::up, m.hidden, m.ffn_hidden);
  add(Target::down, m.ffn_hidden, m.hidden);
  return lora.rank * sides;
}

std::int64_t attention_matrices(const ModelSpec& m) {
  if (!m.latent()) {
    const std::int64_t query = m.heads * m.head_dim;
    const std::int64_t kv = m.kv_heads * m.head_dim;
    return matrix_elements(m, Target::q, m.hidden, query) + matrix_elements(m, Target::k, m.hidden, kv) +
           matrix_elements(m, Target::v, m.hidden, kv) + matrix_elements(m, Target::o, query, m.hidden);
  }
  const std::int64_t queries = m.heads * m.key_dim();
  std::int64_t sum = m.q_lora_rank > 0 ? (m.hidden + queries) * m.q_lora_rank : m.hidden * queries;
  sum += m.hidden * (m.kv_lora_rank + m.qk_rope_head_dim);
  sum += m.kv_lora_rank * m.heads * (m.qk_nope_head_dim + m.v_head_dim);
  return sum + m.heads * m.v_head_dim * m.hidden;
}

std::int64_t mlp_matrices(const ModelSpec& m, std::int64_t ffn_hidden) {
  const std::int64_t gate = m.gated_mlp ? matrix_elements(m, Target::gate, m.hidden, ffn_hidden) : 0;
  return gate + matrix_elements(m, Target::up, m.hidden, ffn_hidden) +
         matrix_elements(m, Target::down, ffn_hidden, m.hidden);
}

std::int64_t parameters(const ModelSpec& m) { return count(m, distinct_layers(m), m.experts); }

std::int64_t active_parameters(const ModelSpec& m) { return count(m, m.layers, m.top_k); }

Problems check(const ModelSpec& m) {
  Problems problems;
  if (m.images()) {
    problems = check_images(m);
    if (m.kind == ModelKind::resnet) return problems;
  }
  const auto positive = [&](const char* key, std::int64_t value) { at_least(problems, key, value, 1); };
  positive("layers", m.layers);
  positive("hidden", m.hidden);
  positive("heads", m.heads);
  positive("kv_heads", m.kv_heads);
  positive("head_dim", m.head_dim);
  positive("ffn_hidden", m.ffn_hidden);
  if (!m.images()) {
    positive("vocabulary", m.vocabulary);
    positive("positions", m.positions);
  }
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
  check_experts(m, problems);
  check_latent(m, problems);
  check_sharing(m, problems);
  return problems;
}

}  // namespace orrery
