#include "workloads/flops.hpp"

#include "workloads/image_model.hpp"

namespace orrery {

namespace {

// Walks through the model as operators/trim.cpp does, and counts units of 2 x elements per token: one forward, one for
// the gradient of the input where that is asked for, one for that of the weight where it is trained.
class Walk {
 public:
  Walk(const ModelSpec& model, const LoraSpec& lora, double sequence) : m_(model), lora_(lora), s_(sequence) {}

  void layer(const BlockTraining& training, bool has_experts) {
    live_ = training.live;
    adapters_ = training.adapters;
    const bool norms = training.parts.has(Part::norms);
    const bool attention = training.parts.has(Part::attention);
    live_ = live_ || norms;
    if (m_.latent()) {
      latent_inputs(attention, norms);
    } else {
      const std::int64_t query = m_.heads * m_.head_dim;
      const std::int64_t kv = m_.kv_heads * m_.head_dim;
      const Target all[] = {Target::q, Target::k, Target::v};
      const std::int64_t outs[] = {query, kv, kv};
      together(all, outs, 3, attention);
      live_ = live_ || (m_.qk_norm && norms);
    }
    const auto widths = static_cast<double>(m_.heads * (m_.key_dim() + m_.value_dim()));
    flops_ += 2.0 * s_ * s_ * widths * (live_ ? 3 : 1);
    target(Target::o, m_.heads * m_.value_dim(), m_.hidden, attention);
    live_ = live_ || norms;
    const bool mlp = training.parts.has(Part::mlp);
    if (has_experts) {
      product(m_.experts * m_.hidden, mlp);
      product(m_.top_k * mlp_matrices(m_, m_.expert_ffn_hidden) + mlp_matrices(m_, m_.shared_ffn_hidden()), mlp);
      return;
    }
    const Target into[] = {Target::up, Target::gate};
    const std::int64_t outs[] = {m_.ffn_hidden, m_.ffn_hidden};
    together(into, outs, m_.gated_mlp ? 2 : 1, mlp);
    target(Target::down, m_.ffn_hidden, m_.hidden, mlp);
  }

  void head(const BlockTraining& training) {
    live_ = training.live || training.parts.has(Part::norms);
    product(m_.vocabulary * m_.hidden, training.parts.has(Part::head));
  }

  [[nodiscard]] double flops() const { return flops_; }

 private:
  void add(std::int64_t elements, int times) { flops_ += 2.0 * static_cast<double>(elements) * s_ * times; }

  void product(std::int64_t elements, bool trained) {
    add(elements, 1 + (live_ ? 1 : 0) + (trained ? 1 : 0));
    live_ = live_ || trained;
  }

  void thin(std::int64_t rank, std::int64_t in, std::int64_t out, bool trained) {
    product(rank * in, trained);
    product(rank * out, trained);
  }

  // A matrix with what stands beside it.
  void target(Target t, std::int64_t in, std::int64_t out, bool trained) {
    const bool live = live_;
    if (const std::int64_t rank = m_.rank_of(t); rank > 0) {
      thin(rank, in, out, trained);
    } else {
      product(in * out, trained);
    }
    if (!adapters_ || !lora_.targets.has(t)) return;
    live_ = live;
    thin(lora_.rank, in, out, true);
  }

  // Matrices with one input.
  void together(const Target* targets, const std::int64_t* outs, int count, bool trained) {
    const bool live = live_;
    bool after = live;
    for (int i = 0; i < count; ++i) {
      live_ = live;
      target(targets[i], m_.hidden, outs[i], trained);
      after = after || live_;
    }
    live_ = after;
  }

  void latent_inputs(bool trained, bool norms) {
    const bool live = live_;
    const std::int64_t queries = m_.heads * m_.key_dim();
    const std::int64_t down = m_.hidden * (m_.kv_lora_rank + m_.qk_rope_head_dim);
    const std::int64_t up = m_.kv_lora_rank * m_.heads * (m_.qk_nope_head_dim + m_.v_head_dim);
    if (m_.q_lora_rank > 0) {
      product(m_.hidden * m_.q_lora_rank, trained);
      live_ = live_ || norms;
      product(m_.q_lora_rank * queries, trained);
    } else {
      product(m_.hidden * queries, trained);
    }
    live_ = live;
    product(down, trained);
    live_ = live_ || norms;
    product(up, trained);
  }

  const ModelSpec& m_;
  const LoraSpec& lora_;
  double s_;
  double flops_ = 0;
  bool live_ = false;
  bool adapters_ = false;
};

}  // namespace

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

Flops model_flops(const ModelSpec& model, std::int64_t sequence, std::int64_t sequences,
                  const TrainableSpec& trainable) {
  if (trainable != TrainableSpec{}) {
    const TrainingOfBlocks training = training_of_blocks(model, trainable);
    Walk walk(model, trainable.lora, static_cast<double>(sequence));
    for (std::int64_t l = 0; l < model.layers; ++l) {
      walk.layer(training.layers[static_cast<std::size_t>(l)], model.has_experts(l));
    }
    walk.head(training.head);
    return Flops(walk.flops() * static_cast<double>(sequences));
  }
  return Flops(3.0 * forward_flops(model, sequence).count() * static_cast<double>(sequences));
}

}  // namespace orrery
