#include "scenarios/tree.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <optional>
#include <utility>

#include "sim/base/text.hpp"

namespace orrery {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kIncludesMax = 64;  // files of one scenario
constexpr std::size_t kPathStepsMax = 32;

// Keys whose value may be a name alone, and the key of the name when it is written as a map.
struct Abbreviation {
  std::string_view key;
  std::string_view name_key;
};
constexpr std::array kAbbreviations{
    Abbreviation{"model", "base"},    Abbreviation{"node", "base"},      Abbreviation{"gpu", "base"},
    Abbreviation{"nic", "base"},      Abbreviation{"nvlink", "base"},    Abbreviation{"pcie", "base"},
    Abbreviation{"link", "base"},     Abbreviation{"framework", "base"}, Abbreviation{"socket_link", "base"},
    Abbreviation{"schedule", "kind"}, Abbreviation{"sharding", "kind"},  Abbreviation{"optimizer", "kind"},
    Abbreviation{"fabric", "kind"},
};

class IncludeResolver {
 public:
  // The tree of `root` with its includes beneath it.
  YamlNode resolve(YamlNode root) {
    const YamlEntry* include = root.find("include");
    if (include == nullptr) return root;
    const YamlNode value = include->value;
    const YamlPlace at = include->key_place;
    std::erase_if(root.entries, [](const YamlEntry& entry) { return entry.key == "include"; });
    YamlNode base = empty_map(root.place);
    if (value.is_scalar()) {
      base = merge(std::move(base), read(value));
    } else if (value.is_sequence()) {
      for (const YamlNode& item : value.items) base = merge(std::move(base), read(item));
    } else {
      report(at, fmt::format("include must be a file name or a list of them, not {}", describe(value)),
             "write it as in include: base.yaml");
    }
    return merge(std::move(base), std::move(root));
  }

  void enter(const std::string& file) { chain_.push_back(file); }

  Problems problems;

 private:
  void report(const YamlPlace& at, std::string message, std::string note) {
    problems.push_back({"include", std::move(message), std::move(note), at.location()});
  }

  static YamlNode empty_map(const YamlPlace& place) {
    YamlNode node;
    node.kind = YamlNode::Kind::map;
    node.place = place;
    return node;
  }

  static std::string path_of(const YamlNode& name) {
    const fs::path path(name.text);
    return (path.is_absolute() ? path : fs::path(name.place.folder()) / path).lexically_normal().string();
  }

  YamlNode read(const YamlNode& name) {
    if (!name.is_scalar() || name.text.empty()) {
      report(name.place, fmt::format("include must name a file, not {}", describe(name)),
             "write it as in include: base.yaml");
      return empty_map(name.place);
    }
    const std::string path = path_of(name);
    if (std::find(chain_.begin(), chain_.end(), path) != chain_.end()) {
      std::vector<std::string> chain = chain_;
      chain.push_back(path);
      report(name.place, "include leads back to a file that is being read", join(chain, " -> "));
      return empty_map(name.place);
    }
    if (++files_ > kIncludesMax) {
      if (files_ == kIncludesMax + 1)
        report(name.place, fmt::format("more than {} files are included", kIncludesMax), "");
      return empty_map(name.place);
    }
    return read_file(path, name.place);
  }

  YamlNode read_file(const std::string& path, const YamlPlace& at) {
    const auto add = [&](const Problems& found) { problems.insert(problems.end(), found.begin(), found.end()); };
    const auto text = read_text_file(path, at.location());
    if (!text) {
      add(text.problems());
      return empty_map(at);
    }
    const auto origin = std::make_shared<const YamlOrigin>(YamlOrigin{path, fs::path(path).parent_path().string()});
    auto tree = parse_yaml(*text, origin);
    if (!tree) {
      add(tree.problems());
      return empty_map(at);
    }
    if (!tree->is_map()) {
      report(tree->place, fmt::format("a scenario must be a map, not {}", describe(*tree)), "");
      return empty_map(at);
    }
    chain_.push_back(path);
    YamlNode resolved = resolve(std::move(tree).value());
    chain_.pop_back();
    return resolved;
  }

  std::vector<std::string> chain_;  // the files being read, outermost first
  std::size_t files_ = 0;
};

// "a.b[2].c" -> a, b, 2, c; nothing when it is no key.
std::optional<std::vector<std::string>> steps_of(const std::string& key) {
  std::vector<std::string> steps(1);
  for (const char c : key) {
    if (c == ']') continue;
    if (c == '.' || c == '[') {
      steps.emplace_back();
    } else {
      steps.back() += c;
    }
  }
  const bool empty_step = std::any_of(steps.begin(), steps.end(), [](const std::string& s) { return s.empty(); });
  if (empty_step || steps.size() > kPathStepsMax) return std::nullopt;
  return steps;
}

std::optional<std::size_t> index_of(const std::string& step) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(step.data(), step.data() + step.size(), index);
  if (error != std::errc() || end != step.data() + step.size()) return std::nullopt;
  return index;
}

// Turns a name into the map that it abbreviates, where `step` is such a key.
bool expand_abbreviation(YamlNode& node, std::string_view step) {
  for (const Abbreviation& abbreviation : kAbbreviations) {
    if (abbreviation.key != step) continue;
    YamlNode map;
    map.kind = YamlNode::Kind::map;
    map.place = node.place;
    map.entries.push_back({std::string(abbreviation.name_key), node.place, node});
    node = std::move(map);
    return true;
  }
  return false;
}

}  // namespace

Result<YamlNode> resolve_includes(YamlNode root) {
  IncludeResolver resolver;
  if (root.place.origin != nullptr) {
    resolver.enter(fs::path(root.place.origin->name).lexically_normal().string());
  }
  YamlNode resolved = resolver.resolve(std::move(root));
  if (!resolver.problems.empty()) return resolver.problems;
  return resolved;
}

YamlNode merge(YamlNode base, YamlNode over) {
  if (!base.is_map() || !over.is_map()) return over;
  base.place = over.place;
  for (YamlEntry& entry : over.entries) {
    if (YamlEntry* beneath = base.find(entry.key)) {
      beneath->value = merge(std::move(beneath->value), std::move(entry.value));
      beneath->key_place = entry.key_place;
    } else {
      base.entries.push_back(std::move(entry));
    }
  }
  return base;
}

Problems set_value(YamlNode& root, const std::string& key, const YamlNode& value, const YamlPlace& key_place) {
  const auto wrong = [&](std::string message, std::string note) {
    return Problems{{"", std::move(message), std::move(note), key_place.location()}};
  };
  const auto steps = steps_of(key);
  if (!steps) return wrong(fmt::format("{} is not a key", in_quotes(key)), "write it as in parallelism.tensor=8");
  YamlNode* node = &root;
  std::string walked;
  for (const std::string& step : *steps) {
    const auto index = index_of(step);
    if (node->is_null()) node->kind = index ? YamlNode::Kind::sequence : YamlNode::Kind::map;
    if (node->is_sequence()) {
      if (!index || *index > node->items.size()) {
        return wrong(
            fmt::format("{} has no item {}", walked, in_quotes(step)),
            fmt::format("it is a list of {}, counted from 0; [{}] adds to it", node->items.size(), node->items.size()));
      }
      if (*index == node->items.size()) node->items.emplace_back().place = key_place;
      node = &node->items[*index];
    } else {
      if (node->is_scalar()) {
        const std::string last = walked.substr(walked.find_last_of('.') + 1);
        if (!expand_abbreviation(*node, last)) {
          return wrong(fmt::format("{} is a single value and has no key {}", walked, in_quotes(step)), "");
        }
      }
      if (node->find(step) == nullptr) node->entries.push_back({step, key_place, YamlNode{}});
      YamlEntry& entry = *node->find(step);
      entry.key_place = key_place;
      node = &entry.value;
      if (node->place.origin == nullptr) node->place = key_place;
    }
    walked += (walked.empty() ? "" : ".") + step;
  }
  *node = value;
  return {};
}

const YamlNode* find_value(const YamlNode& root, const std::string& key) {
  const auto steps = steps_of(key);
  if (!steps) return nullptr;
  const YamlNode* node = &root;
  for (const std::string& step : *steps) {
    if (node->is_sequence()) {
      const auto index = index_of(step);
      if (!index || *index >= node->items.size()) return nullptr;
      node = &node->items[*index];
    } else {
      const YamlEntry* entry = node->find(step);
      if (entry == nullptr) return nullptr;
      node = &entry->value;
    }
  }
  return node;
}

namespace {

// An option of the command line has no lines, and a setting is shown by its own: every place in it is the whole.
void forget_lines(YamlNode& node) {
  node.place.line = node.place.column = 0;
  for (YamlNode& item : node.items) forget_lines(item);
  for (YamlEntry& entry : node.entries) {
    entry.key_place.line = entry.key_place.column = 0;
    forget_lines(entry.value);
  }
}

}  // namespace

Problems apply_overrides(YamlNode& root, const std::vector<Override>& overrides, const std::string& folder) {
  Problems problems;
  for (const Override& override_ : overrides) {
    const std::string option = fmt::format("--set {}={}", override_.key, override_.value);
    const auto origin =
        std::make_shared<const YamlOrigin>(YamlOrigin{override_.place.empty() ? option : override_.place, folder});
    auto value = parse_yaml(override_.value, origin);
    Problems found;
    if (override_.value.find_first_not_of(" \t\r\n") == std::string::npos) {
      found = {{"", fmt::format("{} has no value", in_quotes(override_.key)),
                "write it as in --set parallelism.tensor=8", SourceLocation{origin->name, 0, 0}}};
    } else if (!value) {
      found = value.problems();
      for (Problem& problem : found) problem.where.line = problem.where.column = 0;
    } else {
      forget_lines(value.value());
      found = set_value(root, override_.key, value.value(), YamlPlace{origin, 0, 0});
    }
    problems.insert(problems.end(), found.begin(), found.end());
  }
  return problems;
}

}  // namespace orrery
