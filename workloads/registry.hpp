// What workloads can be told to do, as tables: sharding strategies, pipeline schedules, optimizers,
// number formats and sparsity, ways to split sequences and to reach experts. The scenario loader
// and its error messages, --help and `orrery catalog` read them; a property test loops over each of them. Adding one is
// one new .cpp and one row.
#pragma once

#include <span>
#include <string_view>

namespace orrery {

// An option of a row: `schedule: {kind: interleaved-1f1b, virtual_stages: 2}`.
struct OptionDoc {
  std::string_view name;
  std::string_view type;  // "integer", "number", "boolean", "bytes", "text", "boolean or integer", "file" (path)
  std::string_view default_value;  // as one would write it in YAML
  double least = 0;                // of integer, number and bytes
  double most = 0;                 // least == most: unbounded
  std::string_view doc;
  std::span<const std::string_view> values = {};  // of text: what it may be; empty: anything
};

struct RegistryRow {
  std::string_view name;
  std::string_view doc;
  std::span<const OptionDoc> options;
};

[[nodiscard]] std::span<const RegistryRow> sharding_rows();
[[nodiscard]] std::span<const RegistryRow> schedule_rows();
[[nodiscard]] std::span<const RegistryRow> optimizer_rows();
[[nodiscard]] std::span<const RegistryRow> fp8_rows();       // how fp8 operands are scaled
[[nodiscard]] std::span<const RegistryRow> sparsity_rows();  // of weights
[[nodiscard]] std::span<const RegistryRow> context_rows();   // how attention reaches the rest of a split sequence
[[nodiscard]] std::span<const RegistryRow> dispatch_rows();  // how tokens get to their experts and back
[[nodiscard]] std::span<const RegistryRow> routing_rows();   // how evenly tokens fall on experts

}  // namespace orrery
