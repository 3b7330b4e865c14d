#include "scenarios/import/write_scenario.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "scenarios/field.hpp"
#include "scenarios/text_check.hpp"

namespace orrery {

namespace {

constexpr std::size_t kLineMost = 110;
constexpr std::size_t kCommentColumn = 34;

// The order in which the README and people write a scenario; what else there is follows.
constexpr std::array<std::string_view, 9> kFirst{
    "name", "cluster", "model", "training", "parallelism", "sequence_length", "global_batch", "micro_batch", "kind"};

std::size_t rank_of(const std::string& key) {
  return static_cast<std::size_t>(std::find(kFirst.begin(), kFirst.end(), key) - kFirst.begin());
}

std::vector<const YamlEntry*> in_usual_order(const YamlNode& map) {
  std::vector<const YamlEntry*> entries;
  for (const YamlEntry& entry : map.entries) entries.push_back(&entry);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const YamlEntry* a, const YamlEntry* b) { return rank_of(a->key) < rank_of(b->key); });
  return entries;
}

// Without quotes a text must be no number, truth value or null by accident, and hold nothing that YAML gives a meaning.
bool is_plain(const std::string& text) {
  constexpr std::string_view kHarmless = "_./%+-";
  if (text.empty() || text.front() == ' ' || text.back() == ' ' || text.front() == '-' || text == "~") return false;
  if (text.front() == '%' || text.find(" #") != std::string::npos) return false;
  return std::all_of(text.begin(), text.end(), [&](char c) {
    return c == ' ' || std::isalnum(static_cast<unsigned char>(c)) != 0 || kHarmless.find(c) != std::string_view::npos;
  });
}

std::string scalar(const YamlNode& node) {
  constexpr std::array<std::string_view, 3> kNulls{"null", "Null", "NULL"};
  constexpr std::array<std::string_view, 6> kTruths{"true", "True", "TRUE", "false", "False", "FALSE"};
  const auto is_one_of = [&](const auto& words) {
    return std::find(words.begin(), words.end(), node.text) != words.end();
  };
  const bool another = is_one_of(kNulls) || (node.quoted && is_one_of(kTruths));
  return is_plain(node.text) && !another ? node.text : escaped_in_quotes(node.text);
}

std::string flow(const YamlNode& node) {
  std::string text;
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "~";
    case YamlNode::Kind::scalar:
      return scalar(node);
    case YamlNode::Kind::sequence:
      for (const YamlNode& item : node.items) text += (text.empty() ? "" : ", ") + flow(item);
      return "[" + text + "]";
    case YamlNode::Kind::map:
      // {kind: name} is what the name alone abbreviates.
      if (node.entries.size() == 1 && node.entries.front().key == "kind") return flow(node.entries.front().value);
      for (const YamlEntry* entry : in_usual_order(node)) {
        text += fmt::format("{}{}: {}", text.empty() ? "" : ", ",
                            scalar({YamlNode::Kind::scalar, false, entry->key, {}, {}, {}}), flow(entry->value));
      }
      return "{" + text + "}";
  }
  return text;
}

class Writer {
 public:
  explicit Writer(const std::function<std::string(const std::string&)>& comment_of) : comment_of_(comment_of) {}

  void map(const YamlNode& node, const std::string& key, std::size_t depth) {
    for (const YamlEntry* entry : in_usual_order(node)) {
      const std::string path = child_key(key, entry->key);
      const std::string name =
          std::string(2 * depth, ' ') + scalar({YamlNode::Kind::scalar, false, entry->key, {}, {}, {}}) + ":";
      const std::string value = flow(entry->value);
      const bool block = entry->value.is_map() && !entry->value.entries.empty() && value.front() == '{' &&
                         (depth == 0 || name.size() + value.size() > kLineMost);
      line(block ? name : name + " " + value, comment(path, entry->value, block));
      if (block) map(entry->value, path, depth + 1);
    }
  }

  std::string text;

 private:
  // That of the key, or of the choice that a map on one line makes.
  std::string comment(const std::string& path, const YamlNode& value, bool block) const {
    if (block) return "";
    std::string found = comment_of_(path);
    if (found.empty() && value.is_map()) found = comment_of_(path + ".kind");
    return found;
  }

  void line(const std::string& words, const std::string& remark) {
    text += words;
    if (!remark.empty())
      text += fmt::format("{:>{}}# {}", "", std::max(words.size() + 2, kCommentColumn) - words.size(), remark);
    text += '\n';
  }

  const std::function<std::string(const std::string&)>& comment_of_;
};

}  // namespace

std::string write_scenario(const YamlNode& root, const std::string& head,
                           const std::function<std::string(const std::string& key)>& comment_of) {
  std::string text;
  for (std::size_t at = 0; at < head.size();) {
    const std::size_t end = std::min(head.find('\n', at), head.size());
    text += "# " + head.substr(at, end - at) + "\n";
    at = end + 1;
  }
  Writer writer(comment_of);
  writer.map(root, "", 0);
  return text + writer.text;
}

}  // namespace orrery
