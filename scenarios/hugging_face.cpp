// Hugging Face config.json: the file beside a published model's weights that gives its shape.
//
// Families are told apart by `model_type`; each is one row below, with the names its config uses for our fields and the
// values that the transformers library takes where the config is silent (its configuration_*.py, v4.46). A key that is
// no size of ours is ignored, and the run says which were. Models of other kinds are refused: their
// step would be simulated wrongly.
#include <fmt/format.h>

#include <array>
#include <set>

#include "scenarios/model_defaults.hpp"
#include "scenarios/readers.hpp"
#include "sim/base/text.hpp"

namespace orrery {

namespace {

struct SizeKey {
  std::string_view name;
  std::int64_t ModelSpec::*member;
  bool required = true;
};

struct FlagKey {
  std::string_view name;
  bool ModelSpec::*member;
  bool inverted = false;  // the key says the opposite ("no_bias")
};

struct Family {
  std::string_view model_type;
  std::array<SizeKey, 8> sizes;
  std::array<FlagKey, 4> flags;
  // Where the config is silent.
  PositionKind position = PositionKind::rotary;
  NormKind norm = NormKind::rms_norm;
  bool gated_mlp = true;
  bool tied_embeddings = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool embedding_norm = false;
  bool qk_norm = false;
  bool has_experts = false;
  bool router_fp32 = false;
  std::string_view note = {};
};

using M = ModelSpec;
constexpr FlagKey kTied{"tie_word_embeddings", &M::tied_embeddings};

constexpr std::array<SizeKey, 8> kLlamaSizes{{{"num_hidden_layers", &M::layers},
                                              {"hidden_size", &M::hidden},
                                              {"num_attention_heads", &M::heads},
                                              {"num_key_value_heads", &M::kv_heads, false},
                                              {"head_dim", &M::head_dim, false},
                                              {"intermediate_size", &M::ffn_hidden},
                                              {"vocab_size", &M::vocabulary},
                                              {"max_position_embeddings", &M::positions, false}}};
constexpr std::array<FlagKey, 4> kLlamaFlags{
    {kTied, {"attention_bias", &M::attention_bias}, {"mlp_bias", &M::mlp_bias}, {}}};

// What families with experts have beside the sizes above, in all their spellings.
constexpr std::array kExpertKeys{
    SizeKey{"num_local_experts", &M::experts, false},
    SizeKey{"num_experts", &M::experts, false},
    SizeKey{"n_routed_experts", &M::experts, false},
    SizeKey{"num_experts_per_tok", &M::top_k, false},
    SizeKey{"moe_intermediate_size", &M::expert_ffn_hidden, false},
    SizeKey{"n_shared_experts", &M::shared_experts, false},
    SizeKey{"first_k_dense_replace", &M::dense_layers, false},
    SizeKey{"moe_layer_freq", &M::moe_every, false},
    SizeKey{"n_group", &M::expert_groups, false},
    SizeKey{"topk_group", &M::groups_per_token, false},
    SizeKey{"kv_lora_rank", &M::kv_lora_rank, false},
    SizeKey{"q_lora_rank", &M::q_lora_rank, false},
    SizeKey{"qk_nope_head_dim", &M::qk_nope_head_dim, false},
    SizeKey{"qk_rope_head_dim", &M::qk_rope_head_dim, false},
    SizeKey{"v_head_dim", &M::v_head_dim, false},
};

constexpr std::array kFamilies{
    Family{"llama", kLlamaSizes, kLlamaFlags},
    Family{.model_type = "mixtral", .sizes = kLlamaSizes, .flags = {{kTied}}, .has_experts = true},
    Family{.model_type = "qwen3_moe",
           .sizes = kLlamaSizes,
           .flags = {{kTied, {"attention_bias", &M::attention_bias}}},
           .qk_norm = true,
           .has_experts = true},
    Family{.model_type = "deepseek_v2",
           .sizes = kLlamaSizes,
           .flags = {{kTied, {"attention_bias", &M::attention_bias}}},
           .has_experts = true},
    Family{.model_type = "deepseek_v3",
           .sizes = kLlamaSizes,
           .flags = {{kTied, {"attention_bias", &M::attention_bias}}},
           .has_experts = true,
           .router_fp32 = true,
           .note = "modules that predict further tokens are left out"},
    Family{"mistral", kLlamaSizes, {{kTied}}},
    Family{.model_type = "qwen2",
           .sizes = kLlamaSizes,
           .flags = {{kTied}},
           .attention_bias = true,
           .note = "qwen2 has biases on queries, keys and values; the output projection is given one too"},
    Family{.model_type = "qwen3",
           .sizes = kLlamaSizes,
           .flags = {{kTied, {"attention_bias", &M::attention_bias}}},
           .qk_norm = true},
    Family{.model_type = "gemma", .sizes = kLlamaSizes, .flags = kLlamaFlags, .tied_embeddings = true},
    Family{.model_type = "gpt2",
           .sizes = {{{"n_layer", &M::layers},
                      {"n_embd", &M::hidden},
                      {"n_head", &M::heads},
                      {"n_inner", &M::ffn_hidden, false},
                      {"vocab_size", &M::vocabulary},
                      {"n_positions", &M::positions, false},
                      {"n_ctx", &M::positions, false}}},
           .flags = {{kTied}},
           .position = PositionKind::learned,
           .norm = NormKind::layer_norm,
           .gated_mlp = false,
           .tied_embeddings = true,
           .attention_bias = true,
           .mlp_bias = true},
    Family{.model_type = "gpt_neox",
           .sizes = kLlamaSizes,
           .flags = {{kTied, {"attention_bias", &M::attention_bias}}},
           .norm = NormKind::layer_norm,
           .gated_mlp = false,
           .attention_bias = true,
           .mlp_bias = true},
    Family{.model_type = "opt",
           .sizes = {{{"num_hidden_layers", &M::layers},
                      {"hidden_size", &M::hidden},
                      {"num_attention_heads", &M::heads},
                      {"ffn_dim", &M::ffn_hidden},
                      {"vocab_size", &M::vocabulary},
                      {"max_position_embeddings", &M::positions, false}}},
           .flags = {{kTied}},
           .position = PositionKind::learned,
           .norm = NormKind::layer_norm,
           .gated_mlp = false,
           .tied_embeddings = true,
           .attention_bias = true,
           .mlp_bias = true},
    Family{.model_type = "mpt",
           .sizes = {{{"n_layers", &M::layers},
                      {"d_model", &M::hidden},
                      {"n_heads", &M::heads},
                      {"vocab_size", &M::vocabulary},
                      {"max_seq_len", &M::positions, false}}},
           .flags = {{kTied,
                      {"no_bias", &M::attention_bias, true},
                      {"no_bias", &M::mlp_bias, true},
                      {"no_bias", &M::norm_bias, true}}},
           .position = PositionKind::learned,
           .norm = NormKind::layer_norm,
           .gated_mlp = false,
           .tied_embeddings = true},
    Family{.model_type = "bloom",
           .sizes = {{{"n_layer", &M::layers, false},
                      {"num_hidden_layers", &M::layers, false},
                      {"hidden_size", &M::hidden, false},
                      {"n_embed", &M::hidden, false},
                      {"n_head", &M::heads, false},
                      {"num_attention_heads", &M::heads, false},
                      {"vocab_size", &M::vocabulary},
                      {"seq_length", &M::positions, false}}},
           .flags = {{kTied}},
           .position = PositionKind::alibi,
           .norm = NormKind::layer_norm,
           .gated_mlp = false,
           .tied_embeddings = true,
           .attention_bias = true,
           .mlp_bias = true,
           .embedding_norm = true},
};

// Shapes whose step this version would get wrong.
constexpr std::array kRefused{std::string_view("qwen2_moe"), std::string_view("bert"), std::string_view("t5"),
                              std::string_view("vit")};

// As for inline models (read_model.cpp): no count of parameters overflows.
Range range_of(std::int64_t ModelSpec::*member) {
  if (member == &M::hidden) return {1, 1e6};
  if (member == &M::ffn_hidden) return {1, 1e7};
  if (member == &M::vocabulary || member == &M::positions) return {1, 1e8};
  return {1, 1e4};
}

const Family* find_family(Reader& reader, const YamlNode& config, const std::string& key) {
  std::vector<std::string> known;
  for (const Family& family : kFamilies) known.emplace_back(family.model_type);
  const YamlEntry* type = config.find("model_type");
  if (type == nullptr || !type->value.is_scalar()) {
    reader.problem(config.place, key, "model_type is missing: this is no Hugging Face config.json",
                   fmt::format("known: {}", join(known)));
    return nullptr;
  }
  for (const Family& family : kFamilies) {
    if (family.model_type == type->value.text) return &family;
  }
  for (const std::string_view refused : kRefused) {
    if (refused == type->value.text) {
      reader.problem(type->value.place, key,
                     fmt::format("models of type {} are not simulated by this version", refused),
                     "decoder transformers of these types are: " + join(known));
      return nullptr;
    }
  }
  const std::string nearest = nearest_name(type->value.text.substr(0, 64), known);
  reader.problem(type->value.place, key, fmt::format("unknown model_type {}", in_quotes(type->value.text)),
                 nearest.empty() ? fmt::format("known: {}", join(known)) : fmt::format("did you mean {}?", nearest));
  return nullptr;
}

// Our name of the field that a size key fills, for locating later problems ("model.kv_heads").
std::string_view field_name(std::int64_t ModelSpec::*member) {
  constexpr std::pair<std::string_view, std::int64_t ModelSpec::*> kNames[] = {
      {"layers", &M::layers},         {"hidden", &M::hidden},       {"heads", &M::heads},
      {"kv_heads", &M::kv_heads},     {"head_dim", &M::head_dim},   {"ffn_hidden", &M::ffn_hidden},
      {"vocabulary", &M::vocabulary}, {"positions", &M::positions},
  };
  for (const auto& [name, field] : kNames) {
    if (field == member) return name;
  }
  return "";
}

void read_sizes(Reader& reader, const YamlNode& config, const std::string& key, const Family& family, ModelSpec& model,
                std::set<std::string, std::less<>>& used) {
  for (const SizeKey& size : family.sizes) {
    if (size.name.empty()) continue;
    const YamlEntry* entry = config.find(size.name);
    if (entry == nullptr || entry->value.is_null()) {
      if (entry != nullptr) used.insert(entry->key);
      if (size.required)
        report_missing_key(reader, config, "", size.name,
                           fmt::format("every config of type {} has it", family.model_type));
      continue;
    }
    used.insert(entry->key);
    reader.locate(child_key(key, field_name(size.member)), entry->value.place);
    if (model.*size.member == 0)
      read_integer(reader, entry->value, entry->key, range_of(size.member), model.*size.member);
  }
}

void read_flags(Reader& reader, const YamlNode& config, const Family& family, ModelSpec& model,
                std::set<std::string, std::less<>>& used) {
  model.position = family.position;
  model.norm = family.norm;
  model.gated_mlp = family.gated_mlp;
  model.tied_embeddings = family.tied_embeddings;
  model.attention_bias = family.attention_bias;
  model.mlp_bias = family.mlp_bias;
  model.embedding_norm = family.embedding_norm;
  model.qk_norm = family.qk_norm;
  model.router_fp32 = family.router_fp32;
  for (const FlagKey& flag : family.flags) {
    if (flag.name.empty()) continue;
    const YamlEntry* entry = config.find(flag.name);
    if (entry == nullptr || entry->value.is_null()) {
      if (flag.inverted) model.*flag.member = true;
      continue;
    }
    used.insert(entry->key);
    bool value = false;
    if (read_boolean(reader, entry->value, entry->key, value)) model.*flag.member = value != flag.inverted;
  }
}

// Experts and latent attention. Keys that are null or zero leave the default.
void read_experts(Reader& reader, const YamlNode& config, const Family& family, ModelSpec& model,
                  std::set<std::string, std::less<>>& used) {
  if (!family.has_experts) return;
  for (const SizeKey& size : kExpertKeys) {
    const YamlEntry* entry = config.find(size.name);
    if (entry == nullptr) continue;
    used.insert(entry->key);
    std::int64_t value = 0;
    if (entry->value.is_null() || !read_integer(reader, entry->value, entry->key, Range{0, 1e7}, value)) continue;
    if (value > 0) model.*size.member = value;
  }
  if (model.latent()) {
    model.head_dim = model.v_head_dim;
    model.kv_heads = model.heads;
  }
}

// What only one family has.
void read_special(Reader& reader, const YamlNode& config, const Family& family, ModelSpec& model,
                  std::set<std::string, std::less<>>& used) {
  if (family.model_type != "mpt") return;
  std::int64_t ratio = 4;
  if (const YamlEntry* entry = config.find("expansion_ratio")) {
    used.insert(entry->key);
    read_integer(reader, entry->value, entry->key, Range{1, 1024}, ratio);
  }
  model.ffn_hidden = ratio * model.hidden;
  const YamlEntry* attention = config.find("attn_config");
  if (attention == nullptr || !attention->value.is_map()) return;
  used.insert(attention->key);
  bool alibi = false;
  const YamlEntry* entry = attention->value.find("alibi");
  if (entry != nullptr && read_boolean(reader, entry->value, "alibi", alibi) && alibi) {
    model.position = PositionKind::alibi;
  }
}

void remark_on_ignored(Reader& reader, const YamlNode& config, const std::set<std::string, std::less<>>& used) {
  constexpr std::size_t kShown = 40;
  std::vector<std::string> ignored;
  for (const YamlEntry& entry : config.entries) {
    if (entry.key != "model_type" && !used.contains(entry.key)) ignored.push_back(entry.key.substr(0, 60));
  }
  if (ignored.empty()) return;
  const std::size_t more = ignored.size() > kShown ? ignored.size() - kShown : 0;
  ignored.resize(ignored.size() - more);
  reader.remark(fmt::format("{}: ignored keys: {}{}", config.place.location().file, join(ignored),
                            more > 0 ? fmt::format(" and {} more", more) : ""));
}

}  // namespace

bool read_hugging_face(Reader& reader, const YamlNode& config, const std::string& key, ModelSpec& model) {
  if (!expect_map(reader, config, "a config.json", "{\"model_type\": \"llama\", ...}")) return false;
  const Family* family = find_family(reader, config, key);
  if (family == nullptr) return false;
  const std::size_t before = reader.problems().size();
  std::set<std::string, std::less<>> used;
  read_sizes(reader, config, key, *family, model, used);
  read_flags(reader, config, *family, model, used);
  read_experts(reader, config, *family, model, used);
  read_special(reader, config, *family, model, used);
  for (const std::string_view size : {"layers", "hidden", "heads"}) {
    const std::int64_t value = size == "layers" ? model.layers : size == "hidden" ? model.hidden : model.heads;
    if (value == 0 && reader.problems().size() == before) {
      reader.problem(config.place, key, fmt::format("no key of this file gives the model's {}", size));
    }
  }
  if (reader.problems().size() != before) return false;
  fill_in_sizes(model);
  remark_on_ignored(reader, config, used);
  if (!family->note.empty()) reader.remark(fmt::format("{}: {}", config.place.location().file, family->note));
  return true;
}

}  // namespace orrery
