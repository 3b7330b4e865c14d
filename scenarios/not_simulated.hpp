// Names and keys that people rightly expect of a training simulator and that this version does not have. They are told
// so: "did you mean 1f1b?" would send someone who asks for zb-h1 on a hunt for a slip of the pen.
#pragma once

#include <string>
#include <string_view>

namespace orrery {

struct NotSimulated {
  std::string_view key;      // whose value it is, such as parallelism.sharding; of a key of a map: that of the map
  std::string_view name;     // in lower case, without '-', '_' and spaces; a final '*' stands for any ending
  std::string_view instead;  // what there is; empty: the names that the key may have
};

// The row for a value of `key` (or of its `kind`, or of its `base`), however it is spelt; null where there is none.
[[nodiscard]] const NotSimulated* find_not_simulated(std::string_view key, std::string_view value);

// The row for a key of the map that stands under `map_key`.
[[nodiscard]] const NotSimulated* find_key_not_simulated(std::string_view map_key, std::string_view name);

}  // namespace orrery
