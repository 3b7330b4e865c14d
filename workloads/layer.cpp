#include "workloads/layer.hpp"

#include <utility>
#include <vector>

#include "workloads/operators/operators.hpp"
#include "workloads/operators/thin.hpp"

namespace orrery {

namespace {

std::int64_t queries(const OperatorShape& shape) { return shape.heads() * shape.model.head_dim; }
std::int64_t keys(const OperatorShape& shape) { return shape.kv_heads() * shape.model.head_dim; }

// One product for all three where the framework fuses (Megatron) or the model's own code does (GPT, BLOOM, MPT);
// Llama-like code without fusion has three. Low-rank products are not fused.
std::vector<ColumnPart> attention_inputs(const OperatorShape& shape) {
  const ModelSpec& m = shape.model;
  const std::int64_t q = queries(shape);
  const std::int64_t kv = keys(shape);
  const bool thin = m.rank_of(Target::q) + m.rank_of(Target::k) + m.rank_of(Target::v) > 0;
  if (!thin && (shape.fused || m.position != PositionKind::rotary)) return {{"qkv", q + 2 * kv}};
  return {{"query", q, m.rank_of(Target::q)}, {"key", kv, m.rank_of(Target::k)}, {"value", kv, m.rank_of(Target::v)}};
}

std::vector<ColumnPart> mlp_inputs(const OperatorShape& shape) {
  const ModelSpec& m = shape.model;
  const std::int64_t up = m.rank_of(Target::up);
  if (!m.gated_mlp) return {{"mlp_up", shape.ffn(), up}};
  const std::int64_t gate = m.rank_of(Target::gate);
  if (gate + up == 0 && shape.fused) return {{"mlp_gate_up", 2 * shape.ffn()}};
  return {{"mlp_gate", shape.ffn(), gate}, {"mlp_up", shape.ffn(), up}};
}

// Adapters beside column-parallel products; each stands beside its own matrix, fused or not.
class Adapters {
 public:
  Adapters(const OperatorShape& shape, bool present) : shape_(shape), present_(present) {}

  [[nodiscard]] std::vector<ThinPair> of_attention() const {
    std::vector<ThinPair> pairs;
    add(pairs, Target::q, "query_lora", queries(shape_));
    add(pairs, Target::k, "key_lora", keys(shape_));
    add(pairs, Target::v, "value_lora", keys(shape_));
    return pairs;
  }
  [[nodiscard]] std::vector<ThinPair> of_mlp() const {
    std::vector<ThinPair> pairs;
    if (shape_.model.gated_mlp) add(pairs, Target::gate, "mlp_gate_lora", shape_.ffn());
    add(pairs, Target::up, "mlp_up_lora", shape_.ffn());
    return pairs;
  }
  [[nodiscard]] std::int64_t rank(Target target) const {
    return present_ && shape_.lora.targets.has(target) ? shape_.lora.rank : 0;
  }

 private:
  void add(std::vector<ThinPair>& pairs, Target target, const char* name, std::int64_t out) const {
    if (rank(target) == 0) return;
    pairs.push_back(
        {.name = name, .in = shape_.model.hidden, .out = out, .rank = rank(target), .dropout = shape_.lora.dropout});
  }

  const OperatorShape& shape_;
  bool present_;
};

}  // namespace

Block transformer_layer(KernelPool& pool, const OperatorShape& shape, Recompute recompute, bool has_experts,
                        const BlockTraining& training) {
  const ModelSpec& model = shape.model;
  BlockBuilder block(pool, "layer", training);
  const Adapters adapters(shape, training.adapters);
  block.begin_module("attention");
  norm(block, shape, "attention_norm", true, true);
  if (model.latent()) {
    latent_attention_inputs(block, shape);
  } else {
    column_parallel(block, shape, attention_inputs(shape), model.hidden, model.attention_bias, true, true,
                    adapters.of_attention());
    if (model.qk_norm) head_norms(block, shape);
    rotary(block, shape);
  }
  attention_core(block, shape);
  // The backward pass of fused attention reads what it has computed.
  row_parallel(block, shape, "attention_output", shape.heads() * model.value_dim(), model.hidden,
               {.input_needed = shape.attention == AttentionKind::flash,
                .rank = model.rank_of(Target::o),
                .adapter_rank = adapters.rank(Target::o)});
  bias_dropout_add(block, shape, "attention_output", model.attention_bias);
  block.begin_module("mlp");
  norm(block, shape, "mlp_norm", true, false);
  if (has_experts) {
    expert_mlp(block, shape);
  } else {
    column_parallel(block, shape, mlp_inputs(shape), model.hidden, model.mlp_bias, true, true, adapters.of_mlp());
    activation(block, shape);
    row_parallel(block, shape, "mlp_down", shape.ffn(), model.hidden,
                 {.rank = model.rank_of(Target::down), .adapter_rank = adapters.rank(Target::down)});
  }
  bias_dropout_add(block, shape, "mlp_down", model.mlp_bias);
  return std::move(block).build(recompute);
}

Block embedding_block(KernelPool& pool, const OperatorShape& shape, const BlockTraining& training) {
  BlockBuilder block(pool, "embedding", training);
  embedding(block, shape);
  return std::move(block).build(Recompute::none);
}

namespace {

void mark_tied(Block& head, const OperatorShape& shape) {
  for (ParameterTensor& p : head.parameters) {
    p.tied = shape.model.tied_embeddings && p.name == "logits.weight";
    p.table = p.tied;
  }
}

Step logits_step(Bytes bytes, Phase phase) {
  return {.kind = Step::Kind::memory, .phase = phase, .memory = {{bytes, MemoryTag::logits}}};
}

}  // namespace

Block head_block(KernelPool& pool, const OperatorShape& shape, bool separate_weight, const BlockTraining& training) {
  BlockBuilder block(pool, "head", training);
  head_and_loss(block, shape, separate_weight);
  Block built = std::move(block).build(Recompute::none);
  mark_tied(built, shape);
  return built;
}

Block student_head_block(KernelPool& pool, const OperatorShape& shape, bool separate_weight,
                         const BlockTraining& training) {
  BlockBuilder block(pool, "head", training);
  head_and_loss(block, shape, separate_weight);
  distillation_loss(block, shape);
  Block built = std::move(block).build(Recompute::none);
  mark_tied(built, shape);
  const Bytes read = Bytes() - teacher_logits_bytes(shape);
  for (std::vector<Step>* steps : {&built.backward, &built.backward_input}) {
    steps->push_back(logits_step(read, Phase::backward));
  }
  return built;
}

Block teacher_head_block(KernelPool& pool, const OperatorShape& shape, bool separate_weight) {
  BlockBuilder block(pool, "teacher head", {TrainedParts::none(), false, false});
  logits(block, shape, separate_weight);
  Block built = std::move(block).build(Recompute::none);
  built.forward.push_back(logits_step(teacher_logits_bytes(shape), Phase::forward));
  return built;
}

}  // namespace orrery
