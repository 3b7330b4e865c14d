#include "workloads/check_trainable.hpp"

#include <fmt/core.h>

#include <string>
#include <string_view>
#include <utility>

namespace orrery {

namespace {

class TrainableCheck {
 public:
  TrainableCheck(const ModelSpec& model, const TrainingSpec& training, const ParallelismSpec& parallelism)
      : m_(model), t_(training.trainable), training_(training), p_(parallelism) {}

  Problems run() && {
    if (!apart()) return std::move(problems_);
    if (t_ != TrainableSpec{}) parts();
    if (t_.lora.rank != 0) lora();
    if (t_.lora.nf4) four_bits();
    if (m_.layer_groups > 0) shared_layers();
    if (training_.distills()) teacher();
    return std::move(problems_);
  }

 private:
  void add(std::string key, std::string message, std::string note) {
    problems_.push_back({std::move(key), std::move(message), std::move(note)});
  }

  // What is simulated for models that are trained in full alone.
  bool apart() {
    const char* key = nullptr;
    const char* variant = nullptr;
    const auto is = [&](bool chosen, const char* its_key, const char* its_name) {
      if (!chosen) return;
      key = its_key;
      variant = its_name;
    };
    is(t_ != TrainableSpec{}, "training.trainable", "training a part of the weights is");
    is(!t_.frozen_layers.empty(), "training.frozen", "training a part of the weights is");
    is(t_.lora.rank > 0, "training.lora", "adapters are");
    is(m_.low_rank > 0, "model.low_rank", "low-rank matrices are");
    is(m_.layer_groups > 0, "model.layer_groups", "layers that share their weights are");
    is(training_.distills(), "training.distillation", "distillation is");
    if (variant == nullptr) return true;
    const auto refuse = [&](bool chosen, const char* what) {
      if (chosen) add(key, fmt::format("{} not simulated with {}", variant, what), "leave one of the two out");
    };
    refuse(m_.images(), "image models");
    const bool frozen = t_ != TrainableSpec{} && m_.low_rank == 0 && m_.layer_groups == 0 && !training_.distills();
    refuse(training_.precision == PrecisionRecipe::fp8 && !frozen, "fp8");
    refuse(training_.sparsity.kind != "none", "sparse weights");
    refuse(p_.tp_comm_overlap, "overlap of tensor-parallel communication (parallelism.tp_comm_overlap)");
    return problems_.empty();
  }

  void parts() {
    for (const LayerRange& range : t_.frozen_layers) {
      if (range.first >= 0 && range.first <= range.last && range.last < m_.layers) continue;
      add("training.frozen",
          fmt::format("there are no layers {}-{} in a model of {} layers", range.first, range.last, m_.layers),
          fmt::format("layers 0-{} are all", m_.layers - 1));
    }
    if (m_.tied_embeddings && t_.parts.has(Part::embedding) != t_.parts.has(Part::head)) {
      add("training.trainable", "the head is the embedding's table, and only one of them is trained",
          "train or freeze both");
    }
    if (!training_of_blocks(m_, t_).any() || trained_parameters(m_, t_) == 0) {
      add("training.trainable", "nothing is trained", "leave a part of the model to train");
    }
  }

  void lora() {
    const LoraSpec& lora = t_.lora;
    const std::string_view key = "training.lora";
    if (lora.rank < 0) add("training.lora.rank", fmt::format("rank is {}", lora.rank), "at least 1");
    if (!lora.targets.any()) add("training.lora.targets", "no matrix has an adapter", "such as targets: attention");
    if (lora.dropout < 0 || lora.dropout >= 1) {
      add("training.lora.dropout", fmt::format("dropout is {}", lora.dropout), "at least 0 and below 1");
    }
    if (m_.latent() && lora.targets.attention()) {
      add("training.lora.targets", "adapters beside latent attention's projections are not simulated",
          m_.experts > 0 ? "take a model with plain attention" : "nearest valid: mlp");
    }
    if (m_.experts > 0 && lora.targets.mlp()) {
      add("training.lora.targets", "adapters beside experts are not simulated", "nearest valid: attention");
    }
    if (lora.targets.has(Target::gate) && !m_.gated_mlp && !lora.targets.has(Target::up)) {
      add("training.lora.targets", "the MLP has no gate", "q, k, v, o, up, down");
    }
    if (t_.parts.has(Part::attention) && lora.targets.attention()) {
      add("training.trainable", "attention is trained, and has adapters", "one of the two");
    }
    if (t_.parts.has(Part::mlp) && lora.targets.mlp()) {
      add("training.trainable", "the MLP is trained, and has adapters", "one of the two");
    }
    if (m_.low_rank > 0) {
      add(std::string(key), "adapters beside low-rank matrices are not simulated", "leave out model.low_rank");
    }
  }

  void four_bits() {
    const std::string key = "training.lora.base";
    constexpr std::string_view kNote = "nearest valid: as-trained";
    if (t_.lora.rank == 0) add(key, "there are no adapters", "give training.lora.rank");
    if (t_.parts.has(Part::attention) || t_.parts.has(Part::mlp)) {
      add(key, "matrices of 4 bits cannot be trained", "freeze attention and mlp");
    }
    if (training_.precision != PrecisionRecipe::bf16 && training_.precision != PrecisionRecipe::fp16) {
      add(key, "matrices of 4 bits are simulated with 16-bit products", "training.precision bf16 or fp16");
    }
    if (m_.experts > 0 || m_.latent()) {
      add(key, "experts and latent attention in 4 bits are not simulated", std::string(kNote));
    }
    if (p_.sharding.kind == "fsdp" || p_.sharding.kind == "zero3") {
      add(key, fmt::format("gathers of 4-bit weights ({}) are not simulated", p_.sharding.kind),
          fmt::format("{}, or sharding none, distributed-optimizer, zero1 or zero2", kNote));
    }
  }

  void shared_layers() {
    const std::string key = "model.layer_groups";
    const auto refuse = [&](std::string what) {
      add(key, fmt::format("layers that share their weights are not simulated with {}", what), "leave it out");
    };
    if (p_.pipeline > 1) refuse("a pipeline");
    if (p_.sharding.kind == "fsdp" || p_.sharding.kind == "zero3") refuse(p_.sharding.kind);
    if (!t_.frozen_layers.empty()) refuse("frozen layers");
  }

  // The teacher's forward pass runs on the student's ranks, split as the student is.
  void teacher() {
    const ModelSpec& teacher = training_.teacher;
    const std::string key = "training.distillation.teacher";
    if (const Problems wrong = check(teacher); !wrong.empty()) {
      add(key, wrong.front().message, wrong.front().note);
      return;
    }
    if (p_.pipeline > 1) {
      add("parallelism.pipeline", "distillation is not simulated with a pipeline", "nearest valid: 1");
    }
    if (teacher.experts > 0) add(key, "a teacher with experts is not simulated", "take a dense one");
    if (teacher.vocabulary != m_.vocabulary) {
      add(key,
          fmt::format("the teacher has {} tokens in its vocabulary, and the student {}", teacher.vocabulary,
                      m_.vocabulary),
          "their distributions are compared token by token");
    }
    for (const std::int64_t whole : {teacher.heads, teacher.kv_heads, teacher.ffn_hidden}) {
      if (whole % p_.tensor == 0) continue;
      add("parallelism.tensor",
          fmt::format("tensor degree {} does not divide {} heads or columns of the teacher", p_.tensor, whole),
          "the teacher is split as the student is");
      break;
    }
    if (teacher.latent() && training_.attention != AttentionKind::flash) {
      add("training.attention", "latent attention is simulated as fused attention only", "nearest valid: flash");
    }
    if (teacher.position == PositionKind::learned && training_.sequence_length > teacher.positions) {
      add("training.sequence_length",
          fmt::format("{} tokens exceed the teacher's table of {} positions", training_.sequence_length,
                      teacher.positions),
          fmt::format("at most {}", teacher.positions));
    }
    if (teacher.layer_groups > 0 || m_.layer_groups > 0) {
      add("model.layer_groups", "distillation with layers that share their weights is not simulated", "leave it out");
    }
    if (p_.context > 1) {
      add("parallelism.context", "distillation is not simulated with split sequences", "nearest valid: 1");
    }
  }

  const ModelSpec& m_;
  const TrainableSpec& t_;
  const TrainingSpec& training_;
  const ParallelismSpec& p_;
  Problems problems_;
};

}  // namespace

Problems check_trainable(const ModelSpec& model, const TrainingSpec& training, const ParallelismSpec& parallelism) {
  return TrainableCheck(model, training, parallelism).run();
}

}  // namespace orrery
