// The formats that can be imported, as a table: how a text becomes entries, and what its keys mean.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/import/draft.hpp"

namespace orrery {

struct ImportFormat {
  std::string_view name;
  std::string_view framework;  // as people call it
  std::string_view extension;  // of its files; empty: any
  std::span<const ImportRow> rows;
  // Takes the text apart; its problems are located.
  Result<std::vector<PlanEntry>> (*read)(std::string_view text, std::shared_ptr<const YamlOrigin> origin) = nullptr;
  // GPUs that the plan itself names; 0: it does not.
  std::int64_t (*gpus)(Draft&) = nullptr;
  // Before and after the rows are applied: choices that options hang on, and what only several keys together say.
  void (*prepare)(Draft&) = nullptr;
  void (*finish)(Draft&) = nullptr;
};

[[nodiscard]] const ImportFormat& deepspeed_format();
[[nodiscard]] const ImportFormat& megatron_format();
[[nodiscard]] const ImportFormat& torchtitan_format();

[[nodiscard]] std::vector<const ImportFormat*> import_formats();

// The format by its name, else by the file's name, else by what the text looks like.
[[nodiscard]] Result<const ImportFormat*> find_format(std::string_view format, std::string_view text,
                                                      const std::string& name);

// The row for a key, or null. O(rows).
[[nodiscard]] const ImportRow* find_import_row(std::span<const ImportRow> rows, std::string_view key);

// The leaves of a tree with their dotted keys, in the order written.
[[nodiscard]] std::vector<PlanEntry> flatten(const YamlNode& root);

}  // namespace orrery
