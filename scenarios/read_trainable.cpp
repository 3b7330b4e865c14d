// What of a model is trained: `training.trainable`, `training.frozen`, `training.lora`; and the targets of low-rank
// matrices, which `model.low_rank` has too.
//
// `frozen` takes away from `trainable`, whose default is everything, or nothing beside adapters.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "scenarios/readers.hpp"

namespace orrery {

namespace {

constexpr Range kRank{1, 1e5};
constexpr std::array<std::string_view, 2> kBaseNames{"as-trained", "nf4"};

using LoraRow = FieldRow<LoraSpec>;

void read_base_format(Reader& reader, const YamlNode& node, const std::string& key, LoraSpec& lora) {
  lora.nf4 = read_one_of(reader, node, key, kBaseNames) == 1;
}

void read_lora_targets(Reader& reader, const YamlNode& node, const std::string& key, LoraSpec& lora) {
  read_targets(reader, node, key, lora.targets);
}

constexpr std::array kLoraRows{
    LoraRow{"rank", &LoraSpec::rank, kRank, "inner width of an adapter", true},
    LoraRow{"targets",
            &read_lora_targets,
            {},
            "matrices with an adapter: all-linear, attention, mlp, or a list of q, k, v, o, gate, up, down",
            true},
    LoraRow{"dropout", &LoraSpec::dropout, Range{0, 0.999}, "of an adapter's input; default: 0", false,
            Dimension::fraction},
    LoraRow{"base", &read_base_format, {}, "how frozen matrices of layers are held: as-trained, or nf4 (QLoRA)"},
};

// A text, or each of a list.
template <class Visit>
void each_text(Reader& reader, const YamlNode& node, const std::string& key, std::string_view example, Visit&& visit) {
  if (node.is_scalar()) {
    visit(node, key);
    return;
  }
  if (!expect_list(reader, node, key, example)) return;
  for (std::size_t i = 0; i < node.items.size(); ++i) {
    const std::string path = child_key(key, i);
    reader.locate(path, node.items[i].place);
    visit(node.items[i], path);
  }
}

void read_parts(Reader& reader, const YamlNode& node, const std::string& key, TrainedParts& parts) {
  constexpr std::array<std::string_view, 6> kNames{"embedding", "attention", "mlp", "norms", "head", "all"};
  parts = TrainedParts::none();
  each_text(reader, node, key, "trainable: [attention, norms]", [&](const YamlNode& item, const std::string& path) {
    const int index = read_one_of(reader, item, path, kNames);
    if (index == 5) parts = TrainedParts();
    if (index >= 0 && index < 5) parts.set(static_cast<Part>(index), true);
  });
}

// "layers 0-15", "layer 3".
std::optional<LayerRange> layer_range(std::string_view text) {
  if (!text.starts_with("layer")) return std::nullopt;
  text.remove_prefix(text.starts_with("layers") ? 6 : 5);
  while (text.starts_with(' ')) text.remove_prefix(1);
  LayerRange range;
  const char* end = text.data() + text.size();
  auto [next, error] = std::from_chars(text.data(), end, range.first);
  if (error != std::errc()) return std::nullopt;
  range.last = range.first;
  if (next == end) return range;
  if (*next != '-') return std::nullopt;
  const auto last = std::from_chars(next + 1, end, range.last);
  if (last.ec != std::errc() || last.ptr != end || range.first < 0 || range.last < range.first) return std::nullopt;
  return range;
}

void read_frozen(Reader& reader, const YamlNode& node, const std::string& key, TrainableSpec& trainable) {
  each_text(reader, node, key, "frozen: [embedding, layers 0-15]", [&](const YamlNode& item, const std::string& path) {
    if (item.is_scalar() && item.text.starts_with("layer")) {
      const std::optional<LayerRange> range = layer_range(item.text);
      if (range) {
        trainable.frozen_layers.push_back(*range);
      } else {
        reader.problem(item.place, path, fmt::format("{} is no range of layers", describe(item)),
                       "write it as layers 0-15, counted from 0, both included");
      }
      return;
    }
    constexpr std::array<std::string_view, 6> kNames{"embedding", "attention", "mlp", "norms", "head", "layers 0-15"};
    const int index = read_one_of(reader, item, path, kNames);
    if (index >= 0 && index < 5) trainable.parts.set(static_cast<Part>(index), false);
  });
}

const YamlNode* given(const YamlNode& map, std::string_view name) {
  const YamlEntry* entry = map.find(name);
  return entry == nullptr || entry->value.is_null() ? nullptr : &entry->value;
}

}  // namespace

void read_targets(Reader& reader, const YamlNode& node, const std::string& key, Targets& targets) {
  constexpr std::array<std::string_view, 10> kNames{"q",  "k",    "v",          "o",         "gate",
                                                    "up", "down", "all-linear", "attention", "mlp"};
  constexpr Target kAttention[] = {Target::q, Target::k, Target::v, Target::o};
  constexpr Target kMlp[] = {Target::gate, Target::up, Target::down};
  each_text(reader, node, key, "targets: [q, v]", [&](const YamlNode& item, const std::string& path) {
    const int index = read_one_of(reader, item, path, kNames);
    if (index >= 0 && index < 7) targets.add(static_cast<Target>(index));
    if (index == 7 || index == 8) {
      for (const Target target : kAttention) targets.add(target);
    }
    if (index == 7 || index == 9) {
      for (const Target target : kMlp) targets.add(target);
    }
  });
}

void read_trainable(Reader& reader, const YamlNode& map, const std::string& key, TrainableSpec& trainable) {
  if (const YamlNode* lora = given(map, "lora")) {
    const std::string path = child_key(key, "lora");
    if (expect_map(reader, *lora, path, "lora: {rank: 16, targets: attention}")) {
      read_fields<LoraSpec>(reader, *lora, path, kLoraRows, trainable.lora);
    }
    trainable.parts = TrainedParts::none();
  }
  if (const YamlNode* parts = given(map, "trainable")) {
    read_parts(reader, *parts, child_key(key, "trainable"), trainable.parts);
  }
  if (const YamlNode* frozen = given(map, "frozen")) {
    read_frozen(reader, *frozen, child_key(key, "frozen"), trainable);
  }
}

void read_distillation(Reader& reader, const YamlNode& map, const std::string& key, std::int64_t sequence_length,
                       ModelSpec& teacher) {
  const YamlNode* node = given(map, "distillation");
  if (node == nullptr) return;
  const std::string path = child_key(key, "distillation");
  if (!expect_map(reader, *node, path, "distillation: {teacher: llama2-13b}")) return;
  for (const YamlEntry& entry : node->entries) {
    if (entry.key == "teacher") continue;
    const std::vector<std::string> known{"teacher"};
    report_unknown_key(reader, entry, child_key(path, entry.key), known);
  }
  const YamlNode* model = given(*node, "teacher");
  if (model == nullptr) {
    report_missing_key(reader, *node, path, "teacher", "the model that is learnt from");
    return;
  }
  if (!read_model(reader, *model, child_key(path, "teacher"), sequence_length, teacher)) teacher = {};
}

void append_trainable_docs(std::vector<KeyDoc>& docs, const std::string& prefix) {
  docs.push_back({child_key(prefix, "trainable"), "", "",
                  "what is trained: all, or embedding, attention, mlp, norms, head, or a list; default: all, beside "
                  "adapters nothing",
                  false});
  docs.push_back({child_key(prefix, "frozen"), "", "",
                  "what of it is not: the same names, and ranges of layers such as layers 0-15 (counted from 0)",
                  false});
  docs.push_back({child_key(prefix, "distillation.teacher"), "", "",
                  "a model, as `model` is given, whose forward pass comes first and whose logits are learnt from",
                  false});
  append_docs<LoraSpec>(docs, child_key(prefix, "lora"), kLoraRows);
}

}  // namespace orrery
