#include "workloads/options.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/base/text.hpp"

namespace orrery {

namespace {

const OptionDoc* find_option(const RegistryRow& row, std::string_view name) {
  const auto found =
      std::find_if(row.options.begin(), row.options.end(), [&](const OptionDoc& o) { return o.name == name; });
  return found == row.options.end() ? nullptr : &*found;
}

template <class Items>
std::vector<std::string> names_of(const Items& items) {
  std::vector<std::string> names;
  for (const auto& item : items) names.emplace_back(item.name);
  return names;
}

std::string suggestion(std::string_view word, const std::vector<std::string>& names) {
  const std::string near = nearest_name(word, names);
  if (!near.empty()) return fmt::format("did you mean {}?", near);
  return names.empty() ? std::string("it has no options") : fmt::format("known: {}", join(names));
}

bool is_number(const OptionValue& value) {
  return std::holds_alternative<std::int64_t>(value) || std::holds_alternative<double>(value);
}

double as_number(const OptionValue& value) {
  const auto* integer = std::get_if<std::int64_t>(&value);
  return integer != nullptr ? static_cast<double>(*integer) : std::get<double>(value);
}

bool has_type(const OptionValue& value, std::string_view type) {
  if (type == "integer" || type == "bytes") return std::holds_alternative<std::int64_t>(value);
  if (type == "number") return is_number(value);
  if (type == "boolean") return std::holds_alternative<bool>(value);
  if (type == "boolean or integer") {
    return std::holds_alternative<bool>(value) || std::holds_alternative<std::int64_t>(value);
  }
  if (type == "file") return std::holds_alternative<FileText>(value);
  return std::holds_alternative<std::string>(value);
}

void check_option(const OptionDoc& doc, const OptionValue& value, const std::string& key, Problems& problems) {
  if (!has_type(value, doc.type)) {
    problems.push_back({key, fmt::format("{} must be of type {}", doc.name, doc.type), std::string(doc.doc)});
    return;
  }
  if (const auto* text = std::get_if<std::string>(&value); text != nullptr && !doc.values.empty()) {
    if (std::find(doc.values.begin(), doc.values.end(), *text) != doc.values.end()) return;
    problems.push_back({key, fmt::format("{} is \"{}\"", doc.name, *text),
                        suggestion(*text, std::vector<std::string>(doc.values.begin(), doc.values.end()))});
    return;
  }
  if (!is_number(value) || doc.least == doc.most) return;
  const double number = as_number(value);
  if (number < doc.least || number > doc.most) {
    problems.push_back({key, fmt::format("{} is {}", doc.name, number),
                        fmt::format("must lie between {} and {}", doc.least, doc.most)});
  }
}

// Defaults are written as in YAML; bytes as "25 MiB" or a bare number.
double parse_number(std::string_view text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  ORRERY_CHECK(error == std::errc(), "a default of the registry is a number", text);
  const std::string_view unit(end, static_cast<std::size_t>(text.data() + text.size() - end));
  if (unit == " KiB") return number * 1024;
  if (unit == " MiB") return number * 1024 * 1024;
  if (unit == " GiB") return number * 1024 * 1024 * 1024;
  ORRERY_CHECK(unit.empty(), "a default of the registry has a known unit", text);
  return number;
}

const OptionDoc& documented(const RegistryRow& row, std::string_view name) {
  const OptionDoc* doc = find_option(row, name);
  ORRERY_CHECK(doc != nullptr, "an option that is read is in its row", row.name, name);
  return *doc;
}

}  // namespace

const RegistryRow* find_row(std::span<const RegistryRow> rows, std::string_view name) {
  const auto found = std::find_if(rows.begin(), rows.end(), [&](const RegistryRow& r) { return r.name == name; });
  return found == rows.end() ? nullptr : &*found;
}

Problems check_choice(const Choice& choice, std::span<const RegistryRow> rows, std::string_view key) {
  Problems problems;
  const RegistryRow* row = find_row(rows, choice.kind);
  if (row == nullptr) {
    problems.push_back({fmt::format("{}.kind", key), fmt::format("there is no kind '{}'", choice.kind),
                        suggestion(choice.kind, names_of(rows))});
    return problems;
  }
  for (const auto& [name, value] : choice.options) {
    const std::string option_key = fmt::format("{}.{}", key, name);
    const OptionDoc* doc = find_option(*row, name);
    if (doc == nullptr) {
      problems.push_back({option_key, fmt::format("{} has no option '{}'", row->name, name),
                          suggestion(name, names_of(row->options))});
      continue;
    }
    check_option(*doc, value, option_key, problems);
  }
  return problems;
}

std::int64_t integer_option(const Choice& choice, const RegistryRow& row, std::string_view name) {
  const OptionDoc& doc = documented(row, name);
  const auto found = choice.options.find(std::string(name));
  if (found != choice.options.end()) return std::get<std::int64_t>(found->second);
  return static_cast<std::int64_t>(parse_number(doc.default_value));
}

double number_option(const Choice& choice, const RegistryRow& row, std::string_view name) {
  const OptionDoc& doc = documented(row, name);
  const auto found = choice.options.find(std::string(name));
  return found != choice.options.end() ? as_number(found->second) : parse_number(doc.default_value);
}

std::string_view text_option(const Choice& choice, const RegistryRow& row, std::string_view name) {
  const OptionDoc& doc = documented(row, name);
  const auto found = choice.options.find(std::string(name));
  return found != choice.options.end() ? std::string_view(std::get<std::string>(found->second)) : doc.default_value;
}

std::int64_t switch_or_size_option(const Choice& choice, const RegistryRow& row, std::string_view name) {
  const OptionDoc& doc = documented(row, name);
  const auto found = choice.options.find(std::string(name));
  if (found == choice.options.end()) return doc.default_value == "true" ? kSwitchedOn : 0;
  if (const auto* size = std::get_if<std::int64_t>(&found->second)) return *size;
  return std::get<bool>(found->second) ? kSwitchedOn : 0;
}

bool boolean_option(const Choice& choice, const RegistryRow& row, std::string_view name) {
  const OptionDoc& doc = documented(row, name);
  const auto found = choice.options.find(std::string(name));
  return found != choice.options.end() ? std::get<bool>(found->second) : doc.default_value == "true";
}

FileText file_option(const Choice& choice, const RegistryRow& row, std::string_view name) {
  documented(row, name);
  const auto found = choice.options.find(std::string(name));
  return found != choice.options.end() ? std::get<FileText>(found->second) : FileText{};
}

}  // namespace orrery
