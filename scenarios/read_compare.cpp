// Block `compare`: named variants of the scenario, each with the dotted keys that it sets.
//
//   compare:
//     base: tf32                                    # optional: what the scenario without changes is called
//     fp32: {training.precision: fp32}
//     bf16, recomputed: {training.precision: bf16, training.recompute: full}
//
// The same as a list, one variant an item. Values replace what the scenario has under the key, as --set does.
#include <fmt/format.h>

#include <algorithm>

#include "scenarios/readers.hpp"

namespace orrery {

namespace {

constexpr std::size_t kVariantsMax = 100;
constexpr std::string_view kExample = "compare: {base: tf32, half: {training.precision: bf16}}";

class CompareReader {
 public:
  CompareReader(Reader& reader, std::string& base, std::vector<LocatedVariant>& variants)
      : reader_(reader), base_(base), variants_(variants) {}

  void read(const YamlNode& node) {
    if (node.is_sequence()) {
      for (std::size_t i = 0; i < node.items.size(); ++i) {
        const std::string key = child_key("compare", i);
        if (is_map(node.items[i], key, "{half: {training.precision: bf16}}")) entries(node.items[i]);
      }
    } else if (is_map(node, "compare", kExample)) {
      entries(node);
    }
    if (variants_.empty() && sound_) {
      reader_.problem(node.place, "compare", "compare has no variants", fmt::format("write it as in {}", kExample));
    }
    for (const LocatedVariant& variant : variants_) {
      if (variant.variant.name == base_) repeated(base_, node.place);
    }
  }

 private:
  bool is_map(const YamlNode& node, const std::string& key, std::string_view example) {
    const bool map = expect_map(reader_, node, key, example);
    sound_ = sound_ && map;
    return map;
  }
  void wrong(const YamlPlace& place, const std::string& key, std::string message, std::string note) {
    reader_.problem(place, key, std::move(message), std::move(note));
    sound_ = false;
  }
  void repeated(const std::string& name, const YamlPlace& place) {
    wrong(place, "compare", fmt::format("two runs of the comparison are called {}", in_quotes(name)),
          "base: names the scenario itself; all names must differ");
  }

  void entries(const YamlNode& map) {
    for (const YamlEntry& entry : map.entries) {
      if (entry.key == "base" && !entry.value.is_map()) {
        sound_ = read_text(reader_, entry.value, "compare.base", base_) && sound_;
      } else {
        variant(entry);
      }
    }
  }

  void variant(const YamlEntry& entry) {
    const std::string key = child_key("compare", entry.key);
    const auto same = [&](const LocatedVariant& other) { return other.variant.name == entry.key; };
    if (entry.key.empty()) return wrong(entry.key_place, "compare", "a variant needs a name", "");
    if (std::any_of(variants_.begin(), variants_.end(), same)) return repeated(entry.key, entry.key_place);
    if (variants_.size() == kVariantsMax) {
      return wrong(entry.key_place, key, fmt::format("more than {} variants", kVariantsMax),
                   "sweep: runs many scenarios");
    }
    LocatedVariant found{{entry.key, {}}, {}};
    if (!entry.value.is_null() && !is_map(entry.value, key, "{training.precision: bf16}")) return;
    for (const YamlEntry& setting : entry.value.entries) add_setting(setting, key, found);
    variants_.push_back(std::move(found));
  }

  void add_setting(const YamlEntry& setting, const std::string& key, LocatedVariant& variant) {
    for (const std::string_view block : {"compare", "sweep"}) {
      if (setting.key != block && !setting.key.starts_with(fmt::format("{}.", block))) continue;
      return wrong(setting.key_place, key, fmt::format("{} is no key that a variant can set", in_quotes(setting.key)),
                   "write it as in training.precision: bf16");
    }
    if (setting.key.empty()) return wrong(setting.key_place, key, "a setting needs a key", "");
    const YamlPlace& at = setting.key_place;
    variant.variant.set.push_back(
        {setting.key, to_yaml_text(setting.value),
         at.line > 0 ? fmt::format("{}:{}:{}", at.origin->name, at.line, at.column) : std::string()});
    variant.settings.push_back({setting.key_place, setting.value});
  }

  Reader& reader_;
  std::string& base_;
  std::vector<LocatedVariant>& variants_;
  bool sound_ = true;
};

}  // namespace

void read_compare(Reader& reader, const YamlNode& node, std::string& base, std::vector<LocatedVariant>& variants) {
  CompareReader(reader, base, variants).read(node);
}

}  // namespace orrery
