// DeepSpeed's JSON configuration (deepspeedai/DeepSpeed, deepspeed/runtime/config.py and runtime/zero/config.py).
//
// It says how state is split and how large a batch is, and neither model nor cluster nor sequence length. Batch sizes
// follow one from the other as in DeepSpeedConfig._set_batch_related_parameters:
//   train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x data-parallel GPUs.
// "auto" is for the trainer of Hugging Face to fill in (transformers, integrations/deepspeed.py,
// HfTrainerDeepSpeedConfig): bucket sizes from the model's hidden size, the rest from its own arguments, of which the
// defaults are assumed (training_args.py: per_device_train_batch_size 8, gradient_accumulation_steps 1).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "scenarios/import/formats.hpp"
#include "scenarios/readers.hpp"

namespace orrery {

namespace {

constexpr Range kBatch{1, 1e9};
constexpr const char* kSharding = "parallelism.sharding";
constexpr std::int64_t kTrainerMicroBatch = 8;
constexpr std::string_view kStage = "zero_optimization.stage";
constexpr std::string_view kTrain = "train_batch_size";
constexpr std::string_view kMicro = "train_micro_batch_size_per_gpu";
constexpr std::string_view kAccumulation = "gradient_accumulation_steps";
constexpr std::string_view kTrainers = "Hugging Face's default, in place of auto";

Result<std::vector<PlanEntry>> read(std::string_view text, std::shared_ptr<const YamlOrigin> origin) {
  const auto tree = parse_yaml(text, origin);
  if (!tree) return tree.problems();
  if (!tree->is_map()) {
    return Problem{"", fmt::format("a DeepSpeed configuration is a map, not {}", describe(*tree)), "",
                   tree->place.location()};
  }
  return flatten(*tree);
}

// The file names no machines; elastic training names what it could live with.
std::int64_t gpus(Draft&) { return 0; }

// --- Before the rows.

// In bf16 without ZeRO gradients are added up in fp32, unless the file says otherwise, and BF16_Optimizer splits the
// optimizer's state (engine.py, get_data_types and _do_optimizer_sanity_check).
bool has_bf16_optimizer(Draft& draft) {
  const auto on = [&](std::string_view key) {
    const PlanEntry* entry = draft.find(key);
    return entry != nullptr && !is_auto(*entry) && draft.boolean(key).value_or(false);
  };
  const PlanEntry* sums = draft.find("data_types.grad_accum_dtype");
  const bool narrow = sums != nullptr && (sums->value.text == "bf16" || sums->value.text == "bfloat16");
  return (on("bf16.enabled") || on("bfloat16.enabled")) && !narrow;
}

void choose_stage(Draft& draft) {
  const bool splits = has_bf16_optimizer(draft);
  const std::array<const char*, 4> kinds{splits ? "bf16-optimizer" : "none", "zero1", "zero2", "zero3"};
  const PlanEntry* entry = draft.find(kStage);
  if (entry == nullptr || is_auto(*entry)) {
    return draft.assume_choice(
        std::string(kStage), kSharding, kinds[0],
        splits ? "DeepSpeed's default: stage 0, with bf16's own optimizer" : "DeepSpeed's default: stage 0");
  }
  const auto stage = draft.integer(*entry, Range{0, 3});
  if (stage) draft.choose(*entry, kSharding, kinds[static_cast<std::size_t>(*stage)]);
}

// --- Rows that need more than a copy.

void map_optimizer(Draft& draft, const PlanEntry& entry, const ImportRow&) {
  struct Kind {
    std::string_view name;
    const char* ours;
    const char* why;
  };
  constexpr std::array<Kind, 8> kKinds{{{"adam", "adamw", ""},
                                        {"adamw", "adamw", ""},
                                        {"fusedadam", "adamw", ""},
                                        {"deepspeedcpuadam", "adamw", "on the GPU"},
                                        {"adafactor", "adafactor", ""},
                                        {"lamb", "lamb", ""},
                                        {"fusedlamb", "lamb", ""},
                                        {"sgd", "sgd", ""}}};
  std::string name = draft.text(entry.key);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  for (const Kind& kind : kKinds) {
    if (kind.name == name) return draft.choose(entry, "training.optimizer", kind.ours, kind.why);
  }
  draft.ignore(entry, Fate::not_simulated, "AdamW is taken");
}

// Options of ZeRO. Sizes that are "auto" follow from the model's hidden size.
void map_zero(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  if (!is_auto(entry)) return copy_option(draft, entry, row);
  draft.ignore(entry, Fate::no_influence, "filled in by the trainer: the default is taken");
}

void map_offload(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  const std::string device = draft.text(entry.key);
  if (is_off(entry.value)) return draft.ignore(entry, Fate::no_influence, "off");
  const std::string option(row.target.substr(row.target.find_last_of('.') + 1));
  draft.set_option(entry, kSharding, option, device, std::string(row.doc));
}

// Host memory is taken to be pinned.
void map_pinned(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  if (!is_off(entry.value)) return draft.ignore(entry, Fate::no_influence, "as is simulated");
  draft.ignore(entry, Fate::not_simulated, std::string(row.doc));
}

// Ulysses: all-to-all from tokens to heads around attention (deepspeed/sequence/layer.py).
void map_sequence_parallel(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  copy_value(draft, entry, row);
  const bool split = draft.value_of("parallelism.context", 1) > 1;
  if (split) draft.choose(entry, "parallelism.context_kind", "ulysses");
}

constexpr std::string_view kRecords = "logs, profiles and checkpoints are not part of a step";
constexpr std::string_view kLearning = "how well it learns";
constexpr std::string_view kPageable = "copies of pageable memory";
constexpr std::string_view kHost = "in host memory";
constexpr std::string_view kScale = "the loss is scaled in any case";

constexpr std::array kRows{
    // Batch
    ImportRow{kTrain, "training.global_batch", together, ""},
    ImportRow{kMicro, "training.micro_batch", together, ""},
    ImportRow{kAccumulation, "training.global_batch", together, ""},
    // ZeRO
    ImportRow{kStage, "parallelism.sharding.kind", together, ""},
    ImportRow{"zero_optimization.overlap_comm", "parallelism.sharding.overlap_comm", map_zero,
              "communication beside the backward pass"},
    ImportRow{"zero_optimization.reduce_scatter", "parallelism.sharding.reduce_scatter", map_zero,
              "how gradients are reduced"},
    ImportRow{"zero_optimization.reduce_bucket_size", "parallelism.sharding.reduce_bucket_size", map_zero,
              "gradients reduced at a time"},
    ImportRow{"zero_optimization.allgather_bucket_size", "parallelism.sharding.allgather_bucket_size", map_zero,
              "parameters gathered at a time"},
    ImportRow{"zero_optimization.allgather_partitions", "", not_simulated, "broadcasts in place of gathers are"},
    ImportRow{"zero_optimization.contiguous_gradients", "parallelism.sharding.contiguous_gradients", map_zero,
              "gradients copied into one buffer"},
    ImportRow{"zero_optimization.stage3_prefetch_bucket_size", "parallelism.sharding.stage3_prefetch_bucket_size",
              map_zero, "parameters fetched ahead"},
    ImportRow{"zero_optimization.stage3_param_persistence_threshold",
              "parallelism.sharding.stage3_param_persistence_threshold", map_zero,
              "small parameters that are not split"},
    ImportRow{"zero_optimization.stage3_max_live_parameters", "parallelism.sharding.stage3_max_live_parameters",
              map_zero, "parameters gathered at any time"},
    ImportRow{"zero_optimization.stage3_max_reuse_distance", "parallelism.sharding.stage3_max_reuse_distance", map_zero,
              "parameters kept for their next use"},
    ImportRow{"zero_optimization.sub_group_size", "parallelism.sharding.sub_group_size", map_zero,
              "parameters that the optimizer updates at a time"},
    ImportRow{"zero_optimization.zero_hpz_partition_size", "parallelism.sharding.zero_hpz_partition_size", map_zero,
              "second copy of the parameters within a node (ZeRO++)"},
    ImportRow{"zero_optimization.zero_quantized_weights", "parallelism.sharding.zero_quantized_weights", map_zero,
              "parameters gathered in 8 bits (ZeRO++)"},
    ImportRow{"zero_optimization.zero_quantized_gradients", "parallelism.sharding.zero_quantized_gradients", map_zero,
              "gradients reduced in 4 bits (ZeRO++)"},
    ImportRow{"zero_optimization.zero_quantized_nontrainable_weights", "", not_simulated, "frozen weights in 8 bits"},
    ImportRow{"zero_optimization.mics_shard_size", "parallelism.sharding.mics_shard_size", map_zero,
              "groups of replicas that split the state (MiCS)"},
    ImportRow{"zero_optimization.mics_hierarchical_params_gather",
              "parallelism.sharding.mics_hierarchical_params_gather", map_zero, "gathers in two steps (MiCS)"},
    ImportRow{"zero_optimization.offload_optimizer.device", "parallelism.sharding.offload_optimizer", map_offload,
              "optimizer state in host memory or on NVMe"},
    ImportRow{"zero_optimization.offload_param.device", "parallelism.sharding.offload_param", map_offload,
              "parameters in host memory or on NVMe"},
    ImportRow{"zero_optimization.offload_optimizer.pipeline_read",
              "parallelism.sharding.offload_optimizer_pipeline_read", map_zero, "state read ahead from drives"},
    ImportRow{"zero_optimization.offload_optimizer.pipeline_write",
              "parallelism.sharding.offload_optimizer_pipeline_write", map_zero, "state written behind to drives"},
    ImportRow{"zero_optimization.offload_param.max_in_cpu", "parallelism.sharding.offload_param_max_in_cpu", map_zero,
              "parameters that drives need not hold"},
    ImportRow{"zero_optimization.offload_optimizer.pin_memory", "", map_pinned, kPageable},
    ImportRow{"zero_optimization.offload_param.pin_memory", "", map_pinned, kPageable},
    ImportRow{"zero_optimization.offload_optimizer.nvme_path", "", no_influence, "the node's drives are taken"},
    ImportRow{"zero_optimization.offload_param.nvme_path", "", no_influence, "the node's drives are taken"},
    ImportRow{"zero_optimization.offload_optimizer.*", "", not_simulated, "how the optimizer's state is moved"},
    ImportRow{"zero_optimization.offload_param.*", "", not_simulated, "how parameters are moved"},
    ImportRow{"zero_optimization.cpu_offload*", "", not_simulated, kHost},
    ImportRow{"zero_optimization.zenflow*", "", not_simulated, kHost},
    ImportRow{"zero_optimization.round_robin_gradients", "", not_simulated, "which rank reduces which gradient"},
    ImportRow{"zero_optimization.use_multi_rank_bucket_allreduce", "", no_influence, "as is simulated"},
    ImportRow{"zero_optimization.stage3_module_granularity_threshold", "", not_simulated,
              "small modules fetched as one"},
    ImportRow{"zero_optimization.stage3_use_all_reduce_for_fetch_params", "", not_simulated, "fetches by all-reduce"},
    ImportRow{"zero_optimization.stage3_allgather_sequential", "", not_simulated,
              "fetches one parameter after the other"},
    ImportRow{"zero_optimization.stage3_model_persistence_threshold", "", not_simulated,
              "a bound on what is not split"},
    ImportRow{"zero_optimization.memory_efficient_linear", "", not_simulated, "what linear layers keep"},
    ImportRow{"zero_optimization.leaf_module*", "", not_simulated, "modules fetched as one"},
    ImportRow{"zero_optimization.zeropp_loco_param*", "", not_simulated, "error feedback of quantised gradients"},
    ImportRow{"zero_optimization.stage3_gather_16bit_weights_on_model_save", "", no_influence, kRecords},
    ImportRow{"zero_optimization.stage3_gather_fp16_weights_on_model_save", "", no_influence, kRecords},
    ImportRow{"zero_optimization.load_from_fp32_weights", "", no_influence, kRecords},
    ImportRow{"zero_optimization.elastic_checkpoint", "", no_influence, kRecords},
    ImportRow{"zero_optimization.ignore_unused_parameters", "", no_influence, "no parameter is unused"},
    ImportRow{"zero_optimization.legacy_stage1", "", not_simulated, "an older stage 1"},
    ImportRow{"zero_optimization.pipeline_loading_checkpoint", "", no_influence, kRecords},
    ImportRow{"zero_optimization.override_module_apply", "", no_influence, "before the first step"},
    ImportRow{"zero_optimization.log_trace_cache_warnings", "", no_influence, kRecords},
    ImportRow{"zero_optimization.enable_sanity_checks", "", no_influence, kRecords},
    ImportRow{"zero_allow_untested_optimizer", "", no_influence, "a check"},
    ImportRow{"zero_force_ds_cpu_optimizer", "", no_influence, "a check"},
    // Number formats
    ImportRow{"fp16.enabled", "training.precision", together, ""},
    ImportRow{"bf16.enabled", "training.precision", together, ""},
    ImportRow{"bfloat16.enabled", "training.precision", together, ""},
    ImportRow{"amp.enabled", "training.precision", together, ""},
    ImportRow{"torch_autocast.enabled", "training.framework.autocast", together, ""},
    ImportRow{"torch_autocast.*", "", no_influence, "the number format is training.precision"},
    ImportRow{"amp.*", "", no_influence, "as torch.autocast"},
    ImportRow{"fp16.*", "", no_influence, kScale},
    ImportRow{"bf16.*", "", not_simulated, "how bf16 weights are held"},
    ImportRow{"communication_data_type", "", not_simulated, "gradients are reduced in the format that they have"},
    ImportRow{"seq_parallel_communication_data_type", "", not_simulated,
              "gradients are reduced in the format that they have"},
    ImportRow{"fp32_allreduce", "", not_simulated, "gradients are reduced in the format that they have"},
    ImportRow{"data_types.*", "", not_simulated, "the format of accumulated gradients"},
    ImportRow{"prescale_gradients", "", no_influence, "too little to tell"},
    ImportRow{"gradient_predivide_factor", "", no_influence, "too little to tell"},
    ImportRow{"sparse_gradients", "", not_simulated, "sparse gradients of embeddings"},
    ImportRow{"gradient_clipping", "", no_influence, "a step always takes the norm of its gradients"},
    // Optimizer
    ImportRow{"optimizer.type", "training.optimizer.kind", map_optimizer, ""},
    ImportRow{"optimizer.params.momentum", "training.optimizer.momentum", copy_option, ""},
    ImportRow{"optimizer.*", "", no_influence, kLearning},
    ImportRow{"scheduler*", "", no_influence, kLearning},
    // Activations
    ImportRow{"activation_checkpointing.partition_activations", "", not_simulated,
              "activations split over tensor ranks"},
    ImportRow{"activation_checkpointing.cpu_checkpointing", "", not_simulated, "activations in host memory"},
    ImportRow{"activation_checkpointing.number_checkpoints", "training.recompute", together, ""},
    ImportRow{"activation_checkpointing.contiguous_memory_optimization", "", no_influence,
              "against fragments, which are not simulated"},
    ImportRow{"activation_checkpointing.*", "", no_influence, "too little to tell"},
    // Parallelism
    ImportRow{"tensor_parallel.autotp_size", "parallelism.tensor", copy_value, ""},
    ImportRow{"tensor_parallel.*", "", no_influence, "which modules are split is fixed"},
    ImportRow{"sequence_parallel_size", "parallelism.context", map_sequence_parallel, ""},
    ImportRow{"expert_parallel*", "", not_simulated, "experts"},
    ImportRow{"pipeline*", "", not_simulated, "pipelines are of the model's code: parallelism.pipeline"},
    // Other ways of training
    ImportRow{"sparse_attention*", "", not_simulated, "attention over part of the sequence"},
    ImportRow{"curriculum_learning*", "", not_simulated, "lengths that grow"},
    ImportRow{"data_efficiency*", "", not_simulated, "sampling, and lengths that grow"},
    ImportRow{"progressive_layer_drop*", "", not_simulated, "layers left out"},
    ImportRow{"compression_training*", "", not_simulated, "pruned and quantised weights"},
    ImportRow{"quantize_training*", "", not_simulated, "quantised weights"},
    ImportRow{"weight_quantization*", "", not_simulated, "quantised weights"},
    ImportRow{"hybrid_engine*", "", not_simulated, "generation between steps"},
    ImportRow{"eigenvalue*", "", not_simulated, "eigenvalues of layers"},
    ImportRow{"compile*", "", not_simulated, "fused kernels: training.framework says which"},
    ImportRow{"graph_harvesting", "", not_simulated, "CUDA graphs: training.framework says whether"},
    ImportRow{"elasticity*", "", not_simulated, "a number of GPUs that changes"},
    ImportRow{"aio*", "", not_simulated, "reads and writes of NVMe"},
    ImportRow{"disable_allgather", "", not_simulated, "parameters that are not gathered"},
    // No influence
    ImportRow{"comment*", "", no_influence, "a comment"},
    ImportRow{"_comment*", "", no_influence, "a comment"},
    ImportRow{"steps_per_print", "", no_influence, kRecords},
    ImportRow{"wall_clock_breakdown", "", no_influence, kRecords},
    ImportRow{"memory_breakdown", "", no_influence, kRecords},
    ImportRow{"dump_state", "", no_influence, kRecords},
    ImportRow{"flops_profiler*", "", no_influence, kRecords},
    ImportRow{"comms_logger*", "", no_influence, kRecords},
    ImportRow{"comms_config*", "", no_influence, kRecords},
    ImportRow{"tensorboard*", "", no_influence, kRecords},
    ImportRow{"wandb*", "", no_influence, kRecords},
    ImportRow{"comet*", "", no_influence, kRecords},
    ImportRow{"csv_monitor*", "", no_influence, kRecords},
    ImportRow{"monitor_config*", "", no_influence, kRecords},
    ImportRow{"checkpoint*", "", no_influence, kRecords},
    ImportRow{"use_node_local_storage", "", no_influence, kRecords},
    ImportRow{"nebula*", "", no_influence, kRecords},
    ImportRow{"datastates*", "", no_influence, kRecords},
    ImportRow{"autotuning*", "", no_influence, "a search before training"},
    ImportRow{"timers*", "", no_influence, kRecords},
    ImportRow{"log_level", "", no_influence, kRecords},
    ImportRow{"dataloader_drop_last", "", no_influence, "batches are full"},
    ImportRow{"seed", "", no_influence, kLearning},
    ImportRow{"local_rank", "", no_influence, "how ranks find one another"},
};

// --- After the rows.

// What one of the three batch sizes is: given, or 0.
std::int64_t given(Draft& draft, std::string_view key) { return draft.integer(key, kBatch).value_or(0); }

bool says_auto(Draft& draft, std::string_view key) {
  const PlanEntry* entry = draft.find(key);
  return entry != nullptr && is_auto(*entry);
}

void assume_or_auto(Draft& draft, std::string_view key, const char* target, std::int64_t value, std::string_view why) {
  const PlanEntry* entry = draft.find(key);
  if (entry != nullptr && is_auto(*entry)) return draft.assume(*entry, target, std::to_string(value), std::string(why));
  draft.assume(std::string(key), target, std::to_string(value), std::string(why));
}

void finish_micro_batch(Draft& draft, std::int64_t replicas) {
  const std::int64_t train = given(draft, kTrain);
  const std::int64_t steps = given(draft, kAccumulation);
  if (given(draft, kMicro) > 0) {
    const PlanEntry& entry = *draft.find(kMicro);
    return draft.set(entry, "training.micro_batch", entry.value);
  }
  if (says_auto(draft, kMicro)) {
    return assume_or_auto(draft, kMicro, "training.micro_batch", kTrainerMicroBatch, kTrainers);
  }
  const std::int64_t parts = std::max<std::int64_t>(steps, 1) * replicas;
  if (train > 0 && parts > 0 && train % parts == 0) {
    assume_or_auto(draft, kMicro, "training.micro_batch", train / parts,
                   "what is left of train_batch_size for a GPU and pass");
  }
}

// Whatever two of the three sizes say of the third; all three must agree.
void finish_global_batch(Draft& draft, std::int64_t replicas) {
  const std::int64_t train = given(draft, kTrain);
  const std::int64_t steps = given(draft, kAccumulation);
  const std::int64_t micro = draft.value_of("training.micro_batch", 0);
  const PlanEntry* accumulation = draft.find(kAccumulation);
  if (train > 0) {
    const PlanEntry& entry = *draft.find(kTrain);
    draft.set(entry, "training.global_batch", entry.value);
    const std::int64_t one_pass = times(micro, replicas);  // of one micro-batch on every GPU
    const bool fits = micro == 0 || replicas == 0 || draft.overridden("training.global_batch") ||
                      (train % one_pass == 0 && (steps == 0 || train == times(one_pass, steps)));
    if (!fits) {
      draft.problem(
          entry,
          fmt::format("train_batch_size {} is not micro-batch {} x {} x {} data-parallel GPUs", train, micro,
                      steps > 0 ? fmt::format("{} accumulation steps", steps) : "accumulation steps", replicas),
          fmt::format("nearest valid: {}",
                      times(one_pass, std::max<std::int64_t>(1, steps > 0 ? steps : train / one_pass))));
    } else if (accumulation != nullptr && steps > 0) {
      draft.ignore(*accumulation, Fate::no_influence, "train_batch_size says it");
    } else if (accumulation != nullptr) {
      draft.ignore(*accumulation, Fate::no_influence, "follows from train_batch_size");
    }
    return;
  }
  if (micro == 0 || replicas == 0) return;
  const std::int64_t batch = times(times(micro, replicas), std::max<std::int64_t>(steps, 1));
  const std::string sum =
      fmt::format("{} x {} x {} data-parallel GPUs", micro, std::max<std::int64_t>(steps, 1), replicas);
  if (accumulation != nullptr && steps > 0) {
    draft.set(*accumulation, "training.global_batch", std::to_string(batch), sum);
  } else if (accumulation != nullptr && is_auto(*accumulation)) {
    draft.assume(*accumulation, "training.global_batch", std::to_string(batch), fmt::format("{}: {}", sum, kTrainers));
  } else {
    assume_or_auto(draft, kTrain, "training.global_batch", batch, sum);
  }
  const PlanEntry* train_entry = draft.find(kTrain);
  if (train_entry != nullptr && !draft.reported(*train_entry)) {
    draft.ignore(*train_entry, Fate::no_influence, "filled in from the other two");
  }
}

void finish_precision(Draft& draft) {
  struct Switch {
    std::string_view key;
    const char* precision;
  };
  constexpr std::array<Switch, 4> kSwitches{
      {{"fp16.enabled", "fp16"}, {"bf16.enabled", "bf16"}, {"bfloat16.enabled", "bf16"}, {"amp.enabled", "fp16"}}};
  const PlanEntry* on = nullptr;
  const PlanEntry* automatic = nullptr;
  for (const Switch& known : kSwitches) {
    const PlanEntry* entry = draft.find(known.key);
    if (entry == nullptr) continue;
    if (is_auto(*entry)) {
      draft.ignore(*entry, Fate::no_influence, "off, for one of fp16 and bf16");
      automatic = automatic == nullptr || known.precision == std::string_view("bf16") ? entry : automatic;
    } else if (!draft.boolean(*entry).value_or(false)) {
      draft.ignore(*entry, Fate::no_influence, "off");
    } else if (on != nullptr) {
      draft.problem(*entry, fmt::format("both {} and {} are on", on->key, entry->key), "keep one of them");
    } else {
      on = entry;
      draft.set(*entry, "training.precision", known.precision);
    }
  }
  if (on == nullptr && automatic != nullptr) {
    const bool brain = automatic->key != "fp16.enabled";
    draft.assume(*automatic, "training.precision", brain ? "bf16" : "fp16",
                 brain ? "the trainer's --bf16" : "the trainer's --fp16");
  }
  draft.assume("bf16.enabled", "training.precision", "fp32", "neither fp16 nor bf16 is on");
}

// DeepSpeed keeps 16-bit weights beside fp32 ones; its own host time is not known, so plain PyTorch's is taken.
void finish_framework(Draft& draft) {
  draft.assume("DeepSpeed itself", "training.framework.base", "pytorch-eager", "host time of plain PyTorch");
  const PlanEntry* autocast = draft.find("torch_autocast.enabled");
  const PlanEntry* amp = draft.find("amp.enabled");
  if (autocast != nullptr && draft.boolean(*autocast).value_or(false)) {
    draft.set(*autocast, "training.framework.autocast", "true");
  } else {
    const bool casts = amp != nullptr && draft.boolean("amp.enabled").value_or(false);
    draft.assume("DeepSpeed itself", "training.framework.autocast", casts ? "true" : "false",
                 casts ? "of amp" : "16-bit weights beside fp32 ones");
    if (autocast != nullptr) draft.ignore(*autocast, Fate::no_influence, "off");
  }
}

// The block says how DeepSpeed's checkpoint function works; that the model's code calls it is assumed.
void finish_recompute(Draft& draft) {
  const auto entry = std::find_if(draft.entries().begin(), draft.entries().end(),
                                  [](const PlanEntry& e) { return e.key.starts_with("activation_checkpointing."); });
  if (entry == draft.entries().end()) return;
  draft.assume("activation_checkpointing", "training.recompute", "full",
               "that the model's code uses it; --set training.recompute=none if not");
  if (const PlanEntry* number = draft.find("activation_checkpointing.number_checkpoints")) {
    if (is_off(number->value)) return draft.ignore(*number, Fate::no_influence, "off");
    draft.ignore(*number, Fate::not_simulated, "each layer is a checkpoint");
  }
}

// HfTrainerDeepSpeedConfig.trainer_config_finalize: hidden^2, 0.9 hidden^2, 10 hidden.
void finish_auto_sizes(Draft& draft) {
  struct Size {
    std::string_view key;
    const char* option;
    std::int64_t (*of)(std::int64_t hidden);
    const char* formula;
  };
  constexpr std::array<Size, 3> kSizes{
      {{"zero_optimization.reduce_bucket_size", "reduce_bucket_size", [](std::int64_t h) { return h * h; },
        "hidden size squared"},
       {"zero_optimization.stage3_prefetch_bucket_size", "stage3_prefetch_bucket_size",
        [](std::int64_t h) { return 9 * h * h / 10; }, "0.9 x hidden size squared"},
       {"zero_optimization.stage3_param_persistence_threshold", "stage3_param_persistence_threshold",
        [](std::int64_t h) { return 10 * h; }, "10 x hidden size"}}};
  const YamlEntry* model = draft.root().find("model");
  if (model == nullptr) return;
  Reader quiet(draft.reader().catalog());
  ModelSpec shape;
  if (!read_model(quiet, model->value, "model", draft.value_of("training.sequence_length", 1), shape)) return;
  for (const Size& size : kSizes) {
    const PlanEntry* entry = draft.find(size.key);
    if (entry == nullptr || !is_auto(*entry) || !draft.has_option(kSharding, size.option)) continue;
    draft.assume(*entry, fmt::format("{}.{}", kSharding, size.option), std::to_string(size.of(shape.hidden)),
                 fmt::format("{}, as Hugging Face fills in", size.formula));
  }
}

void finish(Draft& draft) {
  const std::int64_t replicas = draft.data_parallel();
  if (draft.gpus > 0 && replicas == 0) {
    draft.reader().problem(draft.root().place, "",
                           fmt::format("{} GPUs do not divide into the plan's parallel degrees", draft.gpus),
                           "another --cluster, or --set parallelism.tensor=1");
  }
  finish_micro_batch(draft, replicas);
  finish_global_batch(draft, replicas);
  finish_precision(draft);
  finish_framework(draft);
  finish_recompute(draft);
  finish_auto_sizes(draft);
}

}  // namespace

const ImportFormat& deepspeed_format() {
  static constexpr ImportFormat kFormat{"deepspeed", "DeepSpeed", ".json", kRows, read, gpus, choose_stage, finish};
  return kFormat;
}

}  // namespace orrery
