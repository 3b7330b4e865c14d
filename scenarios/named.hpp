// Reading a value that is a catalogue name, a changed catalogue entry ({base: name, ...}), or all inline.
#pragma once

#include <fmt/format.h>

#include <string>

#include "scenarios/catalog.hpp"
#include "scenarios/field.hpp"
#include "scenarios/not_simulated.hpp"

namespace orrery {

inline constexpr std::string_view kBaseKey = "base";

// Looks `name` up with `lookup` (a member function of Catalog) and reports a failure at the name's place.
template <class T>
bool look_up(Reader& reader, const YamlNode& name, const std::string& key,
             const Result<T>& (Catalog::*lookup)(const std::string&), T& out) {
  std::string text;
  if (!read_text(reader, name, key, text)) return false;
  const Result<T>& found = (reader.catalog().*lookup)(text);
  if (found) {
    out = found.value();
    return true;
  }
  const NotSimulated* later = find_not_simulated(key, text);
  for (const Problem& problem : found.problems()) {
    if (problem.where.file.empty() && later != nullptr) {
      reader.problem(name.place, key, fmt::format("{} {} is not simulated by this version", key, in_quotes(text)),
                     std::string(later->instead));
    } else if (problem.where.file.empty()) {
      reader.problem(name.place, key, problem.message, problem.note);
    } else {
      reader.add({problem});
    }
  }
  return false;
}

// What kind of value a node is, once its base (if any) has been looked up into `out`.
enum class Given { name, changes, inline_map, wrong };

template <class T>
Given read_base(Reader& reader, const YamlNode& node, const std::string& key,
                const Result<T>& (Catalog::*lookup)(const std::string&), T& out) {
  reader.locate(key, node.place);
  if (node.is_scalar()) return look_up(reader, node, key, lookup, out) ? Given::name : Given::wrong;
  if (!node.is_map()) {
    reader.problem(node.place, key, fmt::format("{} must be a name or a map, not {}", key, describe(node)));
    return Given::wrong;
  }
  const YamlEntry* base = node.find(kBaseKey);
  if (base == nullptr) return Given::inline_map;
  const std::string base_key = child_key(key, kBaseKey);
  reader.locate(base_key, base->value.place);
  return look_up(reader, base->value, base_key, lookup, out) ? Given::changes : Given::wrong;
}

}  // namespace orrery
