// The schema as data: what every key of a scenario or catalogue file means. Read from the same tables as the loader
// reads files by, so that help and documentation cannot drift from it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "scenarios/catalog.hpp"
#include "scenarios/field.hpp"

namespace orrery {

// All keys of a scenario, block by block.
[[nodiscard]] std::vector<KeyDoc> scenario_docs();

// All keys of a catalogue file of one kind (source and sources apart, which all have).
[[nodiscard]] std::vector<KeyDoc> catalog_docs(CatalogKind kind);

// A table, one line a key, for a terminal.
[[nodiscard]] std::string to_string(const std::vector<KeyDoc>& docs);

}  // namespace orrery
