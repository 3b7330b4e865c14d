#include "scenarios/import/draft.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "scenarios/schema.hpp"
#include "scenarios/tree.hpp"
#include "sim/base/check.hpp"

namespace orrery {

namespace {

// Blocks that choose a row of a registry, with options.
struct ChoiceBlock {
  std::string_view name;
  std::span<const RegistryRow> (*rows)();
};
constexpr std::array kChoiceBlocks{
    ChoiceBlock{"parallelism.sharding", sharding_rows},
    ChoiceBlock{"parallelism.schedule", schedule_rows},
    ChoiceBlock{"parallelism.context_kind", context_rows},
    ChoiceBlock{"parallelism.dispatch", dispatch_rows},
    ChoiceBlock{"training.optimizer", optimizer_rows},
    ChoiceBlock{"training.routing", routing_rows},
    ChoiceBlock{"training.fp8", fp8_rows},
    ChoiceBlock{"training.sparsity", sparsity_rows},
};

const RegistryRow* find_row_named(std::string_view block, std::string_view kind) {
  for (const RegistryRow& row : registry_of(block)) {
    if (row.name == kind) return &row;
  }
  return nullptr;
}

bool row_has(const RegistryRow& row, std::string_view option) {
  return std::any_of(row.options.begin(), row.options.end(), [&](const OptionDoc& doc) { return doc.name == option; });
}

bool some_row_has(std::string_view block, std::string_view option) {
  const auto rows = registry_of(block);
  return std::any_of(rows.begin(), rows.end(), [&](const RegistryRow& row) { return row_has(row, option); });
}

// A script's variable that nothing in the file sets: "$SEQ_LENGTH".
bool is_unset_variable(const YamlNode& value) { return value.is_scalar() && value.text.find('$') != std::string::npos; }

std::string last_step(const std::string& block) { return block.substr(block.find_last_of('.') + 1); }

}  // namespace

Draft::Draft(Reader& reader, const std::vector<PlanEntry>& entries, YamlNode root, std::vector<std::string> overrides)
    : reader_(reader),
      entries_(entries),
      root_(std::move(root)),
      overrides_(std::move(overrides)),
      lines_(entries.size()) {}

const PlanEntry* Draft::find(std::string_view key) const {
  const PlanEntry* found = nullptr;
  for (const PlanEntry& entry : entries_) {
    if (entry.key == key) found = &entry;
  }
  return found;
}

bool Draft::checks_out(const PlanEntry& entry) {
  if (entry.value.is_null()) {
    problem(entry, fmt::format("{} has no value", entry.key));
    return false;
  }
  if (!is_unset_variable(entry.value)) return true;
  problem(entry, fmt::format("{}: nothing in this file sets {}", entry.key, in_quotes(entry.value.text)),
          "set it in the file, on a line before");
  return false;
}

std::optional<std::int64_t> Draft::integer(const PlanEntry& entry, Range range) {
  std::int64_t value = 0;
  if (!checks_out(entry) || !read_integer(reader_, entry.value, entry.key, range, value)) return std::nullopt;
  return value;
}

std::optional<double> Draft::number(const PlanEntry& entry, Range range) {
  double value = 0;
  if (!checks_out(entry) || !read_number(reader_, entry.value, entry.key, Dimension::number, range, value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<bool> Draft::boolean(const PlanEntry& entry) {
  bool value = false;
  if (!checks_out(entry) || !read_boolean(reader_, entry.value, entry.key, value)) return std::nullopt;
  return value;
}

std::optional<std::int64_t> Draft::integer(std::string_view key, Range range) {
  const PlanEntry* entry = find(key);
  if (entry == nullptr || is_auto(*entry)) return std::nullopt;
  return integer(*entry, range);
}

std::optional<bool> Draft::boolean(std::string_view key) {
  const PlanEntry* entry = find(key);
  if (entry == nullptr || is_auto(*entry)) return std::nullopt;
  return boolean(*entry);
}

std::string Draft::text(std::string_view key) const {
  const PlanEntry* entry = find(key);
  return entry != nullptr && entry->value.is_scalar() ? entry->value.text : "";
}

std::size_t Draft::index_of(const PlanEntry& entry) const {
  const auto index = static_cast<std::size_t>(&entry - entries_.data());
  ORRERY_CHECK(index < entries_.size(), "an entry is one of the plan's", entry.key);
  return index;
}

ImportLine& Draft::line_of(const PlanEntry& entry, Fate fate) {
  std::optional<ImportLine>& line = lines_[index_of(entry)];
  if (!line || line->fate != fate) {
    line = ImportLine{fate, on_one_line(entry.key), shown(entry.value), "", "", entry.place.location()};
  }
  return *line;
}

void Draft::put(const std::string& target, const YamlNode& value, const YamlPlace& place, const std::string& origin) {
  reader_.add(set_value(root_, target, value, place));
  origins_.emplace_back(target, origin);
}

void Draft::set(const PlanEntry& from, const std::string& target, const std::string& value, const std::string& why) {
  set(from, target, scalar_node(value, from.value.place.origin != nullptr ? from.value.place : from.place), why);
}

void Draft::set(const PlanEntry& from, const std::string& target, const YamlNode& value, const std::string& why) {
  if (overridden(target)) {
    if (!reported(from)) line_of(from, Fate::given).why = fmt::format("{} is set by an option", target);
    return;
  }
  put(target, value, from.place, from.key);
  ImportLine& line = line_of(from, Fate::understood);
  if (!line.leads_to.empty()) line.leads_to += ", ";
  line.leads_to += fmt::format("{}: {}", target, shown(value));
  if (!why.empty()) line.why = why;
}

void Draft::assume(const std::string& key, const std::string& target, const std::string& value,
                   const std::string& why) {
  if (overridden(target) || has_target(target)) return;
  put(target, scalar_node(value, root_.place), root_.place, "assumed");
  assumed_.push_back({Fate::assumed, key, "", fmt::format("{}: {}", target, value), why, {}});
}

void Draft::assume(const PlanEntry& from, const std::string& target, const std::string& value, const std::string& why) {
  if (overridden(target)) {
    if (!reported(from)) line_of(from, Fate::given).why = fmt::format("{} is set by an option", target);
    return;
  }
  put(target, scalar_node(value, from.place), from.place, "assumed");
  ImportLine& line = line_of(from, Fate::assumed);
  line.leads_to = fmt::format("{}: {}", target, value);
  line.why = why;
}

void Draft::ignore(const PlanEntry& entry, Fate fate, const std::string& why) {
  ImportLine& line = line_of(entry, fate);
  line.leads_to.clear();
  line.why = on_one_line(why);
}

void Draft::problem(const PlanEntry& entry, std::string message, std::string note) {
  reader_.problem(entry.place, entry.key, std::move(message), std::move(note));
}

const RegistryRow* Draft::chosen(const std::string& block) const {
  std::string kind = text_of(block + ".kind");
  if (kind.empty()) kind = text_of(block);
  return find_row_named(block, kind);
}

void Draft::choose(const PlanEntry& from, const std::string& block, const std::string& kind, const std::string& why) {
  if (find_row_named(block, kind) != nullptr) {
    set(from, block + ".kind", kind, why);
  } else if (overridden(block + ".kind")) {
    line_of(from, Fate::given).why = fmt::format("{} is set by an option", block);
  } else {
    not_simulated_.emplace_back(block, kind);
    ignore(from, Fate::not_simulated, fmt::format("{} {}: the scenario is without it", last_step(block), kind));
  }
}

void Draft::assume_choice(const std::string& key, const std::string& block, const std::string& kind,
                          const std::string& why) {
  if (find_row_named(block, kind) != nullptr && !has_target(block)) assume(key, block + ".kind", kind, why);
}

void Draft::set_option(const PlanEntry& from, const std::string& block, const std::string& option,
                       const std::string& value, const std::string& why) {
  if (overridden(block)) {
    line_of(from, Fate::given).why = fmt::format("{} is set by an option", block);
    return;
  }
  for (const auto& [missing_block, kind] : not_simulated_) {
    if (missing_block != block) continue;
    ignore(from, Fate::not_simulated, fmt::format("an option of {} {}", last_step(block), kind));
    return;
  }
  const RegistryRow* row = chosen(block);
  if (row != nullptr && row_has(*row, option)) {
    set(from, block + "." + option, value, why);
  } else if (row != nullptr && some_row_has(block, option)) {
    ignore(from, Fate::no_influence, fmt::format("{} has no such option", row->name));
  } else if (row == nullptr) {
    ignore(from, Fate::no_influence, fmt::format("the plan has no {} that it is an option of", last_step(block)));
  } else {
    ignore(from, Fate::not_simulated, why);
  }
}

void Draft::assume_option(const std::string& key, const std::string& block, const std::string& option,
                          const std::string& value, const std::string& why) {
  if (!overridden(block) && has_option(block, option)) assume(key, block + "." + option, value, why);
}

bool Draft::has_option(const std::string& block, std::string_view option) const {
  const RegistryRow* row = chosen(block);
  return row != nullptr && row_has(*row, option);
}

bool Draft::has_target(const std::string& target) const {
  const YamlNode* node = find_value(root_, target);
  return node != nullptr && !node->is_null();
}

std::int64_t Draft::value_of(const std::string& target, std::int64_t otherwise) const {
  const YamlNode* node = find_value(root_, target);
  if (node == nullptr || !node->is_scalar()) return otherwise;
  const auto parsed = parse_quantity(node->text, Dimension::number);
  const auto* value = std::get_if<double>(&parsed);
  constexpr double kSane = 1e15;
  if (value == nullptr || !(*value >= 1) || *value > kSane) return otherwise;
  return static_cast<std::int64_t>(*value);
}

std::string Draft::text_of(const std::string& target) const {
  const YamlNode* node = find_value(root_, target);
  return node != nullptr && node->is_scalar() ? node->text : "";
}

bool Draft::overridden(std::string_view target) const {
  return std::any_of(overrides_.begin(), overrides_.end(), [&](const std::string& key) {
    return target == key || (target.size() > key.size() && target.starts_with(key) && target[key.size()] == '.');
  });
}

std::int64_t Draft::data_parallel() const {
  std::int64_t left = gpus;
  for (const std::string_view degree : {"tensor", "pipeline", "context"}) {
    const std::int64_t taken = value_of(fmt::format("parallelism.{}", degree), 1);
    if (left % taken != 0) return 0;
    left /= taken;
  }
  return left;
}

std::vector<ImportLine> Draft::lines() const {
  std::vector<ImportLine> lines;
  for (const std::optional<ImportLine>& line : lines_) {
    if (line) lines.push_back(*line);
  }
  lines.insert(lines.end(), assumed_.begin(), assumed_.end());
  return lines;
}

std::string Draft::origin_of(const std::string& target) const {
  for (auto origin = origins_.rbegin(); origin != origins_.rend(); ++origin) {
    if (origin->first == target) return origin->second;
  }
  return "";
}

std::span<const RegistryRow> registry_of(std::string_view block) {
  for (const ChoiceBlock& known : kChoiceBlocks) {
    if (known.name == block) return known.rows();
  }
  return {};
}

bool loader_knows(std::string_view target) {
  for (const ChoiceBlock& known : kChoiceBlocks) {
    const std::string_view block = known.name;
    if (target.size() <= block.size() || !target.starts_with(block) || target[block.size()] != '.') continue;
    const std::string_view option = target.substr(block.size() + 1);
    return option == "kind" || some_row_has(block, option);
  }
  const std::vector<KeyDoc> docs = scenario_docs();
  return std::any_of(docs.begin(), docs.end(), [&](const KeyDoc& doc) { return doc.key == target; });
}

bool is_auto(const PlanEntry& entry) { return entry.value.is_scalar() && entry.value.text == "auto"; }

bool is_off(const YamlNode& value) {
  if (value.is_sequence()) return value.items.empty();
  if (value.is_map()) return value.entries.empty();
  if (!value.is_scalar()) return false;
  constexpr std::array<std::string_view, 8> kOff{"false", "False", "0", "", "none", "None", "null", "-1"};
  return std::find(kOff.begin(), kOff.end(), value.text) != kOff.end();
}

std::string on_one_line(const std::string& text) {
  const bool plain =
      std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) >= 0x20 && c != 0x7F; });
  return plain ? text : in_quotes(text);
}

std::string shown(const YamlNode& value) {
  constexpr std::size_t kWidest = 40;
  if (value.is_null()) return "";
  const std::string text = on_one_line(value.is_scalar() ? value.text : to_yaml_text(value));
  if (text.size() <= kWidest) return text;
  std::size_t cut = kWidest - 3;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80U) --cut;  // not inside a character
  return text.substr(0, cut) + "...";
}

std::int64_t times(std::int64_t a, std::int64_t b) {
  constexpr std::int64_t kBeyondAnyPlan = 1'000'000'000'000'000;
  std::int64_t product = 0;
  if (__builtin_mul_overflow(a, b, &product)) return kBeyondAnyPlan;
  return std::min(product, kBeyondAnyPlan);
}

YamlNode scalar_node(std::string text, YamlPlace place) {
  YamlNode node;
  node.kind = YamlNode::Kind::scalar;
  node.text = std::move(text);
  node.place = std::move(place);
  return node;
}

namespace {

// "parallelism.sharding.overlap_comm" -> block and option.
std::pair<std::string, std::string> split_target(std::string_view target) {
  const std::size_t dot = target.find_last_of('.');
  return {std::string(target.substr(0, dot)), std::string(target.substr(dot + 1))};
}

// A value that can be copied: there, a single one, and no unset variable.
bool is_single(Draft& draft, const PlanEntry& entry) {
  if (is_unset_variable(entry.value)) {
    draft.problem(entry, fmt::format("{}: nothing in this file sets {}", entry.key, in_quotes(entry.value.text)),
                  "set it in the file, on a line before");
    return false;
  }
  if (entry.value.is_scalar()) return true;
  draft.problem(entry, entry.value.is_null()
                           ? fmt::format("{} has no value", entry.key)
                           : fmt::format("{} must be a single value, not {}", entry.key, describe(entry.value)));
  return false;
}

}  // namespace

void copy_value(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  if (draft.overridden(row.target)) {
    draft.set(entry, std::string(row.target), "");
  } else if (is_single(draft, entry)) {
    draft.set(entry, std::string(row.target), entry.value, std::string(row.doc));
  }
}

void copy_boolean(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  if (const auto value = draft.boolean(entry)) {
    draft.set(entry, std::string(row.target), *value ? "true" : "false", std::string(row.doc));
  }
}

void copy_option(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  const auto [block, option] = split_target(row.target);
  if (is_single(draft, entry)) draft.set_option(entry, block, option, entry.value.text, std::string(row.doc));
}

void switch_on(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  draft.set(entry, std::string(row.target), "true", std::string(row.doc));
}

void switch_off(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  draft.set(entry, std::string(row.target), "false", std::string(row.doc));
}

void switch_option_on(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  const auto [block, option] = split_target(row.target);
  draft.set_option(entry, block, option, "true", std::string(row.doc));
}

void no_influence(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  draft.ignore(entry, Fate::no_influence, std::string(row.doc));
}

void not_simulated(Draft& draft, const PlanEntry& entry, const ImportRow& row) {
  if (is_off(entry.value)) return draft.ignore(entry, Fate::no_influence, "off");
  draft.ignore(entry, Fate::not_simulated, std::string(row.doc));
}

void together(Draft&, const PlanEntry&, const ImportRow&) {}

}  // namespace orrery
