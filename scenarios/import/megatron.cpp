// Megatron-LM's arguments (NVIDIA/Megatron-LM, megatron/training/arguments.py: parse_args, validate_args), in the
// script that starts a training or as a plain list.
//
// In a script the command that names a Python file counts: what stands before the file is the launcher's (torchrun),
// and tells the number of GPUs; what stands behind it is Megatron's. Defaults are those of arguments.py, and are told
// in the report where they have an influence: learned positions, LayerNorm, tied embeddings, biases, dropout of 0.1,
// gradients that are reduced after the last backward pass unless --overlap-grad-reduce says otherwise.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "scenarios/import/formats.hpp"
#include "scenarios/import/shell_words.hpp"
#include "scenarios/model_defaults.hpp"
#include "scenarios/text_check.hpp"
#include "workloads/schedules/schedule.hpp"

namespace orrery {

namespace {

constexpr Range kCounts{1, 1e9};
constexpr const char* kSharding = "parallelism.sharding";
constexpr const char* kSchedule = "parallelism.schedule";
constexpr const char* kDispatch = "parallelism.dispatch";
constexpr const char* kContextKind = "parallelism.context_kind";
constexpr const char* kDistributedOptimizer = "distributed-optimizer";

// --- Reading.

bool is_key(std::string_view word) { return word.size() > 2 && word.starts_with("--"); }

bool names_python_file(const std::string& word) { return word.ends_with(".py"); }

// A command line in one word, as in eval "$CMD": taken apart at its blanks.
ShellCommand apart(const ShellCommand& command) {
  ShellCommand words;
  for (const ShellWord& word : command) {
    if (word.text.find(" --") == std::string::npos) {
      words.push_back(word);
      continue;
    }
    std::size_t at = 0;
    while ((at = word.text.find_first_not_of(" \t\n", at)) != std::string::npos) {
      const std::size_t end = std::min(word.text.find_first_of(" \t\n", at), word.text.size());
      words.push_back({word.text.substr(at, end - at), word.place});
      at = end;
    }
  }
  return words;
}

// The first command that runs a Python file with options; without one, all words from the first option of each command.
std::pair<ShellCommand, ShellCommand> launcher_and_arguments(const ShellScript& script) {
  ShellCommand plain;
  for (const ShellCommand& written : script.commands) {
    const ShellCommand command = apart(written);
    const auto first = std::find_if(command.begin(), command.end(), [](const ShellWord& w) { return is_key(w.text); });
    if (first == command.end()) continue;
    const auto file =
        std::find_if(command.begin(), command.end(), [](const ShellWord& w) { return names_python_file(w.text); });
    if (file != command.end()) return {{command.begin(), file}, {file + 1, command.end()}};
    plain.insert(plain.end(), first, command.end());
  }
  return {{}, plain};
}

YamlNode value_of_words(std::vector<ShellWord> words) {
  // What a variable that nothing sets may hold behind a value is not known; it is no part of the value.
  while (words.size() > 1 && words.back().text.starts_with('$')) words.pop_back();
  YamlNode value;
  if (words.empty()) return value;
  if (words.size() == 1) return scalar_node(words.front().text, words.front().place);
  value.kind = YamlNode::Kind::sequence;
  value.place = words.front().place;
  for (ShellWord& word : words) value.items.push_back(scalar_node(std::move(word.text), word.place));
  return value;
}

// --key value ..., --key=value.
void add_entries(const ShellCommand& words, bool launcher, std::vector<PlanEntry>& entries) {
  for (std::size_t i = 0; i < words.size();) {
    const ShellWord& word = words[i++];
    if (!is_key(word.text)) continue;
    const std::size_t equals = word.text.find('=');
    std::string key = word.text.substr(0, equals);
    if (launcher) std::replace(key.begin(), key.end(), '_', '-');  // torchrun takes both
    std::vector<ShellWord> values;
    if (equals != std::string::npos) values.push_back({word.text.substr(equals + 1), word.place});
    while (i < words.size() && !is_key(words[i].text)) values.push_back(words[i++]);
    entries.push_back({std::move(key), value_of_words(std::move(values)), word.place});
  }
}

Result<std::vector<PlanEntry>> read(std::string_view text, std::shared_ptr<const YamlOrigin> origin) {
  const auto script = read_shell(text, origin);
  if (!script) return script.problems();
  const auto [launcher, arguments] = launcher_and_arguments(*script);
  std::vector<PlanEntry> entries;
  add_entries(launcher, true, entries);
  add_entries(arguments, false, entries);
  if (arguments.empty()) {
    return Problem{"", "no arguments of Megatron-LM in this file", "they look like  --num-layers 32",
                   SourceLocation{origin->name, 1, 1}};
  }
  for (const YamlPlace& condition : script->conditions) {
    entries.push_back({fmt::format("condition in line {}", condition.line), {}, condition});
  }
  return entries;
}

// --- GPUs.

std::int64_t gpus(Draft& draft) {
  const auto in = [&](std::string_view key) -> std::int64_t {
    const PlanEntry* entry = draft.find(key);
    if (entry == nullptr || !entry->value.is_scalar()) return 0;
    const auto parsed = parse_quantity(entry->value.text, Dimension::number);
    const double* value = std::get_if<double>(&parsed);
    return value != nullptr && *value >= 1 && *value <= 1e6 ? static_cast<std::int64_t>(*value) : 0;
  };
  const std::int64_t per_node = in("--nproc-per-node");
  return draft.has("--nnodes") ? per_node * in("--nnodes") : per_node;
}

// --- What several arguments say together.

void choose_sharding(Draft& draft) {
  if (const PlanEntry* distributed = draft.find("--use-distributed-optimizer")) {
    draft.choose(*distributed, kSharding, kDistributedOptimizer);
  } else if (const PlanEntry* fsdp = draft.find("--use-torch-fsdp2")) {
    draft.choose(*fsdp, kSharding, "fsdp");
  } else {
    draft.assume_choice("--use-distributed-optimizer", kSharding, "none", "Megatron-LM's default");
  }
}

std::int64_t layers_per_virtual_stage(Draft& draft) {
  return draft.integer("--num-layers-per-virtual-pipeline-stage", kCounts).value_or(0);
}

// Virtual stages follow from layers per virtual stage as in validate_args.
void choose_virtual_stages(Draft& draft) {
  const std::int64_t pipeline = draft.integer("--pipeline-model-parallel-size", kCounts).value_or(1);
  const std::int64_t layers = draft.integer("--num-layers", kCounts).value_or(0);
  const std::int64_t per_stage = layers_per_virtual_stage(draft);
  const PlanEntry* by_layers = draft.find("--num-layers-per-virtual-pipeline-stage");
  const PlanEntry* by_stages = draft.find("--num-virtual-stages-per-pipeline-rank");
  const PlanEntry* from = by_stages != nullptr ? by_stages : by_layers;
  if (from == nullptr) {
    if (pipeline > 1)
      draft.assume_choice("--num-layers-per-virtual-pipeline-stage", kSchedule, "1f1b", "Megatron-LM's default");
    return;
  }
  std::int64_t virtual_stages = 0;
  if (by_stages != nullptr) {
    virtual_stages = draft.integer(*by_stages, kCounts).value_or(0);
  } else if (per_stage > 0 && layers > 0) {
    if (layers % pipeline != 0 || layers / pipeline % per_stage != 0) {
      draft.problem(
          *by_layers,
          fmt::format("{} layers on {} stages do not divide into virtual stages of {}", layers, pipeline, per_stage),
          "layers = stages x virtual stages x layers per virtual stage");
      return;
    }
    virtual_stages = layers / pipeline / per_stage;
  }
  if (virtual_stages <= 1) {
    if (virtual_stages == 1) draft.ignore(*from, Fate::no_influence, "one virtual stage is a plain pipeline");
    return;
  }
  draft.choose(*from, kSchedule, "interleaved-1f1b");
  draft.set_option(*from, kSchedule, "virtual_stages", std::to_string(virtual_stages));
}

void choose_schedule(Draft& draft) {
  choose_virtual_stages(draft);
  const PlanEntry* overlap = draft.find("--overlap-moe-expert-parallel-comm");
  if (overlap == nullptr) return;
  if (draft.text_of("parallelism.schedule.kind").empty()) draft.choose(*overlap, kSchedule, "1f1b");
  draft.set_option(*overlap, kSchedule, std::string(kOverlapExperts), "true");
}

// How tokens reach experts, and how many an expert takes.
void choose_dispatch(Draft& draft) {
  const PlanEntry* type = draft.find("--moe-token-dispatcher-type");
  const PlanEntry* deep = draft.find("--moe-enable-deepep");
  const bool spread =
      draft.has("--num-experts") && draft.integer("--expert-model-parallel-size", kCounts).value_or(1) > 1;
  if (!spread) {
    for (const PlanEntry* entry : {type, deep}) {
      if (entry != nullptr) draft.ignore(*entry, Fate::no_influence, "experts are not spread over ranks");
    }
  } else if (type == nullptr) {
    draft.assume_choice("--moe-token-dispatcher-type", kDispatch, "all-gather", "Megatron-LM's default");
  } else if (draft.text(type->key) == "allgather") {
    draft.choose(*type, kDispatch, "all-gather");
  } else if (draft.text(type->key) == "flex" && deep != nullptr) {
    draft.choose(*type, kDispatch, "hierarchical");
    draft.choose(*deep, kDispatch, "hierarchical");
  } else {
    draft.choose(*type, kDispatch, "all-to-all");
  }
  if (draft.has("--moe-expert-capacity-factor")) {
    draft.assume_choice("--moe-expert-capacity-factor", "training.routing", "even", "without other word");
  }
}

void prepare(Draft& draft) {
  choose_sharding(draft);
  choose_schedule(draft);
  choose_dispatch(draft);
}

// --- Rows that need more than a copy.

void map_precision(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  if (draft.has("--bf16") && draft.has("--fp16"))
    return draft.problem(entry, "both --bf16 and --fp16", "keep one of them");
  if (draft.has("--fp8-format")) return draft.ignore(entry, Fate::no_influence, "beside --fp8-format");
  draft.set(entry, std::string(row.target), entry.key == "--bf16" ? "bf16" : "fp16");
}

void map_fp8(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  draft.set(entry, std::string(row.target), "fp8");
}

void map_fp8_recipe(Draft& draft, const PlanEntry& entry, const ImportRow&) {
  const std::string recipe = draft.text(entry.key);
  if (!draft.has("--fp8-format")) return draft.ignore(entry, Fate::no_influence, "without --fp8-format");
  if (recipe == "delayed") return draft.choose(entry, "training.fp8", "delayed");
  if (recipe == "tensorwise") return draft.choose(entry, "training.fp8", "current");
  if (recipe == "blockwise") return draft.choose(entry, "training.fp8", "block");
  draft.ignore(entry, Fate::not_simulated, "delayed scaling is taken");
}

void map_normalization(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  const std::string name = draft.text(entry.key);
  if (name == "RMSNorm") return draft.set(entry, std::string(row.target), "rms_norm");
  if (name == "LayerNorm") return draft.set(entry, std::string(row.target), "layer_norm");
  draft.problem(entry, fmt::format("unknown {} {}", entry.key, in_quotes(name)), "one of: LayerNorm, RMSNorm");
}

void map_position(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kKinds{
      {{"learned_absolute", "learned"}, {"rope", "rotary"}, {"mrope", "rotary"}, {"yarn", "rotary"}, {"none", "none"}}};
  const std::string name = draft.text(entry.key);
  for (const auto& [kind, ours] : kKinds) {
    if (kind == name) return draft.set(entry, std::string(row.target), std::string(ours));
  }
  draft.ignore(entry, Fate::not_simulated, "positions of this kind");
}

void map_rotary(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  draft.set(entry, std::string(row.target), "rotary");
}

void map_kv_heads(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  if (draft.has("--group-query-attention")) return copy_value(draft, entry, row);
  draft.ignore(entry, Fate::no_influence, "without --group-query-attention");
}

void map_grouped(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  if (draft.has("--num-query-groups"))
    return draft.ignore(entry, Fate::no_influence, "--num-query-groups says how many");
  draft.assume(entry, std::string(row.target), "1", "Megatron-LM's default number of groups");
}

void map_biases(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  draft.set(entry, std::string(row.target), "false");
  if (!draft.has("--add-qkv-bias")) draft.set(entry, "model.attention_bias", "false");
}

void map_qkv_bias(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  draft.set(entry, std::string(row.target), "true",
            draft.has("--disable-bias-linear") ? "the output projection is given one too" : "");
}

void map_attention(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  const std::string name = entry.key == "--use-flash-attn" ? "flash" : draft.text(entry.key);
  const bool plain = name == "unfused" || name == "local";
  draft.set(entry, std::string(row.target), plain ? "plain" : "flash");
}

void map_transformer(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  const bool local = draft.text(entry.key) == "local";
  if (!local || draft.has("--use-flash-attn") || draft.has("--attention-backend"))
    return no_influence(draft, entry, row);
  draft.set(entry, std::string(row.target), "plain", "the local implementation's attention is not fused");
}

void map_dropout(Draft& draft, const PlanEntry& entry, const ImportRow& row) { copy_value(draft, entry, row); }

void map_attention_dropout(Draft& draft, const PlanEntry& entry, const ImportRow&) {
  const PlanEntry* hidden = draft.find("--hidden-dropout");
  if (hidden == nullptr) return draft.set(entry, "training.dropout", entry.value);
  if (hidden->value.text == entry.value.text)
    return draft.ignore(entry, Fate::no_influence, "the same as --hidden-dropout");
  draft.ignore(entry, Fate::not_simulated, "one probability for all: --hidden-dropout's");
}

void map_recompute(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  const std::string target(row.target);
  if (entry.key == "--recompute-activations") {
    if (draft.has("--recompute-granularity"))
      return draft.ignore(entry, Fate::no_influence, "--recompute-granularity says it");
    return draft.set(entry, target, "selective");
  }
  const std::string kind = draft.text(entry.key);
  if (kind != "full" && kind != "selective") {
    return draft.problem(entry, fmt::format("unknown {} {}", entry.key, in_quotes(kind)), "one of: full, selective");
  }
  draft.set(entry, target, kind);
}

// Full recomputation keeps the input of each layer, which is what uniform with one layer a time does.
void map_recompute_method(Draft& draft, const PlanEntry& entry, const ImportRow&) {
  if (draft.text("--recompute-granularity") != "full")
    return draft.ignore(entry, Fate::no_influence, "without full recomputation");
  const bool block = draft.text("--recompute-method") == "block";
  const std::int64_t layers = draft.integer("--recompute-num-layers", kCounts).value_or(1);
  if (!block && layers == 1)
    return draft.ignore(entry, Fate::no_influence, "each layer by itself, as full recomputation is simulated");
  draft.ignore(entry, Fate::not_simulated, "all layers are recomputed, each from its input");
}

void map_recompute_modules(Draft& draft, const PlanEntry& entry, const ImportRow&) {
  if (draft.text(entry.key) == "core_attn")
    return draft.ignore(entry, Fate::no_influence, "as selective recomputation is simulated");
  draft.ignore(entry, Fate::not_simulated, "selective recomputation is that of attention");
}

void map_optimizer(Draft& draft, const PlanEntry& entry, const ImportRow&) {
  const std::string name = draft.text(entry.key);
  draft.choose(entry, "training.optimizer", name == "adam" ? "adamw" : name);
}

void map_graphs(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  draft.set(entry, std::string(row.target), "megatron-lm-graphs");
}

void map_launcher(Draft& draft, const PlanEntry& entry, const ImportRow&) {
  const std::int64_t named = gpus(draft);
  const bool same = named > 0 && draft.gpus == named;
  draft.ignore(entry, same || draft.gpus == 0 ? Fate::no_influence : Fate::given,
               same ? "the cluster has as many GPUs" : "the cluster's number of GPUs is an option's");
}

void map_condition(Draft& draft, const PlanEntry& entry, const ImportRow&) {
  draft.ignore(entry, Fate::unknown, "is not evaluated: what it guards is taken as said, the last of several");
}

void map_latent_width(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  if (draft.has("--multi-latent-attention")) return copy_value(draft, entry, row);
  draft.ignore(entry, Fate::no_influence, "without --multi-latent-attention");
}

// Shared experts are as wide as routed ones.
void map_shared_experts(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  const auto width = draft.integer(entry, kCountOrZero);
  const PlanEntry* own = draft.find("--moe-ffn-hidden-size");
  const PlanEntry* expert = own != nullptr ? own : draft.find("--ffn-hidden-size");
  const std::int64_t of_one = expert == nullptr ? 0 : draft.integer(*expert, kCounts).value_or(0);
  if (!width || *width == 0) return draft.ignore(entry, Fate::no_influence, "none");
  const bool whole = of_one > 0 && *width % of_one == 0;
  if (!whole) return draft.ignore(entry, Fate::not_simulated, "shared experts of another width than routed ones");
  draft.set(entry, std::string(row.target), std::to_string(*width / of_one));
}

// "[0]*3+[1]*58", as DeepSeek's layers are: the number of leading layers without experts. Nothing for other patterns.
std::optional<std::int64_t> leading_dense_layers(std::string_view pattern) {
  std::int64_t dense = 0;
  bool experts = false;
  while (!pattern.empty()) {
    if (std::string_view("()+ ").find(pattern.front()) != std::string_view::npos) {
      pattern.remove_prefix(1);
      continue;
    }
    const bool one = pattern.starts_with("[1]");
    if (!one && (experts || !pattern.starts_with("[0]"))) return std::nullopt;
    pattern.remove_prefix(3);
    std::int64_t count = 1;
    if (pattern.starts_with("*")) {
      const auto [end, error] = std::from_chars(pattern.data() + 1, pattern.data() + pattern.size(), count);
      if (error != std::errc() || count < 0 || count > 100'000) return std::nullopt;
      pattern.remove_prefix(static_cast<std::size_t>(end - pattern.data()));
    }
    experts = experts || one;
    if (!one) dense += count;
  }
  return experts ? std::optional(dense) : std::nullopt;
}

void map_moe_layers(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  const std::string every = draft.text(entry.key);
  const bool number = !every.empty() && every.find_first_not_of("0123456789") == std::string::npos;
  if (number) return copy_value(draft, entry, row);
  if (const auto dense = leading_dense_layers(every)) {
    return draft.set(entry, "model.dense_layers", std::to_string(*dense));
  }
  draft.ignore(entry, Fate::not_simulated, "this pattern of layers");
}

void map_router_type(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  const std::string type = draft.text(entry.key);
  if (type == "fp32") return draft.set(entry, std::string(row.target), "true");
  draft.ignore(entry, Fate::not_simulated, "a router in this format");
}

void map_context_kind(Draft& draft, const PlanEntry& entry, const ImportRow&) {
  constexpr std::array<std::pair<std::string_view, const char*>, 3> kKinds{
      {{"p2p", "ring"}, {"all_gather", "all-gather"}, {"a2a", "ulysses"}}};
  if (draft.integer("--context-parallel-size", kCounts).value_or(1) == 1) {
    return draft.ignore(entry, Fate::no_influence, "sequences are not split");
  }
  const std::string name = draft.text(entry.key);
  for (const auto& [kind, ours] : kKinds) {
    if (kind == name) return draft.choose(entry, kContextKind, ours);
  }
  draft.ignore(entry, Fate::not_simulated, "how ranks of a context group exchange keys and values");
}

constexpr std::string_view kData = "data and tokenizer";
constexpr std::string_view kLearning = "how well it learns";
constexpr std::string_view kRecords = "checkpoints, logs and evaluation are not part of a step";
constexpr std::string_view kBalance = "tokens fall evenly on experts; training.routing can say otherwise";
constexpr std::string_view kFp8 = "number format of 8 bits";
constexpr std::string_view kFusion = "which kernels are fused is the framework's: training.framework.fused_kernels";
constexpr std::string_view kLaunch = "how ranks find one another";

constexpr std::array kRows{
    // Launcher (torchrun)
    ImportRow{"--nproc-per-node", "", map_launcher, ""},
    ImportRow{"--nnodes", "", map_launcher, ""},
    ImportRow{"--node-rank", "", no_influence, kLaunch},
    ImportRow{"--master-addr", "", no_influence, kLaunch},
    ImportRow{"--master-port", "", no_influence, kLaunch},
    ImportRow{"--rdzv-*", "", no_influence, kLaunch},
    ImportRow{"condition*", "", map_condition, ""},
    // Model
    ImportRow{"--num-layers", "model.layers", copy_value, ""},
    ImportRow{"--hidden-size", "model.hidden", copy_value, ""},
    ImportRow{"--num-attention-heads", "model.heads", copy_value, ""},
    ImportRow{"--group-query-attention", "model.kv_heads", map_grouped, ""},
    ImportRow{"--num-query-groups", "model.kv_heads", map_kv_heads, ""},
    ImportRow{"--kv-channels", "model.head_dim", copy_value, ""},
    ImportRow{"--ffn-hidden-size", "model.ffn_hidden", copy_value, ""},
    ImportRow{"--swiglu", "model.gated_mlp", switch_on, ""},
    ImportRow{"--squared-relu", "", no_influence, "an MLP of two matrices, as without"},
    ImportRow{"--openai-gelu", "", no_influence, "an activation of the same cost"},
    ImportRow{"--normalization", "model.norm", map_normalization, ""},
    ImportRow{"--apply-layernorm-1p", "", no_influence, "the same work"},
    ImportRow{"--norm-epsilon", "", no_influence, kLearning},
    ImportRow{"--layernorm-epsilon", "", no_influence, kLearning},
    ImportRow{"--position-embedding-type", "model.position", map_position, ""},
    ImportRow{"--use-rotary-position-embeddings", "model.position", map_rotary, ""},
    ImportRow{"--max-position-embeddings", "model.positions", copy_value, ""},
    ImportRow{"--rotary-*", "", no_influence, "the same work"},
    ImportRow{"--use-rope-scaling", "", no_influence, "the same work"},
    ImportRow{"--untie-embeddings-and-output-weights", "model.tied_embeddings", switch_off, ""},
    ImportRow{"--disable-bias-linear", "model.mlp_bias", map_biases, ""},
    ImportRow{"--add-qkv-bias", "model.attention_bias", map_qkv_bias, ""},
    ImportRow{"--vocab-size", "model.vocabulary", copy_value, ""},
    ImportRow{"--padded-vocab-size", "model.vocabulary", copy_value, ""},
    ImportRow{"--make-vocab-size-divisible-by", "training.framework.vocabulary_multiple", together, ""},
    ImportRow{"--qk-layernorm", "model.qk_norm", switch_on, ""},
    ImportRow{"--use-mcore-models", "", no_influence, "as is simulated"},
    ImportRow{"--transformer-impl", "training.attention", map_transformer, "as is simulated"},
    ImportRow{"--window-size", "", not_simulated, "attention within a window"},
    ImportRow{"--mtp-num-layers", "", not_simulated, "prediction of more than the next token"},
    ImportRow{"--multi-latent-attention", "model.kv_lora_rank", together, ""},
    ImportRow{"--q-lora-rank", "model.q_lora_rank", map_latent_width, ""},
    ImportRow{"--kv-lora-rank", "model.kv_lora_rank", map_latent_width, ""},
    ImportRow{"--qk-head-dim", "model.qk_nope_head_dim", map_latent_width, ""},
    ImportRow{"--qk-pos-emb-head-dim", "model.qk_rope_head_dim", map_latent_width, ""},
    ImportRow{"--v-head-dim", "model.v_head_dim", map_latent_width, ""},
    // Experts
    ImportRow{"--num-experts", "model.experts", copy_value, ""},
    ImportRow{"--moe-router-topk", "model.top_k", copy_value, ""},
    ImportRow{"--moe-ffn-hidden-size", "model.expert_ffn_hidden", copy_value, ""},
    ImportRow{"--moe-shared-expert-intermediate-size", "model.shared_experts", map_shared_experts, ""},
    ImportRow{"--moe-layer-freq", "model.moe_every", map_moe_layers, ""},
    ImportRow{"--moe-router-num-groups", "model.expert_groups", copy_value, ""},
    ImportRow{"--moe-router-group-topk", "model.groups_per_token", copy_value, ""},
    ImportRow{"--moe-router-dtype", "model.router_fp32", map_router_type, ""},
    ImportRow{"--moe-token-dispatcher-type", "parallelism.dispatch.kind", together, ""},
    ImportRow{"--moe-enable-deepep", "parallelism.dispatch.kind", together, ""},
    ImportRow{"--moe-shared-expert-overlap", "parallelism.dispatch.overlap_shared_experts", switch_option_on, ""},
    ImportRow{"--moe-expert-capacity-factor", "training.routing.capacity_factor", copy_option, ""},
    ImportRow{"--moe-router-load-balancing-type", "", no_influence, kBalance},
    ImportRow{"--moe-router-force-load-balancing", "", no_influence, kBalance},
    ImportRow{"--moe-grouped-gemm", "", no_influence, "as is simulated"},
    ImportRow{"--moe-permute-fusion", "", not_simulated, kFusion},
    ImportRow{"--moe-aux-loss-coeff", "", no_influence, kLearning},
    ImportRow{"--moe-z-loss-coeff", "", no_influence, kLearning},
    ImportRow{"--moe-input-jitter-eps", "", no_influence, kLearning},
    ImportRow{"--moe-token-drop-policy", "", no_influence, kLearning},
    ImportRow{"--moe-router-bias-update-rate", "", no_influence, kLearning},
    ImportRow{"--moe-router-enable-expert-bias", "", no_influence, kLearning},
    ImportRow{"--moe-router-score-function", "", no_influence, kLearning},
    ImportRow{"--moe-router-pre-softmax", "", no_influence, kLearning},
    ImportRow{"--moe-router-topk-scaling-factor", "", no_influence, kLearning},
    ImportRow{"--moe-per-layer-logging", "", no_influence, kRecords},
    ImportRow{"--moe-*", "", not_simulated, "how experts are reached or run"},
    ImportRow{"--expert-tensor-parallel-size", "parallelism.expert_tensor", copy_value, ""},
    ImportRow{"--expert-model-parallel-size", "parallelism.expert", copy_value, ""},
    // Batch and run
    ImportRow{"--seq-length", "training.sequence_length", copy_value, ""},
    ImportRow{"--micro-batch-size", "training.micro_batch", copy_value, ""},
    ImportRow{"--global-batch-size", "training.global_batch", copy_value, ""},
    ImportRow{"--rampup-batch-size", "", not_simulated, "the step is one of the full batch"},
    ImportRow{"--train-iters", "training.tokens", together, ""},
    ImportRow{"--train-samples", "training.tokens", together, ""},
    ImportRow{"--hidden-dropout", "training.dropout", map_dropout, ""},
    ImportRow{"--attention-dropout", "training.dropout", map_attention_dropout, ""},
    ImportRow{"--bf16", "training.precision", map_precision, ""},
    ImportRow{"--fp16", "training.precision", map_precision, ""},
    ImportRow{"--fp8-format", "training.precision", map_fp8, ""},
    ImportRow{"--fp8-recipe", "training.fp8.kind", map_fp8_recipe, ""},
    ImportRow{"--fp8-*", "", not_simulated, kFp8},
    ImportRow{"--fp4-*", "", not_simulated, kFp8},
    ImportRow{"--optimizer", "training.optimizer.kind", map_optimizer, ""},
    ImportRow{"--sgd-momentum", "training.optimizer.momentum", copy_option, ""},
    ImportRow{"--optimizer-cpu-offload", "", not_simulated, "optimizer in host memory"},
    ImportRow{"--optimizer-offload-fraction", "", not_simulated, "optimizer in host memory"},
    ImportRow{"--use-precision-aware-optimizer", "", not_simulated, "optimizer state in fewer bits"},
    ImportRow{"--grad-reduce-in-bf16", "", not_simulated, "gradients are reduced in fp32"},
    ImportRow{"--accumulate-allreduce-grads-in-fp32", "", no_influence, "as is simulated"},
    ImportRow{"--attention-softmax-in-fp32", "", no_influence, "as is simulated"},
    ImportRow{"--clip-grad", "", no_influence, "a step always takes the norm of its gradients"},
    ImportRow{"--use-flash-attn", "training.attention", map_attention, ""},
    ImportRow{"--attention-backend", "training.attention", map_attention, ""},
    ImportRow{"--recompute-activations", "training.recompute", map_recompute, ""},
    ImportRow{"--recompute-granularity", "training.recompute", map_recompute, ""},
    ImportRow{"--recompute-method", "", map_recompute_method, ""},
    ImportRow{"--recompute-num-layers", "", map_recompute_method, ""},
    ImportRow{"--recompute-modules", "", map_recompute_modules, ""},
    ImportRow{"--distribute-saved-activations", "", not_simulated, "saved activations split over tensor ranks"},
    ImportRow{"--cpu-offloading*", "", not_simulated, "activations in host memory"},
    ImportRow{"--enable-cuda-graph", "training.framework", map_graphs, ""},
    ImportRow{"--external-cuda-graph", "training.framework", map_graphs, ""},
    ImportRow{"--no-masked-softmax-fusion", "", not_simulated, kFusion},
    ImportRow{"--no-bias-gelu-fusion", "", not_simulated, kFusion},
    ImportRow{"--no-bias-swiglu-fusion", "", not_simulated, kFusion},
    ImportRow{"--no-bias-dropout-fusion", "", not_simulated, kFusion},
    ImportRow{"--no-rope-fusion", "", not_simulated, kFusion},
    ImportRow{"--no-gradient-accumulation-fusion", "", not_simulated, kFusion},
    ImportRow{"--no-persist-layer-norm", "", not_simulated, kFusion},
    ImportRow{"--cross-entropy-loss-fusion", "", not_simulated, kFusion},
    ImportRow{"--empty-unused-memory-level", "", not_simulated, "the allocator is emptied between steps"},
    // Parallelism
    ImportRow{"--tensor-model-parallel-size", "parallelism.tensor", copy_value, ""},
    ImportRow{"--pipeline-model-parallel-size", "parallelism.pipeline", copy_value, ""},
    ImportRow{"--context-parallel-size", "parallelism.context", copy_value, ""},
    ImportRow{"--cp-comm-type", "parallelism.context_kind.kind", map_context_kind, ""},
    ImportRow{"--sequence-parallel", "parallelism.sequence_parallel", switch_on, ""},
    ImportRow{"--num-layers-per-virtual-pipeline-stage", "parallelism.schedule.virtual_stages", together, ""},
    ImportRow{"--num-virtual-stages-per-pipeline-rank", "parallelism.schedule.virtual_stages", together, ""},
    ImportRow{"--decoder-first-pipeline-num-layers", "parallelism.stage_layers", together, ""},
    ImportRow{"--decoder-last-pipeline-num-layers", "parallelism.stage_layers", together, ""},
    ImportRow{"--account-for-embedding-in-pipeline-split", "", not_simulated, "write parallelism.stage_layers"},
    ImportRow{"--account-for-loss-in-pipeline-split", "", not_simulated, "write parallelism.stage_layers"},
    ImportRow{"--pipeline-model-parallel-layout", "", not_simulated, "write parallelism.stage_layers"},
    ImportRow{"--microbatch-group-size-per-virtual-pipeline-stage", "", not_simulated,
              "groups of as many as there are stages"},
    ImportRow{"--no-overlap-p2p-communication", "", not_simulated, "interleaved schedules overlap transfers"},
    ImportRow{"--overlap-p2p-communication-warmup-flush", "", not_simulated, "transfers of warm-up and flush"},
    ImportRow{"--no-scatter-gather-tensors-in-pipeline", "", no_influence, "megatron-core does not read it"},
    ImportRow{"--use-distributed-optimizer", "parallelism.sharding.kind", together, ""},
    ImportRow{"--use-torch-fsdp2", "parallelism.sharding.kind", together, ""},
    ImportRow{"--use-megatron-fsdp", "", not_simulated, "Megatron-FSDP"},
    ImportRow{"--use-custom-fsdp", "", not_simulated, "Megatron-FSDP"},
    ImportRow{"--data-parallel-sharding-strategy", "", not_simulated, "Megatron-FSDP"},
    ImportRow{"--outer-dp-sharding-strategy", "", not_simulated, "Megatron-FSDP"},
    ImportRow{"--num-distributed-optimizer-instances", "", not_simulated, "state split within groups of replicas"},
    ImportRow{"--overlap-grad-reduce", "parallelism.sharding.overlap_gradient_reduction", switch_option_on, ""},
    ImportRow{"--overlap-param-gather", "parallelism.sharding.overlap_parameter_gather", switch_option_on, ""},
    ImportRow{"--overlap-param-gather-with-optimizer-step", "", not_simulated,
              "the first bucket's gather beside the optimizer"},
    ImportRow{"--ddp-bucket-size", "parallelism.sharding.bucket_elements", copy_option, ""},
    ImportRow{"--ddp-average-in-collective", "", no_influence, "the same bytes"},
    ImportRow{"--align-param-gather", "", not_simulated, "stages that gather at one time"},
    ImportRow{"--no-align-param-gather", "", no_influence, "as is simulated"},
    ImportRow{"--no-align-grad-reduce", "", no_influence, "as is simulated"},
    ImportRow{"--tp-comm-overlap", "parallelism.tp_comm_overlap", switch_on, ""},
    ImportRow{"--tp-comm-overlap-rs-dgrad", "parallelism.tp_comm_overlap_rs_dgrad", switch_on, ""},
    ImportRow{"--tp-comm-overlap-cfg", "", not_simulated, "methods of single products: the default ones are"},
    ImportRow{"--tp-comm-bootstrap-backend", "", no_influence, "how user buffers are set up"},
    ImportRow{"--tp-comm-*", "", not_simulated, "another way of overlapping tensor-parallel communication"},
    ImportRow{"--disable-tp-comm-overlap-ag", "parallelism.tp_comm_overlap_ag", switch_off, ""},
    ImportRow{"--disable-tp-comm-overlap-rs", "parallelism.tp_comm_overlap_rs", switch_off, ""},
    ImportRow{"--disable-tp-comm-split-ag", "parallelism.tp_comm_overlap_ag", switch_off, ""},
    ImportRow{"--disable-tp-comm-split-rs", "parallelism.tp_comm_overlap_rs", switch_off, ""},
    ImportRow{"--disable-tp-comm-bulk-*", "", not_simulated, "bulk overlap by NCCL in place of user buffers"},
    ImportRow{"--async-tensor-model-parallel-allreduce", "", not_simulated, "all-reduce beside weight gradients"},
    ImportRow{"--no-async-tensor-model-parallel-allreduce", "", no_influence, "as is simulated"},
    ImportRow{"--overlap-moe-expert-parallel-comm", "parallelism.schedule.overlap_moe_expert_parallel_comm", together,
              ""},
    ImportRow{"--delay-wgrad-compute", "", not_simulated, "weight gradients apart from input gradients"},
    ImportRow{"--defer-embedding-wgrad-compute", "", not_simulated, "the head's weight gradients at the end"},
    ImportRow{"--use-tp-pp-dp-mapping", "", not_simulated, "ranks are ordered tensor, context, data, pipeline"},
    ImportRow{"--nccl-ub", "", not_simulated, "registered buffers"},
    ImportRow{"--use-nccl-ub", "", not_simulated, "registered buffers"},
    ImportRow{"--use-sharp", "collectives.sharp", switch_on, ""},
    // No influence
    ImportRow{"--data-*", "", no_influence, kData},
    ImportRow{"--train-data-path", "", no_influence, kData},
    ImportRow{"--valid-data-path", "", no_influence, kData},
    ImportRow{"--test-data-path", "", no_influence, kData},
    ImportRow{"--mock-data", "", no_influence, kData},
    ImportRow{"--split", "", no_influence, kData},
    ImportRow{"--dataloader-type", "", no_influence, kData},
    ImportRow{"--num-workers", "", no_influence, kData},
    ImportRow{"--num-dataset-builder-threads", "", no_influence, kData},
    ImportRow{"--no-create-attention-mask-in-dataloader", "", no_influence, kData},
    ImportRow{"--reset-*", "", no_influence, kData},
    ImportRow{"--eod-mask-loss", "", no_influence, kData},
    ImportRow{"--tokenizer-*", "", together, kData},
    ImportRow{"--vocab-file", "", no_influence, kData},
    ImportRow{"--merge-file", "", no_influence, kData},
    ImportRow{"--legacy-tokenizer", "", no_influence, kData},
    ImportRow{"--lr", "", no_influence, kLearning},
    ImportRow{"--lr-*", "", no_influence, kLearning},
    ImportRow{"--min-lr", "", no_influence, kLearning},
    ImportRow{"--weight-decay*", "", no_influence, kLearning},
    ImportRow{"--start-weight-decay", "", no_influence, kLearning},
    ImportRow{"--end-weight-decay", "", no_influence, kLearning},
    ImportRow{"--adam-*", "", no_influence, kLearning},
    ImportRow{"--init-method-*", "", no_influence, kLearning},
    ImportRow{"--initial-loss-scale", "", no_influence, kLearning},
    ImportRow{"--loss-scale*", "", no_influence, kLearning},
    ImportRow{"--min-loss-scale", "", no_influence, kLearning},
    ImportRow{"--hysteresis", "", no_influence, kLearning},
    ImportRow{"--seed", "", no_influence, kLearning},
    ImportRow{"--override-opt_param-scheduler", "", no_influence, kLearning},
    ImportRow{"--use-checkpoint-opt_param-scheduler", "", no_influence, kLearning},
    ImportRow{"--apply-query-key-layer-scaling", "", no_influence, kLearning},
    ImportRow{"--save*", "", no_influence, kRecords},
    ImportRow{"--load", "", no_influence, kRecords},
    ImportRow{"--no-load-*", "", no_influence, kRecords},
    ImportRow{"--no-save-*", "", no_influence, kRecords},
    ImportRow{"--ckpt-*", "", no_influence, kRecords},
    ImportRow{"--dist-ckpt-*", "", no_influence, kRecords},
    ImportRow{"--use-dist-ckpt", "", no_influence, kRecords},
    ImportRow{"--async-save", "", no_influence, kRecords},
    ImportRow{"--auto-detect-ckpt-format", "", no_influence, kRecords},
    ImportRow{"--finetune", "", no_influence, kRecords},
    ImportRow{"--eval-*", "", no_influence, kRecords},
    ImportRow{"--log-*", "", no_influence, kRecords},
    ImportRow{"--logging-level", "", no_influence, kRecords},
    ImportRow{"--timing-log-*", "", no_influence, kRecords},
    ImportRow{"--tensorboard-*", "", no_influence, kRecords},
    ImportRow{"--wandb-*", "", no_influence, kRecords},
    ImportRow{"--profile*", "", no_influence, kRecords},
    ImportRow{"--exit-*", "", no_influence, kRecords},
    ImportRow{"--distributed-backend", "", no_influence, kLaunch},
    ImportRow{"--distributed-timeout-minutes", "", no_influence, kLaunch},
    ImportRow{"--local-rank", "", no_influence, kLaunch},
    ImportRow{"--manual-gc*", "", no_influence, "pauses of Python's collector are not simulated"},
    ImportRow{"--check-for-nan-in-loss-and-grad", "", no_influence, "too little to tell"},
    ImportRow{"--no-check-for-nan-in-loss-and-grad", "", no_influence, "too little to tell"},
    ImportRow{"--use-cpu-initialization", "", no_influence, "before the first step"},
};

// --- At the end.

constexpr std::string_view kDefault = "Megatron-LM's default";

// Two thirds of the usual width, so that three matrices weigh what two do: validate_args.
std::int64_t default_ffn(std::int64_t hidden, bool gated) { return gated ? 4 * hidden * 2 / 3 / 64 * 64 : 4 * hidden; }

// Vocabularies of the tokenizers whose size their name tells. The others come with a file.
std::int64_t vocabulary_of(const std::string& tokenizer) {
  if (tokenizer == "GPT2BPETokenizer" || tokenizer.empty()) return kDefaultVocabulary;
  if (tokenizer == "Llama2Tokenizer") return 32000;  // Touvron et al. 2023, section 2.2
  return 0;
}

void finish_tokenizer(Draft& draft) {
  const PlanEntry* type = draft.find("--tokenizer-type");
  for (const PlanEntry& entry : draft.entries()) {
    if (entry.key.starts_with("--tokenizer-") && &entry != type)
      draft.ignore(entry, Fate::no_influence, std::string(kData));
  }
  const std::int64_t size = vocabulary_of(draft.text("--tokenizer-type"));
  const bool known = draft.has_target("model.vocabulary") || draft.overridden("model.vocabulary");
  const std::string text = std::to_string(size > 0 ? size : kDefaultVocabulary);
  if (type == nullptr) return draft.assume("--vocab-size", "model.vocabulary", text, "GPT-2's");
  if (known) return draft.ignore(*type, Fate::no_influence, std::string(kData));
  if (size > 0) return draft.assume(*type, "model.vocabulary", text, "that tokenizer's");
  draft.assume(*type, "model.vocabulary", text, "GPT-2's, for want of a size: --set model.vocabulary=N says it");
}

// Defaults of MLATransformerConfig (megatron/core/transformer/transformer_config.py).
void finish_latent(Draft& draft) {
  const PlanEntry* latent = draft.find("--multi-latent-attention");
  if (latent == nullptr) return;
  draft.ignore(*latent, draft.overridden("model") ? Fate::given : Fate::no_influence, "the ranks say it");
  draft.assume("--kv-lora-rank", "model.kv_lora_rank", "512", std::string(kDefault));
  draft.assume("--qk-head-dim", "model.qk_nope_head_dim", "128", std::string(kDefault));
  draft.assume("--qk-pos-emb-head-dim", "model.qk_rope_head_dim", "64", std::string(kDefault));
  draft.assume("--v-head-dim", "model.v_head_dim", "128", std::string(kDefault));
}

void finish_model(Draft& draft) {
  finish_latent(draft);
  if (draft.overridden("model")) return finish_tokenizer(draft);
  for (const std::string_view key : {"--num-layers", "--hidden-size", "--num-attention-heads"}) {
    if (!draft.has(key)) {
      draft.reader().problem(draft.root().place, "", fmt::format("{} is missing", key),
                             "or name a model:  --model gpt3-1.3b");
    }
  }
  draft.assume("--swiglu", "model.gated_mlp", "false", std::string(kDefault));
  const bool gated = draft.text_of("model.gated_mlp") == "true";
  const std::int64_t hidden = draft.value_of("model.hidden", 0);
  constexpr std::int64_t kSane = 1'000'000;
  if (hidden > 0 && hidden <= kSane) {
    const std::int64_t width = default_ffn(hidden, gated);
    draft.assume("--ffn-hidden-size", "model.ffn_hidden", std::to_string(width),
                 gated ? "8/3 of the hidden size, in multiples of 64" : "4 x the hidden size");
  }
  draft.assume("--normalization", "model.norm", "layer_norm", std::string(kDefault));
  draft.assume("--position-embedding-type", "model.position", "learned", std::string(kDefault));
  draft.assume("--untie-embeddings-and-output-weights", "model.tied_embeddings", "true", std::string(kDefault));
  draft.assume("--disable-bias-linear", "model.attention_bias", "true", std::string(kDefault));
  draft.assume("--disable-bias-linear", "model.mlp_bias", "true", std::string(kDefault));
  if (draft.has_target("model.experts")) {
    draft.assume("--moe-router-topk", "model.top_k", "2", std::string(kDefault));
  }
  finish_tokenizer(draft);
}

void finish_batch(Draft& draft) {
  draft.assume("--micro-batch-size", "training.micro_batch", "1", "nothing says otherwise");
  const std::int64_t replicas = draft.data_parallel();
  const std::int64_t micro = draft.value_of("training.micro_batch", 1);
  if (replicas > 0) {
    draft.assume("--global-batch-size", "training.global_batch", std::to_string(times(micro, replicas)),
                 "one micro-batch a replica");
  }
  const std::int64_t batch = draft.value_of("training.global_batch", 0);
  const std::int64_t length = draft.value_of("training.sequence_length", 0);
  for (const std::string_view key : {"--train-samples", "--train-iters"}) {
    const PlanEntry* entry = draft.find(key);
    if (entry == nullptr) continue;
    if (shown(entry->value).find('$') != std::string::npos) {
      draft.ignore(*entry, Fate::unknown, "nothing in this file sets it");
      continue;
    }
    const auto count = draft.number(*entry, Range{0, 1e15});
    const char* factors = key == "--train-iters" ? "iterations x sequences x their length" : "sequences x their length";
    const double samples = count.value_or(0) * (key == "--train-iters" ? static_cast<double>(batch) : 1.0);
    if (samples > 0 && length > 0) {
      draft.set(*entry, "training.tokens", fmt::format("{:.0f}", samples * static_cast<double>(length)), factors);
    }
  }
}

void finish_training(Draft& draft) {
  draft.assume("--bf16", "training.precision", "fp32", "neither --bf16 nor --fp16");
  draft.assume("--hidden-dropout", "training.dropout", "0.1", std::string(kDefault));
  draft.assume("Megatron-LM itself", "training.framework", "megatron-lm", "host time and fused kernels");
  if (const PlanEntry* multiple = draft.find("--make-vocab-size-divisible-by")) {
    const std::string framework = draft.text_of("training.framework");
    if (multiple->value.text == "128") {
      draft.ignore(*multiple, Fate::no_influence, "as is simulated");
    } else if (!draft.overridden("training.framework")) {
      draft.set(*multiple, "training.framework.base", framework);
      draft.set(*multiple, "training.framework.vocabulary_multiple", multiple->value);
    }
  }
}

void finish_sharding(Draft& draft) {
  const std::string why = "reduced at once, after the last backward pass: the default";
  draft.assume_option("--overlap-grad-reduce", kSharding, "overlap_gradient_reduction", "false", why);
  draft.assume_option("--overlap-param-gather", kSharding, "overlap_parameter_gather", "false",
                      "gathered after the optimizer: the default");
  draft.assume_option("Megatron-LM itself", kSharding, "gradients_are_buckets", "true",
                      "Megatron-LM's gradient buffer");
  const std::int64_t replicas = draft.data_parallel();
  const bool replicated = draft.text_of("parallelism.sharding.kind") == "none";
  if (replicated && replicas > 0) {
    const std::int64_t elements = std::max<std::int64_t>(40'000'000, 1'000'000 * replicas);
    draft.assume_option("--ddp-bucket-size", kSharding, "bucket_elements", std::to_string(elements),
                        "max(40e6, 1e6 x replicas) elements: the default");
  }
}

// Layers of the first and the last stage as given, the rest alike in between.
void finish_stages(Draft& draft) {
  const PlanEntry* first = draft.find("--decoder-first-pipeline-num-layers");
  const PlanEntry* last = draft.find("--decoder-last-pipeline-num-layers");
  const PlanEntry* from = first != nullptr ? first : last;
  if (from == nullptr) return;
  const std::int64_t stages = draft.value_of("parallelism.pipeline", 1);
  const std::int64_t at_first = draft.integer("--decoder-first-pipeline-num-layers", kCountOrZero).value_or(-1);
  const std::int64_t at_last = draft.integer("--decoder-last-pipeline-num-layers", kCountOrZero).value_or(-1);
  std::int64_t between = stages;
  std::int64_t left = draft.value_of("model.layers", 0);
  for (const std::int64_t given : {at_first, at_last}) {
    if (given < 0) continue;
    left -= given;
    --between;
  }
  constexpr std::int64_t kStagesMost = 1024;
  const bool virtual_too = draft.text_of("parallelism.schedule.kind") == "interleaved-1f1b";
  if (virtual_too) {
    for (const PlanEntry* entry : {first, last}) {
      if (entry != nullptr)
        draft.ignore(*entry, Fate::not_simulated, "with virtual stages; write parallelism.stage_layers");
    }
    return;
  }
  if (between < 1 || stages > kStagesMost || left < 0 || left % between != 0) {
    return draft.problem(*from, fmt::format("{} layers do not divide over the {} stages between", left, between));
  }
  YamlNode layers;
  layers.kind = YamlNode::Kind::sequence;
  layers.place = from->place;
  for (std::int64_t stage = 0; stage < stages; ++stage) {
    const bool is_first = stage == 0 && at_first >= 0;
    const bool is_last = stage + 1 == stages && at_last >= 0;
    const std::int64_t count = is_first ? at_first : is_last ? at_last : left / between;
    layers.items.push_back(scalar_node(std::to_string(count), from->place));
  }
  for (const PlanEntry* entry : {first, last}) {
    if (entry != nullptr) draft.set(*entry, "parallelism.stage_layers", layers);
  }
}

void finish(Draft& draft) {
  finish_model(draft);
  finish_batch(draft);
  finish_training(draft);
  finish_sharding(draft);
  finish_stages(draft);
}

}  // namespace

const ImportFormat& megatron_format() {
  static constexpr ImportFormat kFormat{"megatron", "Megatron-LM", ".sh", kRows, read, gpus, prepare, finish};
  return kFormat;
}

}  // namespace orrery
