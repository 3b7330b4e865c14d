// Models: the catalogue's files, a Hugging Face config.json by path, and models that a scenario describes itself.
//
// An inline model has the keys and defaults of a catalogue file (workloads/models/README.md); beyond these its
// vocabulary may be left out (GPT-2's 50,257) and its positions (the training's sequence length). {base: llama2-7b,
// layers: 8} changes a model instead, and {parameters: 5e8} asks for a member of GPT-3's family of that size
// (model_size.cpp): LayerNorm, learned positions, tied embeddings and biases, where the map does not say otherwise.
//
// `kind` says which keys a model has: those of a decoder transformer where it is left out, of a vit, or of a resnet.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "scenarios/model_defaults.hpp"
#include "scenarios/named.hpp"
#include "scenarios/readers.hpp"

namespace orrery {

namespace {

namespace fs = std::filesystem;

// Far beyond any model, and small enough that no count of parameters overflows.
constexpr Range kLayers{1, 1e4};
constexpr Range kHidden{1, 1e6};
constexpr Range kInner{1, 1e7};
constexpr Range kHeads{1, 1e4};
constexpr Range kHeadWidth{1, 1e4};
constexpr Range kVocabulary{1, 1e8};
constexpr Range kPositions{1, 1e8};
constexpr Range kParameters{1e5, 1e15};
constexpr Range kExperts{0, 1e5};
constexpr Range kRank{0, 1e5};
constexpr Range kImageSize{1, 1e5};
constexpr Range kChannels{1, 1e4};

constexpr std::array<std::string_view, 3> kKindNames{"decoder", "vit", "resnet"};
constexpr std::array<std::string_view, 4> kPositionNames{"learned", "rotary", "alibi", "none"};
constexpr std::array<std::string_view, 2> kNormNames{"layer_norm", "rms_norm"};

void read_kind(Reader& reader, const YamlNode& node, const std::string& key, ModelSpec& model) {
  const int index = read_one_of(reader, node, key, kKindNames);
  if (index >= 0) model.kind = static_cast<ModelKind>(index);
}

void read_blocks_of_stages(Reader& reader, const YamlNode& node, const std::string& key, ModelSpec& model) {
  if (!expect_list(reader, node, key, "blocks: [3, 4, 6, 3]")) return;
  model.blocks.clear();
  model.layers = 0;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const std::string path = child_key(key, i);
    reader.locate(path, node.items[i].place);
    std::int64_t blocks = 0;
    if (!read_integer(reader, node.items[i], path, kLayers, blocks)) continue;
    model.blocks.push_back(blocks);
    model.layers += blocks;
  }
}

void read_position(Reader& reader, const YamlNode& node, const std::string& key, ModelSpec& model) {
  const int index = read_one_of(reader, node, key, kPositionNames);
  if (index >= 0) model.position = static_cast<PositionKind>(index);
}

void read_norm(Reader& reader, const YamlNode& node, const std::string& key, ModelSpec& model) {
  const int index = read_one_of(reader, node, key, kNormNames);
  if (index >= 0) model.norm = static_cast<NormKind>(index);
}

void read_low_rank_targets(Reader& reader, const YamlNode& node, const std::string& key, ModelSpec& model) {
  read_targets(reader, node, key, model.low_rank_targets);
}

using ModelRow = FieldRow<ModelSpec>;
constexpr std::array kLowRankRows{
    ModelRow{"rank", &ModelSpec::low_rank, Range{1, 1e5}, "inner width of the two matrices", true},
    ModelRow{"targets",
             &read_low_rank_targets,
             {},
             "which matrices are two: all-linear, attention, mlp, or a list of q, k, v, o, gate, up, down",
             true},
};

void read_low_rank(Reader& reader, const YamlNode& node, const std::string& key, ModelSpec& model) {
  if (!expect_map(reader, node, key, "low_rank: {rank: 256, targets: mlp}")) return;
  read_fields<ModelSpec>(reader, node, key, kLowRankRows, model);
}

constexpr ModelRow kKindRow{
    "kind", &read_kind, {}, "decoder (a transformer over text), vit or resnet; default: decoder"};
constexpr std::array kModelRows{
    kKindRow,
    ModelRow{"layers", &ModelSpec::layers, kLayers, "transformer blocks", true},
    ModelRow{"hidden", &ModelSpec::hidden, kHidden, "width of the residual stream", true},
    ModelRow{"heads", &ModelSpec::heads, kHeads, "attention heads", true},
    ModelRow{"kv_heads", &ModelSpec::kv_heads, kHeads, "key and value heads (grouped-query attention); default: heads"},
    ModelRow{"head_dim", &ModelSpec::head_dim, kHeadWidth, "width of one head; default: hidden / heads"},
    ModelRow{"ffn_hidden", &ModelSpec::ffn_hidden, kInner, "inner width of the MLP; default: 4 x hidden"},
    ModelRow{"gated_mlp", &ModelSpec::gated_mlp, {}, "three matrices (SwiGLU) in place of two"},
    ModelRow{"vocabulary", &ModelSpec::vocabulary, kVocabulary, "rows of the embedding; default: 50257"},
    ModelRow{
        "positions", &ModelSpec::positions, kPositions,
        "rows of a learned position table, or the longest sequence; default: training.sequence_length (by size: at "
        "least 2048)"},
    ModelRow{"position", &read_position, {}, "position encoding: learned, rotary, alibi or none; default: rotary"},
    ModelRow{"norm", &read_norm, {}, "layer_norm or rms_norm; default: rms_norm"},
    ModelRow{"norm_bias", &ModelSpec::norm_bias, {}, "LayerNorm has a bias beside its weight; default: true"},
    ModelRow{"tied_embeddings", &ModelSpec::tied_embeddings, {}, "the head shares the embedding; default: false"},
    ModelRow{"attention_bias", &ModelSpec::attention_bias, {}, "biases in attention; default: false"},
    ModelRow{"mlp_bias", &ModelSpec::mlp_bias, {}, "biases in the MLP; default: false"},
    ModelRow{"embedding_norm", &ModelSpec::embedding_norm, {}, "a norm after the embedding (BLOOM)"},
    ModelRow{"qk_norm", &ModelSpec::qk_norm, {}, "a norm over each head's queries and keys (Qwen 3)"},
    ModelRow{"experts", &ModelSpec::experts, kExperts, "routed experts of a layer; default: 0, dense layers"},
    ModelRow{"top_k", &ModelSpec::top_k, kExperts, "experts that each token goes to"},
    ModelRow{"expert_ffn_hidden", &ModelSpec::expert_ffn_hidden, kInner,
             "inner width of one expert; default: ffn_hidden"},
    ModelRow{"shared_experts", &ModelSpec::shared_experts, kExperts, "experts that every token goes to; default: 0"},
    ModelRow{"dense_layers", &ModelSpec::dense_layers, kExperts, "first layers, that have no experts; default: 0"},
    ModelRow{"moe_every", &ModelSpec::moe_every, kLayers,
             "behind them, layers whose number is a multiple of this have experts; default: 1"},
    ModelRow{"expert_groups", &ModelSpec::expert_groups, kHeads, "groups that experts lie in; default: 1"},
    ModelRow{"groups_per_token", &ModelSpec::groups_per_token, kHeads,
             "groups that a token's experts may lie in; default: 1"},
    ModelRow{"router_fp32", &ModelSpec::router_fp32, {}, "the router computes in fp32; default: false"},
    ModelRow{"kv_lora_rank", &ModelSpec::kv_lora_rank, kRank,
             "rank of keys and values under latent attention (DeepSeek); default: 0, plain attention"},
    ModelRow{"q_lora_rank", &ModelSpec::q_lora_rank, kRank, "the same of queries; default: 0, a plain projection"},
    ModelRow{"qk_nope_head_dim", &ModelSpec::qk_nope_head_dim, kRank,
             "latent attention: width of a head's query and key without positions"},
    ModelRow{"qk_rope_head_dim", &ModelSpec::qk_rope_head_dim, kRank, "and of their rotated part"},
    ModelRow{"v_head_dim", &ModelSpec::v_head_dim, kRank, "and of its values"},
    ModelRow{"low_rank", &read_low_rank, {}, "matrices that are products of two thin ones: {rank: 256, targets: mlp}"},
    ModelRow{
        "layer_groups", &ModelSpec::layer_groups, kLayers,
        "blocks with weights of their own; layers of a group share one (ALBERT); default: every layer has its own"},
};

constexpr ModelRow kImageSizeRow{"image_size", &ModelSpec::image_size, kImageSize,
                                 "pixels a side of the images; default: 224"};
constexpr ModelRow kChannelsRow{"channels", &ModelSpec::channels, kChannels, "colours of a pixel; default: 3"};
constexpr ModelRow kClassesRow{"classes", &ModelSpec::classes, kVocabulary,
                               "that images are sorted into; default: 1000"};

constexpr std::array kVitRows{
    kKindRow,
    ModelRow{"layers", &ModelSpec::layers, kLayers, "encoder blocks", true},
    ModelRow{"hidden", &ModelSpec::hidden, kHidden, "width of the residual stream", true},
    ModelRow{"heads", &ModelSpec::heads, kHeads, "attention heads", true},
    ModelRow{"ffn_hidden", &ModelSpec::ffn_hidden, kInner, "inner width of the MLP; default: 4 x hidden"},
    ModelRow{"patch", &ModelSpec::patch, kImageSize, "vit: pixels a side of a patch; default: 16"},
    ModelRow{"class_token",
             &ModelSpec::class_token,
             {},
             "vit: the head reads a token of its own, not the mean over all; default: true"},
    kImageSizeRow,
    kChannelsRow,
    kClassesRow,
};

constexpr std::array kResnetRows{
    kKindRow,
    ModelRow{"blocks", &read_blocks_of_stages, {}, "resnet: bottleneck blocks of each stage", true},
    ModelRow{"width", &ModelSpec::width, kHidden,
             "resnet: channels of the stem and of the first stage's 3 x 3 convolutions; default: 64"},
    kImageSizeRow,
    kChannelsRow,
    kClassesRow,
};

std::span<const ModelRow> rows_of(ModelKind kind) {
  if (kind == ModelKind::vit) return kVitRows;
  if (kind == ModelKind::resnet) return kResnetRows;
  return kModelRows;
}

// Sets the kind that a map gives, if any, and what such models are where nothing says otherwise. It is read again with
// the rest, and problems are reported then.
void begin_kind(Reader& reader, const YamlNode& map, ModelSpec& model) {
  const YamlEntry* kind = map.find("kind");
  if (kind == nullptr || !kind->value.is_scalar()) return;
  Reader silent(reader.catalog());
  read_kind(silent, kind->value, "kind", model);
  if (model.kind != ModelKind::vit) return;
  model.position = PositionKind::none;  // learned ones are added before the layers
  model.norm = NormKind::layer_norm;
  model.attention_bias = true;
  model.mlp_bias = true;
}

// What a model of GPT-3's family is where it is not said otherwise (Brown et al. 2020, section 2.1; GPT-2's code).
ModelSpec gpt_like() {
  ModelSpec model;
  model.position = PositionKind::learned;
  model.norm = NormKind::layer_norm;
  model.tied_embeddings = true;
  model.attention_bias = true;
  model.mlp_bias = true;
  return model;
}

bool is_path(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".json") || text.starts_with(".");
}

bool read_config_file(Reader& reader, const YamlNode& name, const std::string& key, ModelSpec& model) {
  fs::path path(name.text);
  if (path.is_relative()) path = fs::path(name.place.folder()) / path;
  std::error_code error;
  if (fs::is_directory(path, error)) path /= "config.json";
  const std::string file = path.lexically_normal().string();
  const auto text = read_text_file(file, name.place.location());
  if (!text) {
    for (Problem problem : text.problems()) reader.problem(name.place, key, problem.message, problem.note);
    return false;
  }
  const auto origin = std::make_shared<const YamlOrigin>(YamlOrigin{file, fs::path(file).parent_path().string()});
  const auto config = parse_yaml(*text, origin);
  if (!config) {
    reader.add(config.problems());
    return false;
  }
  model.source = file;
  model.name = fs::path(file).parent_path().filename().string();
  return read_hugging_face(reader, *config, key, model);
}

// The catalogue's entry, or the config.json, that `name` stands for.
bool read_by_name(Reader& reader, const YamlNode& name, const std::string& key, ModelSpec& model) {
  reader.locate(key, name.place);
  if (name.is_scalar() && is_path(name.text)) return read_config_file(reader, name, key, model);
  return look_up<ModelSpec>(reader, name, key, &Catalog::model, model);
}

bool read_target_size(Reader& reader, const YamlNode& map, const std::string& key, ModelSpec& model) {
  const YamlEntry* entry = map.find("parameters");
  if (entry == nullptr) return true;
  const std::string target_key = child_key(key, "parameters");
  double target = 0;
  if (!read_number(reader, entry->value, target_key, Dimension::parameters, kParameters, target)) return false;
  const auto count = static_cast<std::int64_t>(target);
  if (!choose_shape(count, model)) {
    reader.problem(
        entry->value.place, target_key,
        fmt::format("no shape with the sizes given here has about {} parameters", entry->value.text),
        "leave out layers, hidden or heads, or give all three in place of parameters; a small model needs a small "
        "vocabulary");
    return false;
  }
  reader.remark(fmt::format("model of {:.4g} parameters: {} layers, hidden size {}, {} heads ({:.4g} parameters)",
                            target, model.layers, model.hidden, model.heads, static_cast<double>(parameters(model))));
  return true;
}

bool read_inline(Reader& reader, const YamlNode& map, const std::string& key, std::int64_t sequence_length,
                 ModelSpec& model) {
  constexpr std::string_view kOwn[] = {"name", "source", kBaseKey, "parameters"};
  const std::size_t before = reader.problems().size();
  const bool sized = map.find("parameters") != nullptr;
  model = sized ? gpt_like() : ModelSpec{};
  begin_kind(reader, map, model);
  if (model.images() && sized) {
    reader.problem(map.find("parameters")->key_place, child_key(key, "parameters"),
                   "an image model is not chosen by its size", "give its layers (blocks), hidden, heads or width");
    return false;
  }
  read_fields<ModelSpec>(reader, map, key, rows_of(model.kind), model, !sized, kOwn);
  if (reader.problems().size() != before) return false;
  // A member of a family has its family's positions, or more where the training needs them.
  if (model.positions == 0 && !model.images())
    model.positions = sized ? std::max(kDefaultPositions, sequence_length) : sequence_length;
  if (!read_target_size(reader, map, key, model)) return false;
  fill_in_sizes(model);
  model.name = "inline";
  model.source = "the scenario";
  return true;
}

bool read_changes(Reader& reader, const YamlNode& map, const std::string& key, ModelSpec& model) {
  constexpr std::string_view kOwn[] = {"name", "source", kBaseKey};
  if (!read_by_name(reader, map.find(kBaseKey)->value, child_key(key, kBaseKey), model)) return false;
  const ModelSpec base = model;
  const std::size_t before = reader.problems().size();
  read_fields<ModelSpec>(reader, map, key, rows_of(model.kind), model, false, kOwn);
  if (model.kind != base.kind) {
    reader.problem(map.find("kind")->value.place, child_key(key, "kind"),
                   "a change of a model cannot make another kind of it", "leave it out");
    return false;
  }
  // What the base had derived follows the new sizes, unless it was given too.
  const auto given = [&](std::string_view name) { return map.find(name) != nullptr; };
  if (base.kv_heads == base.heads && !given("kv_heads")) model.kv_heads = model.heads;
  if (base.head_dim * base.heads == base.hidden && !given("head_dim") && model.heads > 0) {
    model.head_dim = model.hidden / model.heads;
  }
  if (base.ffn_hidden == 4 * base.hidden && !given("ffn_hidden")) model.ffn_hidden = 4 * model.hidden;
  return reader.problems().size() == before;
}

}  // namespace

void read_model_entry(Reader& reader, const YamlNode& root, ModelSpec& model) {
  const std::size_t before = reader.problems().size();
  begin_kind(reader, root, model);
  read_fields<ModelSpec>(reader, root, "", rows_of(model.kind), model, true, kSourceKeys);
  for (const std::string_view name : {"vocabulary", "positions"}) {
    if (!model.images() && root.find(name) == nullptr)
      report_missing_key(reader, root, "", name, find_row<ModelSpec>(kModelRows, name)->doc);
  }
  fill_in_sizes(model);
  if (reader.problems().size() != before) return;
  for (Problem problem : check(model)) {
    if (problem.key.starts_with("model.")) problem.key.erase(0, 6);
    reader.problem(reader.place_of(problem.key), problem.key, problem.message, problem.note);
  }
}

bool read_model(Reader& reader, const YamlNode& node, const std::string& key, std::int64_t sequence_length,
                ModelSpec& model) {
  reader.locate(key, node.place);
  bool good = false;
  if (node.is_scalar()) {
    good = read_by_name(reader, node, key, model);
  } else if (!node.is_map()) {
    reader.problem(node.place, key, fmt::format("{} must be a name, a path or a map, not {}", key, describe(node)),
                   "write it as in model: gpt3-175b");
    return false;
  } else if (node.find(kBaseKey) != nullptr) {
    good = read_changes(reader, node, key, model);
  } else {
    good = read_inline(reader, node, key, sequence_length, model);
  }
  if (node.is_map()) {
    if (const YamlEntry* name = node.find("name")) {
      good = read_text(reader, name->value, child_key(key, "name"), model.name) && good;
    }
  }
  return good;
}

void append_model_docs(std::vector<KeyDoc>& docs, const std::string& prefix) {
  append_docs<ModelSpec>(docs, prefix, kModelRows);
  for (const std::span<const ModelRow> rows :
       {std::span<const ModelRow>(kVitRows), std::span<const ModelRow>(kResnetRows)}) {
    std::vector<KeyDoc> more;
    append_docs<ModelSpec>(more, prefix, rows);
    for (KeyDoc& doc : more) {
      const auto same = [&](const KeyDoc& known) { return known.key == doc.key; };
      if (std::none_of(docs.begin(), docs.end(), same)) docs.push_back(std::move(doc));
    }
  }
  const MemberKind kind = number_kind(Dimension::parameters);
  docs.push_back({child_key(prefix, "parameters"), std::string(kind.name), std::string(kind.example),
                  "inline, in place of layers, hidden and heads: a shape of about this many parameters", false});
}

}  // namespace orrery
