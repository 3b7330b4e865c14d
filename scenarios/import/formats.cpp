#include "scenarios/import/formats.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "scenarios/text_check.hpp"
#include "sim/base/text.hpp"

namespace orrery {

namespace {

void add_leaves(const YamlNode& node, const std::string& key, const YamlPlace& place, std::vector<PlanEntry>& leaves) {
  if (!node.is_map() || node.entries.empty()) {
    leaves.push_back({key, node, place});
    return;
  }
  for (const YamlEntry& entry : node.entries)
    add_leaves(entry.value, child_key(key, entry.key), entry.key_place, leaves);
}

// What the first lines that say anything look like: a brace, a [table] or key = value, or a word that begins with --.
const ImportFormat* guess_format(std::string_view text) {
  text = without_byte_order_mark(text);
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = text.substr(at, end - at);
    at = end + 1;
    line.remove_prefix(std::min(line.find_first_not_of(" \t\r"), line.size()));
    if (line.empty() || line.front() == '#') continue;
    if (line.front() == '{') return &deepspeed_format();
    break;
  }
  if (text.find("--") != std::string_view::npos) return &megatron_format();
  for (const std::string_view table : {"[training]", "[parallelism]", "[model]"}) {
    if (text.find(table) != std::string_view::npos) return &torchtitan_format();
  }
  return nullptr;
}

}  // namespace

std::vector<const ImportFormat*> import_formats() {
  return {&deepspeed_format(), &megatron_format(), &torchtitan_format()};
}

std::vector<std::string> import_format_names() {
  std::vector<std::string> names;
  for (const ImportFormat* format : import_formats()) names.emplace_back(format->name);
  return names;
}

Result<const ImportFormat*> find_format(std::string_view format, std::string_view text, const std::string& name) {
  const std::vector<std::string> names = import_format_names();
  for (const ImportFormat* known : import_formats()) {
    if (known->name == format) return known;
  }
  if (!format.empty()) {
    constexpr std::size_t kLettersMost = 64;
    const std::string nearest = format.size() > kLettersMost ? "" : nearest_name(format, names);
    return Problem{"--format", fmt::format("no format {}", shown(scalar_node(std::string(format), {}))),
                   nearest.empty() ? "known: " + join(names) : fmt::format("did you mean {}?", nearest)};
  }
  for (const ImportFormat* known : import_formats()) {
    if (!known->extension.empty() && name.ends_with(known->extension)) return known;
  }
  if (const ImportFormat* guess = guess_format(text)) return guess;
  return Problem{"", "cannot tell whose plan this is",
                 fmt::format("say it as in  --format {}  (known: {})", names.front(), join(names)),
                 SourceLocation{name, 1, 1}};
}

const ImportRow* find_import_row(std::span<const ImportRow> rows, std::string_view key) {
  const ImportRow* best = nullptr;
  for (const ImportRow& row : rows) {
    const bool open = row.key.ends_with('*');
    const std::string_view stem = open ? row.key.substr(0, row.key.size() - 1) : row.key;
    if (open ? !key.starts_with(stem) : key != stem) continue;
    if (!open) return &row;
    if (best == nullptr || row.key.size() > best->key.size()) best = &row;
  }
  return best;
}

std::vector<PlanEntry> flatten(const YamlNode& root) {
  std::vector<PlanEntry> leaves;
  for (const YamlEntry& entry : root.entries) add_leaves(entry.value, entry.key, entry.key_place, leaves);
  return leaves;
}

}  // namespace orrery
