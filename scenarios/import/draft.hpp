// A scenario in the making: what a plan file said, what came of each of its keys, and the tree so far.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/field.hpp"
#include "scenarios/import/import.hpp"
#include "scenarios/yaml_document.hpp"
#include "workloads/registry.hpp"

namespace orrery {

// A key of a plan file and its value, with maps taken apart: "zero_optimization.stage", "--num-layers".
struct PlanEntry {
  std::string key;
  YamlNode value;  // null: a flag
  YamlPlace place;
};

class Draft {
 public:
  // `root` holds what the options say; `overrides` are their keys. References must outlive the draft.
  Draft(Reader& reader, const std::vector<PlanEntry>& entries, YamlNode root, std::vector<std::string> overrides);

  // --- What the plan says.

  // The entry that counts: the last one with this key. Null where there is none.
  [[nodiscard]] const PlanEntry* find(std::string_view key) const;
  [[nodiscard]] bool has(std::string_view key) const { return find(key) != nullptr; }

  // The entry's value; empty after a report of what is wrong with it. Bounds are included.
  std::optional<std::int64_t> integer(const PlanEntry& entry, Range range);
  std::optional<double> number(const PlanEntry& entry, Range range);
  std::optional<bool> boolean(const PlanEntry& entry);
  // The same by key; also empty where the plan has no such key, or has "auto" there.
  std::optional<std::int64_t> integer(std::string_view key, Range range);
  std::optional<bool> boolean(std::string_view key);
  // A single value as text; empty where there is none.
  [[nodiscard]] std::string text(std::string_view key) const;

  // --- What becomes of it. A key may lead to several scenario keys; a fate replaces what was said before.

  void set(const PlanEntry& from, const std::string& target, const std::string& value, const std::string& why = "");
  void set(const PlanEntry& from, const std::string& target, const YamlNode& value, const std::string& why = "");
  // What the plan does not say itself; `key` is its key for it. Nothing where the scenario has the target already.
  void assume(const std::string& key, const std::string& target, const std::string& value, const std::string& why);
  // The same where the plan says "auto": the entry's line tells it.
  void assume(const PlanEntry& from, const std::string& target, const std::string& value, const std::string& why);
  void ignore(const PlanEntry& entry, Fate fate, const std::string& why);
  void problem(const PlanEntry& entry, std::string message, std::string note = "");

  // A row of a registry at a block such as "parallelism.sharding" (registry_of). Says in the report whether this
  // version simulates it.
  void choose(const PlanEntry& from, const std::string& block, const std::string& kind, const std::string& why = "");
  void assume_choice(const std::string& key, const std::string& block, const std::string& kind, const std::string& why);
  // An option of what was chosen there. The report says so where the choice has no such option.
  void set_option(const PlanEntry& from, const std::string& block, const std::string& option, const std::string& value,
                  const std::string& why = "");
  // The same for an option that the plan does not give; nothing where the choice has no such option.
  void assume_option(const std::string& key, const std::string& block, const std::string& option,
                     const std::string& value, const std::string& why);
  [[nodiscard]] bool has_option(const std::string& block, std::string_view option) const;

  // --- The scenario so far.

  [[nodiscard]] bool has_target(const std::string& target) const;
  // A whole number of the scenario; `otherwise` where it has none there.
  [[nodiscard]] std::int64_t value_of(const std::string& target, std::int64_t otherwise) const;
  [[nodiscard]] std::string text_of(const std::string& target) const;
  // An option of the command line sets the target, or a map that holds it.
  [[nodiscard]] bool overridden(std::string_view target) const;

  // GPUs of the cluster; 0: nobody said. `data_parallel` is what the degrees leave of them; 0 where they do not fit.
  std::int64_t gpus = 0;
  [[nodiscard]] std::int64_t data_parallel() const;

  [[nodiscard]] const YamlNode& root() const { return root_; }
  [[nodiscard]] YamlNode& root() { return root_; }
  [[nodiscard]] Reader& reader() { return reader_; }
  [[nodiscard]] const std::vector<PlanEntry>& entries() const { return entries_; }
  [[nodiscard]] bool reported(const PlanEntry& entry) const { return lines_[index_of(entry)].has_value(); }

  // All lines, and for each scenario key that was set the plan's key, or "assumed".
  [[nodiscard]] std::vector<ImportLine> lines() const;
  [[nodiscard]] std::string origin_of(const std::string& target) const;

 private:
  [[nodiscard]] std::size_t index_of(const PlanEntry& entry) const;
  ImportLine& line_of(const PlanEntry& entry, Fate fate);
  void put(const std::string& target, const YamlNode& value, const YamlPlace& place, const std::string& origin);
  [[nodiscard]] const RegistryRow* chosen(const std::string& block) const;
  [[nodiscard]] bool checks_out(const PlanEntry& entry);

  Reader& reader_;
  const std::vector<PlanEntry>& entries_;
  YamlNode root_;
  std::vector<std::string> overrides_;
  std::vector<std::optional<ImportLine>> lines_;  // one an entry
  std::vector<ImportLine> assumed_;
  std::vector<std::pair<std::string, std::string>> origins_;        // target, where it is from
  std::vector<std::pair<std::string, std::string>> not_simulated_;  // block, kind that no row has
};

// One key of a format: how it maps, and what is to be said of it. Adding a key is adding a row.
struct ImportRow {
  using Apply = void (*)(Draft&, const PlanEntry&, const ImportRow&);

  std::string_view key;     // a final '*' stands for any ending; the longest row that fits counts
  std::string_view target;  // the scenario key that it leads to; empty: none
  Apply apply = nullptr;
  std::string_view doc;  // why it is ignored, or what is to be known of how it is understood
};

// Ways to map, for all formats.
void copy_value(Draft& draft, const PlanEntry& entry, const ImportRow& row);    // as it stands
void copy_boolean(Draft& draft, const PlanEntry& entry, const ImportRow& row);  // true, false
void copy_option(Draft& draft, const PlanEntry& entry, const ImportRow& row);   // of a registry row: block.option
void switch_on(Draft& draft, const PlanEntry& entry, const ImportRow& row);     // a flag
void switch_off(Draft& draft, const PlanEntry& entry, const ImportRow& row);
void switch_option_on(Draft& draft, const PlanEntry& entry, const ImportRow& row);
void no_influence(Draft& draft, const PlanEntry& entry, const ImportRow& row);
void not_simulated(Draft& draft, const PlanEntry& entry, const ImportRow& row);  // unless it is off
void together(Draft& draft, const PlanEntry& entry, const ImportRow& row);       // with others, by the format itself

// "auto", as Hugging Face writes what its trainer fills in.
[[nodiscard]] bool is_auto(const PlanEntry& entry);
// False, 0, none, empty: what it would switch on is off.
[[nodiscard]] bool is_off(const YamlNode& value);
// As shown in the report: on one line, cut when long.
[[nodiscard]] std::string shown(const YamlNode& value);
[[nodiscard]] std::string on_one_line(const std::string& text);

// The product of two counts; where it is beyond any plan, that bound.
[[nodiscard]] std::int64_t times(std::int64_t a, std::int64_t b);

[[nodiscard]] YamlNode scalar_node(std::string text, YamlPlace place);

// The registry whose rows a block of the scenario chooses from; empty for other blocks.
[[nodiscard]] std::span<const RegistryRow> registry_of(std::string_view block);

// Whether the loader has such a key, or some row of the block's registry such an option.
[[nodiscard]] bool loader_knows(std::string_view target);

}  // namespace orrery
