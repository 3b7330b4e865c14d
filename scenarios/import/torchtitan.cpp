// TorchTitan's TOML (pytorch/torchtitan, torchtitan/config/job_config.py), of today's and of older versions, which had
// degrees in [training] and [experimental].
//
// Degrees multiply to the number of GPUs (torchtitan/distributed/parallel_dims.py): replicate x shard x context x
// tensor x pipeline; a shard degree of -1 takes what is left. With more than one shard the model runs under fully_shard
// (FSDP2), with replicas besides as hybrid sharding; with replicas alone under DDP. Tensor parallelism includes
// sequence parallelism (models/llama3/infra/parallelize.py).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "scenarios/import/formats.hpp"
#include "scenarios/import/toml_document.hpp"

namespace orrery {

namespace {

constexpr Range kDegree{1, 1e7};
constexpr Range kShardDegree{-1, 1e7};
constexpr const char* kSharding = "parallelism.sharding";
constexpr const char* kSchedule = "parallelism.schedule";
constexpr const char* kContextKind = "parallelism.context_kind";
constexpr std::string_view kDefault = "TorchTitan's default";
constexpr std::int64_t kDefaultLocalBatch = 8;
constexpr std::int64_t kDefaultSequence = 2048;

Result<std::vector<PlanEntry>> read(std::string_view text, std::shared_ptr<const YamlOrigin> origin) {
  const auto tree = parse_toml(text, origin);
  if (!tree) return tree.problems();
  return flatten(*tree);
}

// The first of a key's names, newest first, that the plan has.
const PlanEntry* first_of(const Draft& draft, std::initializer_list<std::string_view> keys) {
  for (const std::string_view key : keys) {
    if (const PlanEntry* entry = draft.find(key)) return entry;
  }
  return nullptr;
}

std::int64_t degree(Draft& draft, std::initializer_list<std::string_view> keys, std::int64_t otherwise, Range range) {
  const PlanEntry* entry = first_of(draft, keys);
  return entry == nullptr ? otherwise : draft.integer(*entry, range).value_or(otherwise);
}

struct Degrees {
  std::int64_t replicate = 1;
  std::int64_t shard = -1;
  std::int64_t rest = 1;  // tensor x pipeline x context
  std::int64_t context = 1;
  std::int64_t pipeline = 1;
};

const PlanEntry* shard_entry(const Draft& draft) {
  return first_of(draft, {"parallelism.data_parallel_shard_degree", "training.data_parallel_shard_degree",
                          "training.data_parallel_degree"});
}
const PlanEntry* replicate_entry(const Draft& draft) {
  return first_of(draft, {"parallelism.data_parallel_replicate_degree", "training.data_parallel_replicate_degree"});
}

Degrees degrees_of(Draft& draft) {
  Degrees degrees;
  if (const PlanEntry* entry = replicate_entry(draft)) degrees.replicate = draft.integer(*entry, kDegree).value_or(1);
  if (const PlanEntry* entry = shard_entry(draft)) degrees.shard = draft.integer(*entry, kShardDegree).value_or(-1);
  const std::int64_t tensor =
      degree(draft, {"parallelism.tensor_parallel_degree", "training.tensor_parallel_degree"}, 1, kDegree);
  degrees.pipeline =
      degree(draft, {"parallelism.pipeline_parallel_degree", "experimental.pipeline_parallel_degree"}, 1, kDegree);
  degrees.context =
      degree(draft, {"parallelism.context_parallel_degree", "experimental.context_parallel_degree"}, 1, kDegree);
  degrees.rest = times(times(tensor, degrees.pipeline), degrees.context);
  return degrees;
}

std::int64_t gpus(Draft& draft) {
  const Degrees degrees = degrees_of(draft);
  constexpr std::int64_t kSane = 10'000'000;
  if (degrees.shard < 1 || degrees.shard > kSane / degrees.replicate) return 0;
  const std::int64_t data = degrees.shard * degrees.replicate;
  return degrees.rest <= kSane / data ? data * degrees.rest : 0;
}

// --- Before the rows.

// Over how many GPUs the model is split; 0: that depends on a cluster that nobody named.
std::int64_t shard_degree(const Draft& draft, const Degrees& degrees) {
  if (degrees.shard >= 1) return degrees.shard;
  const std::int64_t others = times(degrees.rest, degrees.replicate);
  return draft.gpus > 0 && others > 0 ? draft.gpus / others : 0;
}

void choose_sharding(Draft& draft) {
  const Degrees degrees = degrees_of(draft);
  const std::int64_t shards = shard_degree(draft, degrees);
  const PlanEntry* entry = shard_entry(draft);
  const bool split = shards == 0 || shards * degrees.context > 1;
  const char* kind = split ? "fsdp" : "none";
  if (entry != nullptr) {
    draft.choose(*entry, kSharding, kind);
  } else {
    draft.assume_choice("parallelism.data_parallel_shard_degree", kSharding, kind, std::string(kDefault));
  }
}

struct ScheduleName {
  std::string_view name;
  const char* ours;
};
// torch.distributed.pipelining's classes, in lower case (get_schedule_class).
constexpr std::array<ScheduleName, 8> kSchedules{{{"1f1b", "1f1b"},
                                                  {"gpipe", "gpipe"},
                                                  {"interleaved1f1b", "interleaved-1f1b"},
                                                  {"loopedbfs", "looped-bfs"},
                                                  {"interleavedzerobubble", "interleaved-zero-bubble"},
                                                  {"zbvzerobubble", "zb-v"},
                                                  {"dualpipev", "dualpipe-v"},
                                                  {"flexibleinterleaved1f1b", "interleaved-1f1b"}}};

void choose_schedule(Draft& draft) {
  const PlanEntry* entry =
      first_of(draft, {"parallelism.pipeline_parallel_schedule", "experimental.pipeline_parallel_schedule"});
  const PlanEntry* table =
      first_of(draft, {"parallelism.pipeline_parallel_schedule_csv", "experimental.pipeline_parallel_schedule_csv"});
  if (degrees_of(draft).pipeline == 1) {
    for (const PlanEntry* unused : {entry, table}) {
      if (unused != nullptr) draft.ignore(*unused, Fate::no_influence, "one stage");
    }
    return;
  }
  if (table != nullptr && !is_off(table->value)) {
    draft.choose(*table, kSchedule, "table");
    if (draft.has_option(kSchedule, "file")) draft.set_option(*table, kSchedule, "file", table->value.text);
    if (entry != nullptr) draft.ignore(*entry, Fate::no_influence, "the table says it");
    return;
  }
  if (entry == nullptr) {
    return draft.assume_choice("parallelism.pipeline_parallel_schedule", kSchedule, "1f1b", std::string(kDefault));
  }
  std::string name = draft.text(entry->key);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  for (const ScheduleName& known : kSchedules) {
    if (known.name == name) return draft.choose(*entry, kSchedule, known.ours);
  }
  draft.ignore(*entry, Fate::unknown, "no schedule of torch.distributed.pipelining");
}

void prepare(Draft& draft) {
  choose_sharding(draft);
  choose_schedule(draft);
}

// --- Rows that need more than a copy.

struct Flavor {
  std::string_view name;
  std::string_view flavor;
  const char* ours;
};
constexpr std::array<Flavor, 11> kFlavors{{{"llama3", "8B", "llama3-8b"},
                                           {"llama3", "70B", "llama3-70b"},
                                           {"llama3", "405B", "llama3-405b"},
                                           {"llama2", "7B", "llama2-7b"},
                                           {"llama2", "13B", "llama2-13b"},
                                           {"llama2", "70B", "llama2-70b"},
                                           {"deepseek_v3", "671B", "deepseek-v3"},
                                           {"qwen3", "30B-A3B", "qwen3-30b-a3b"},
                                           {"qwen3", "235B-A22B", "qwen3-235b-a22b"},
                                           {"llama3_1", "8B", "llama3-8b"},
                                           {"llama3_1", "70B", "llama3-70b"}}};

void map_model(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  const std::string name = draft.text("model.name");
  const std::string flavor = draft.text("model.flavor");
  for (const Flavor& known : kFlavors) {
    if (known.name == name && known.flavor == flavor) return draft.set(entry, std::string(row.target), known.ours);
  }
  if (draft.overridden("model")) return draft.ignore(entry, Fate::given, "the model is an option's");
  draft.ignore(entry, Fate::unknown, "no model of the catalogue: --model says which");
}

// torchao's float8 linear layers, by the converter or as older versions ask for them.
bool converts_to_float8(Draft& draft) {
  const PlanEntry* converters = draft.find("model.converters");
  const bool used = converters != nullptr && to_yaml_text(converters->value).find("float8") != std::string::npos;
  return used || draft.text("float8.enable_float8_linear") == "true";
}

void map_mixed_precision(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  const std::string format = draft.text(entry.key);
  if (format == "bfloat16" && converts_to_float8(draft)) {
    return draft.ignore(entry, Fate::no_influence, "the format beside float8 products");
  }
  if (format == "bfloat16") return draft.set(entry, std::string(row.target), "bf16");
  if (format == "float16") return draft.set(entry, std::string(row.target), "fp16");
  if (format == "float32") return draft.set(entry, std::string(row.target), "fp32");
  draft.problem(entry, fmt::format("unknown {} {}", entry.key, in_quotes(format)), "one of: bfloat16, float32");
}

void map_optimizer(Draft& draft, const PlanEntry& entry, const ImportRow&) {
  const std::string name = draft.text(entry.key);
  if (name == "Adam" || name == "AdamW") return draft.choose(entry, "training.optimizer", "adamw");
  draft.ignore(entry, Fate::not_simulated, "AdamW is taken");
}

void map_checkpointing(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  const std::string mode = draft.text(entry.key);
  const std::string target(row.target);
  if (mode == "none" || mode == "full") return draft.set(entry, target, mode);
  if (mode == "selective") {
    return draft.assume(entry, target, "selective", "the nearest there is: attention is recomputed, in every layer");
  }
  draft.problem(entry, fmt::format("unknown {} {}", entry.key, in_quotes(mode)), "one of: none, selective, full");
}

void map_selective(Draft& draft, const PlanEntry& entry, const ImportRow&) {
  if (draft.text("activation_checkpoint.mode") != "selective")
    return draft.ignore(entry, Fate::no_influence, "not selective");
  draft.ignore(entry, Fate::not_simulated, "which operators, or which layers, are recomputed");
}

void map_compile(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  const bool on = draft.boolean(entry).value_or(false);
  draft.set(entry, std::string(row.target), on ? "torchtitan-compile" : "torchtitan");
}

// torchao's float8 linear layers: a scale a tensor, of its own values (the tensorwise recipe, its default).
void map_converters(Draft& draft, const PlanEntry& entry, const ImportRow&) {
  if (is_off(entry.value)) return draft.ignore(entry, Fate::no_influence, "none");
  if (to_yaml_text(entry.value).find("float8") == std::string::npos) {
    return draft.ignore(entry, Fate::not_simulated, "other changes to layers");
  }
  draft.set(entry, "training.precision", "fp8");
  draft.choose(entry, "training.fp8", "current");
}

void map_float8(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  if (!converts_to_float8(draft)) return draft.ignore(entry, Fate::no_influence, "without the float8 converter");
  if (entry.key.ends_with("float8.enable_fsdp_float8_all_gather")) return copy_option(draft, entry, row);
  not_simulated(draft, entry, row);
}

void map_rotate(Draft& draft, const PlanEntry& entry, const ImportRow&) {
  if (degrees_of(draft).context == 1) return draft.ignore(entry, Fate::no_influence, "sequences are not split");
  draft.choose(entry, kContextKind, draft.text(entry.key) == "allgather" ? "all-gather" : "ring");
}

constexpr std::string_view kRotate = "how ranks of a context group exchange keys and values";
constexpr std::string_view kRecords = "logs, profiles, checkpoints and validation are not part of a step";
constexpr std::string_view kLearning = "how well it learns";
constexpr std::string_view kData = "data and tokenizer";
constexpr std::string_view kFp8 = "number format of 8 bits";
constexpr std::string_view kExperts = "experts";

constexpr std::array kRows{
    // Model
    ImportRow{"model.name", "model", map_model, ""},
    ImportRow{"model.flavor", "model", map_model, ""},
    ImportRow{"model.converters", "", map_converters, ""},
    ImportRow{"model.norm_type", "", no_influence, "the model's own norm"},
    ImportRow{"model.*", "", no_influence, kData},
    // Training
    ImportRow{"training.seq_len", "training.sequence_length", copy_value, ""},
    ImportRow{"training.local_batch_size", "training.micro_batch", together, ""},
    ImportRow{"training.batch_size", "training.micro_batch", together, ""},
    ImportRow{"training.global_batch_size", "training.global_batch", together, ""},
    ImportRow{"training.steps", "training.tokens", together, ""},
    ImportRow{"training.mixed_precision_param", "training.precision", map_mixed_precision, ""},
    ImportRow{"training.mixed_precision_reduce", "parallelism.sharding.reduce_dtype", together,
              "the format of reduced gradients"},
    ImportRow{"training.dtype", "", not_simulated, "the format of the weights that are kept"},
    ImportRow{"training.enable_cpu_offload", "parallelism.sharding.cpu_offload", copy_option, "state in host memory"},
    ImportRow{"training.compile", "training.framework", map_compile, ""},
    ImportRow{"training.max_norm", "", no_influence, "a step always takes the norm of its gradients"},
    ImportRow{"training.gc_*", "", no_influence, "pauses of Python's collector are not simulated"},
    ImportRow{"training.seed", "", no_influence, kLearning},
    ImportRow{"training.deterministic", "", not_simulated, "slower kernels"},
    ImportRow{"training.dataset*", "", no_influence, kData},
    ImportRow{"training.data_parallel_type", "", no_influence, "the degrees say it"},
    ImportRow{"training.warmup_steps", "", no_influence, kLearning},
    ImportRow{"training.enable_async_tensor_parallel", "", not_simulated, "tensor-parallel communication beside GEMMs"},
    // Parallelism
    ImportRow{"parallelism.data_parallel_replicate_degree", "parallelism.data", together, ""},
    ImportRow{"training.data_parallel_replicate_degree", "parallelism.data", together, ""},
    ImportRow{"parallelism.data_parallel_shard_degree", "parallelism.sharding.kind", together, ""},
    ImportRow{"training.data_parallel_shard_degree", "parallelism.sharding.kind", together, ""},
    ImportRow{"training.data_parallel_degree", "parallelism.sharding.kind", together, ""},
    ImportRow{"parallelism.fsdp_reshard_after_forward", "parallelism.sharding.reshard_after_forward", together,
              "whether parameters stay after the forward pass"},
    ImportRow{"parallelism.tensor_parallel_degree", "parallelism.tensor", copy_value, ""},
    ImportRow{"training.tensor_parallel_degree", "parallelism.tensor", copy_value, ""},
    ImportRow{"parallelism.enable_sequence_parallel", "parallelism.sequence_parallel", copy_boolean, ""},
    ImportRow{"parallelism.enable_async_tensor_parallel", "", not_simulated,
              "tensor-parallel communication beside GEMMs"},
    ImportRow{"experimental.enable_async_tensor_parallel", "", not_simulated,
              "tensor-parallel communication beside GEMMs"},
    ImportRow{"parallelism.disable_loss_parallel", "", not_simulated, "a loss over the whole vocabulary on each rank"},
    ImportRow{"training.disable_loss_parallel", "", not_simulated, "a loss over the whole vocabulary on each rank"},
    ImportRow{"parallelism.enable_compiled_autograd", "", not_simulated, "a compiled backward pass"},
    ImportRow{"experimental.enable_compiled_autograd", "", not_simulated, "a compiled backward pass"},
    ImportRow{"parallelism.pipeline_parallel_degree", "parallelism.pipeline", copy_value, ""},
    ImportRow{"experimental.pipeline_parallel_degree", "parallelism.pipeline", copy_value, ""},
    ImportRow{"parallelism.pipeline_parallel_schedule", "parallelism.schedule.kind", together, ""},
    ImportRow{"experimental.pipeline_parallel_schedule", "parallelism.schedule.kind", together, ""},
    ImportRow{"parallelism.pipeline_parallel_schedule_csv", "parallelism.schedule.file", together, ""},
    ImportRow{"experimental.pipeline_parallel_schedule_csv", "parallelism.schedule.file", together, ""},
    ImportRow{"parallelism.pipeline_parallel_microbatch_size", "training.micro_batch", together, ""},
    ImportRow{"experimental.pipeline_parallel_microbatches", "training.micro_batch", together, ""},
    ImportRow{"parallelism.num_pp_microbatches", "training.micro_batch", together, ""},
    ImportRow{"parallelism.pipeline_parallel_layers_per_stage", "", not_simulated, "write parallelism.stage_layers"},
    ImportRow{"parallelism.pipeline_parallel_split_points", "", not_simulated, "write parallelism.stage_layers"},
    ImportRow{"experimental.pipeline_parallel_split_points", "", not_simulated, "write parallelism.stage_layers"},
    ImportRow{"parallelism.pipeline_parallel_first_stage_less_layers", "", not_simulated,
              "write parallelism.stage_layers"},
    ImportRow{"parallelism.pipeline_parallel_last_stage_less_layers", "", not_simulated,
              "write parallelism.stage_layers"},
    ImportRow{"parallelism.module_fqns_per_model_part", "", not_simulated, "write parallelism.stage_layers"},
    ImportRow{"parallelism.context_parallel_degree", "parallelism.context", copy_value, ""},
    ImportRow{"experimental.context_parallel_degree", "parallelism.context", copy_value, ""},
    ImportRow{"parallelism.context_parallel_rotate_method", "parallelism.context_kind.kind", map_rotate, ""},
    ImportRow{"experimental.context_parallel_rotate_method", "parallelism.context_kind.kind", map_rotate, ""},
    ImportRow{"parallelism.context_parallel_*", "", not_simulated, kRotate},
    ImportRow{"parallelism.expert_parallel_degree", "parallelism.expert", copy_value, ""},
    ImportRow{"parallelism.expert_*", "", not_simulated, kExperts},
    // Activations, optimizer, number formats
    ImportRow{"activation_checkpoint.mode", "training.recompute", map_checkpointing, ""},
    ImportRow{"activation_checkpoint.selective_ac_option", "", map_selective, ""},
    ImportRow{"activation_checkpoint.*", "", map_selective, ""},
    ImportRow{"optimizer.name", "training.optimizer.kind", map_optimizer, ""},
    ImportRow{"optimizer.early_step_in_backward", "", not_simulated, "each parameter updated within the backward pass"},
    ImportRow{"optimizer.*", "", no_influence, kLearning},
    ImportRow{"lr_scheduler.*", "", no_influence, kLearning},
    ImportRow{"float8.enable_fsdp_float8_all_gather", "parallelism.sharding.float8_all_gather", map_float8,
              "weights that travel in 8 bits"},
    ImportRow{"float8.*", "", map_float8, kFp8},
    ImportRow{"mx.*", "", not_simulated, kFp8},
    ImportRow{"quantize.linear.float8.enable_fsdp_float8_all_gather", "parallelism.sharding.float8_all_gather",
              map_float8, "weights that travel in 8 bits"},
    ImportRow{"quantize.*", "", not_simulated, kFp8},
    ImportRow{"compile.enable", "training.framework", map_compile, ""},
    ImportRow{"compile.*", "", no_influence, "what is compiled"},
    // No influence
    ImportRow{"job.description", "name", copy_value, ""},
    ImportRow{"job.*", "", no_influence, kRecords},
    ImportRow{"profiling.*", "", no_influence, kRecords},
    ImportRow{"metrics.*", "", no_influence, kRecords},
    ImportRow{"checkpoint.*", "", no_influence, kRecords},
    ImportRow{"validation.*", "", no_influence, kRecords},
    ImportRow{"memory_estimation.*", "", no_influence, kRecords},
    ImportRow{"comm.*", "", no_influence, kRecords},
    ImportRow{"debug.*", "", no_influence, kRecords},
    ImportRow{"fault_tolerance.*", "", not_simulated, "replicas that come and go"},
    ImportRow{"experimental.custom_*", "", no_influence, "code of one's own"},
};

// --- After the rows.

void finish_degrees(Draft& draft) {
  const Degrees degrees = degrees_of(draft);
  const PlanEntry* replicate = replicate_entry(draft);
  const std::int64_t shards = shard_degree(draft, degrees);
  if (degrees.shard >= 1) {
    draft.set(*shard_entry(draft), "parallelism.data", std::to_string(shards * degrees.replicate), "replicas x shards");
  }
  if (replicate != nullptr) {
    draft.ignore(*replicate, Fate::no_influence,
                 degrees.replicate == 1 ? "one copy of the model" : "the data-parallel degree holds it");
  }
  if (degrees.replicate > 1 && shards > 1) {
    draft.set_option(*replicate, kSharding, "strategy", "hybrid-shard", "copies of a model that is split");
    draft.set_option(*replicate, kSharding, "shard_size", std::to_string(shards));
  }
  if (degrees.context > 1) {
    draft.assume_choice("parallelism.context_parallel_rotate_method", kContextKind, "all-gather",
                        std::string(kDefault));
  }
  if (draft.value_of("parallelism.tensor", 1) > 1) {
    draft.assume("parallelism.enable_sequence_parallel", "parallelism.sequence_parallel", "true",
                 std::string(kDefault));
  }
}

// A pipeline cuts the local batch into micro-batches; else it is one itself.
void finish_micro_batch(Draft& draft) {
  const PlanEntry* local = first_of(draft, {"training.local_batch_size", "training.batch_size"});
  const PlanEntry* size = draft.find("parallelism.pipeline_parallel_microbatch_size");
  const PlanEntry* number =
      first_of(draft, {"parallelism.num_pp_microbatches", "experimental.pipeline_parallel_microbatches"});
  const std::int64_t batch = local == nullptr ? kDefaultLocalBatch : draft.integer(*local, kDegree).value_or(0);
  const bool pipeline = draft.value_of("parallelism.pipeline", 1) > 1;
  if (!pipeline) {
    for (const PlanEntry* entry : {size, number}) {
      if (entry != nullptr) draft.ignore(*entry, Fate::no_influence, "one stage");
    }
    if (local != nullptr) return draft.set(*local, "training.micro_batch", local->value);
    return draft.assume("training.local_batch_size", "training.micro_batch", std::to_string(batch),
                        std::string(kDefault));
  }
  if (size != nullptr) {
    draft.set(*size, "training.micro_batch", size->value);
  } else if (number != nullptr) {
    const std::int64_t parts = draft.integer(*number, kDegree).value_or(1);
    if (batch % parts != 0)
      return draft.problem(*number, fmt::format("{} sequences do not divide into {} micro-batches", batch, parts));
    draft.set(*number, "training.micro_batch", std::to_string(batch / parts), fmt::format("{} / {}", batch, parts));
  } else {
    draft.assume("parallelism.pipeline_parallel_microbatch_size", "training.micro_batch", "1", std::string(kDefault));
  }
}

void finish_global_batch(Draft& draft) {
  const PlanEntry* local = first_of(draft, {"training.local_batch_size", "training.batch_size"});
  const PlanEntry* global = draft.find("training.global_batch_size");
  const std::int64_t replicas = draft.data_parallel();
  const std::int64_t batch = local == nullptr ? kDefaultLocalBatch : draft.integer(*local, kDegree).value_or(0);
  const std::int64_t given = global == nullptr ? -1 : draft.integer(*global, Range{-1, 1e9}).value_or(-1);
  if (given > 0) {
    draft.set(*global, "training.global_batch", global->value);
  } else {
    if (global != nullptr) draft.ignore(*global, Fate::no_influence, "follows from the local batch");
    if (replicas == 0) return;
    const std::string sum = fmt::format("{} x {} data-parallel GPUs", batch, replicas);
    if (local != nullptr) {
      draft.set(*local, "training.global_batch", std::to_string(times(batch, replicas)), sum);
    } else {
      draft.assume("training.local_batch_size", "training.global_batch", std::to_string(times(batch, replicas)), sum);
    }
  }
  const PlanEntry* steps = draft.find("training.steps");
  if (steps == nullptr) return;
  const auto count = draft.number(*steps, Range{0, 1e12});
  const double tokens = count.value_or(0) * static_cast<double>(draft.value_of("training.global_batch", 0)) *
                        static_cast<double>(draft.value_of("training.sequence_length", 0));
  if (tokens > 0)
    draft.set(*steps, "training.tokens", fmt::format("{:.0f}", tokens), "steps x sequences x their length");
}

// "default" keeps parameters where a pipeline would gather them again for every micro-batch.
void finish_fsdp(Draft& draft) {
  const PlanEntry* reshard = draft.find("parallelism.fsdp_reshard_after_forward");
  const bool pipeline = draft.value_of("parallelism.pipeline", 1) > 1;
  const std::string policy = reshard == nullptr ? "default" : draft.text(reshard->key);
  const bool reshards = policy == "always" || (policy == "default" && !pipeline);
  const char* value = reshards ? "true" : "false";
  if (reshard != nullptr) {
    draft.set_option(*reshard, kSharding, "reshard_after_forward", value,
                     "whether parameters stay after the forward pass");
  } else if (pipeline) {
    draft.assume_option("parallelism.fsdp_reshard_after_forward", kSharding, "reshard_after_forward", value,
                        std::string(kDefault));
  }
  const PlanEntry* reduce = draft.find("training.mixed_precision_reduce");
  if (reduce == nullptr) {
    draft.assume_option("training.mixed_precision_reduce", kSharding, "reduce_dtype", "fp32", std::string(kDefault));
  } else {
    const char* ours = draft.text(reduce->key) == "bfloat16" ? "bf16" : "fp32";
    draft.set_option(*reduce, kSharding, "reduce_dtype", ours);
  }
}

void finish(Draft& draft) {
  finish_degrees(draft);
  draft.assume("training.seq_len", "training.sequence_length", std::to_string(kDefaultSequence), std::string(kDefault));
  finish_micro_batch(draft);
  finish_global_batch(draft);
  draft.assume("training.mixed_precision_param", "training.precision", "bf16", std::string(kDefault));
  draft.assume("activation_checkpoint.mode", "training.recompute", "selective",
               "TorchTitan's default, and the nearest there is");
  draft.assume("compile.enable", "training.framework", "torchtitan", "host time and kernels");
  finish_fsdp(draft);
}

}  // namespace

const ImportFormat& torchtitan_format() {
  static constexpr ImportFormat kFormat{"torchtitan", "TorchTitan", ".toml", kRows, read, gpus, prepare, finish};
  return kFormat;
}

}  // namespace orrery
