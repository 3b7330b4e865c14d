#include "scenarios/field.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/not_simulated.hpp"
#include "sim/base/text.hpp"

namespace orrery {

namespace {

constexpr std::size_t kWordLettersMax = 64;  // longer words get no suggestion: the search is quadratic in letters

std::string nearest_note(std::string_view word, std::span<const std::string> known, std::string_view what) {
  std::vector<std::string> sorted(known.begin(), known.end());
  std::sort(sorted.begin(), sorted.end());
  const std::string nearest = word.size() > kWordLettersMax ? "" : nearest_name(word, sorted);
  if (!nearest.empty()) return fmt::format("did you mean {}?", nearest);
  return sorted.empty() ? "" : fmt::format("{}: {}", what, join(sorted));
}

// Exactly representable integers end here; counts beyond are slips of the pen.
constexpr double kIntegerMax = 9007199254740992.0;  // 2^53

std::string range_note(Range range, Dimension dimension) {
  if (dimension == Dimension::fraction) dimension = Dimension::number;  // 0.5, not 50 %
  return fmt::format("from {} to {}", format_quantity(range.least, dimension), format_quantity(range.most, dimension));
}

}  // namespace

void Reader::problem(const YamlPlace& place, std::string key, std::string message, std::string note) {
  if (place.line == 0 && place.origin != nullptr) key.clear();  // an option names its key itself
  problems_.push_back({std::move(key), std::move(message), std::move(note), place.location()});
}

void Reader::add(Problems problems) {
  for (Problem& found : problems) problems_.push_back(std::move(found));
}

YamlPlace Reader::place_of(std::string key) const {
  while (true) {
    const auto found = places_.find(key);
    if (found != places_.end()) return found->second;
    if (key.empty()) return {};
    const std::size_t dot = key.find_last_of(".[");
    key.resize(dot == std::string::npos ? 0 : dot);
  }
}

std::string child_key(const std::string& key, std::string_view name) {
  return key.empty() ? std::string(name) : fmt::format("{}.{}", key, name);
}

std::string child_key(const std::string& key, std::size_t index) { return fmt::format("{}[{}]", key, index); }

MemberKind number_kind(Dimension dimension) {
  std::string_view name = name_of(dimension);
  name.remove_prefix(name.find(' ') + 1);  // its article
  return {name, example_of(dimension)};
}

bool read_number(Reader& reader, const YamlNode& node, const std::string& key, Dimension dimension, Range range,
                 double& out) {
  if (!node.is_scalar()) {
    reader.problem(node.place, key, fmt::format("{} must be {}, not {}", key, name_of(dimension), describe(node)),
                   fmt::format("write it as in {}", example_of(dimension)));
    return false;
  }
  const auto parsed = parse_quantity(node.text, dimension);
  if (const auto* error = std::get_if<QuantityError>(&parsed)) {
    reader.problem(node.place, key, fmt::format("{}: {}", key, error->message), error->note);
    return false;
  }
  const double value = std::get<double>(parsed);
  if (range.least != range.most && (value < range.least || value > range.most)) {
    reader.problem(node.place, key, fmt::format("{} is out of range: {}", key, in_quotes(node.text)),
                   range_note(range, dimension));
    return false;
  }
  out = value;
  return true;
}

bool read_integer(Reader& reader, const YamlNode& node, const std::string& key, Range range, std::int64_t& out) {
  double value = 0;
  if (!read_number(reader, node, key, Dimension::number, range, value)) return false;
  if (value != std::floor(value) || std::abs(value) > kIntegerMax) {
    reader.problem(node.place, key, fmt::format("{} must be a whole number, not {}", key, in_quotes(node.text)));
    return false;
  }
  out = static_cast<std::int64_t>(value);
  return true;
}

bool read_boolean(Reader& reader, const YamlNode& node, const std::string& key, bool& out) {
  const bool is_true = node.text == "true" || node.text == "True" || node.text == "TRUE";
  const bool is_false = node.text == "false" || node.text == "False" || node.text == "FALSE";
  if (!node.is_scalar() || node.quoted || (!is_true && !is_false)) {
    const std::string found = node.is_scalar() ? in_quotes(node.text) : std::string(describe(node));
    reader.problem(node.place, key, fmt::format("{} must be true or false, not {}", key, found));
    return false;
  }
  out = is_true;
  return true;
}

bool read_text(Reader& reader, const YamlNode& node, const std::string& key, std::string& out) {
  if (!node.is_scalar() || node.text.empty()) {
    reader.problem(node.place, key,
                   fmt::format("{} must be text, not {}", key, node.is_scalar() ? "empty" : describe(node)));
    return false;
  }
  out = node.text;
  return true;
}

int read_one_of(Reader& reader, const YamlNode& node, const std::string& key, std::span<const std::string_view> names) {
  const std::vector<std::string> known(names.begin(), names.end());
  if (!node.is_scalar()) {
    reader.problem(node.place, key, fmt::format("{} must be a name, not {}", key, describe(node)),
                   fmt::format("one of: {}", join(known)));
    return -1;
  }
  const auto found = std::find(names.begin(), names.end(), node.text);
  if (found != names.end()) return static_cast<int>(found - names.begin());
  if (const NotSimulated* row = find_not_simulated(key, node.text)) {
    reader.problem(node.place, key, fmt::format("{} {} is not simulated by this version", key, in_quotes(node.text)),
                   row->instead.empty() ? fmt::format("available: {}", join(known)) : std::string(row->instead));
    return -1;
  }
  reader.problem(node.place, key, fmt::format("unknown {} {}", key, in_quotes(node.text)),
                 nearest_note(node.text, known, "one of"));
  return -1;
}

bool expect_map(Reader& reader, const YamlNode& node, const std::string& key, std::string_view example) {
  if (node.is_map()) return true;
  reader.problem(node.place, key, fmt::format("{} must be a map, not {}", key, describe(node)),
                 fmt::format("write it as in {}", example));
  return false;
}

bool expect_list(Reader& reader, const YamlNode& node, const std::string& key, std::string_view example) {
  if (node.is_sequence()) return true;
  reader.problem(node.place, key, fmt::format("{} must be a list, not {}", key, describe(node)),
                 fmt::format("write it as in {}", example));
  return false;
}

void report_unknown_key(Reader& reader, const YamlEntry& entry, const std::string& key,
                        std::span<const std::string> known) {
  const std::string_view parent =
      std::string_view(key).substr(0, key.size() - std::min(key.size(), entry.key.size() + 1));
  if (const NotSimulated* row = find_key_not_simulated(parent, entry.key)) {
    reader.problem(entry.key_place, key, fmt::format("{} is not simulated by this version", key),
                   std::string(row->instead));
    return;
  }
  reader.problem(entry.key_place, key, fmt::format("unknown key {}", in_quotes(entry.key)),
                 nearest_note(entry.key, known, "keys here"));
}

void report_missing_key(Reader& reader, const YamlNode& map, const std::string& key, std::string_view name,
                        std::string_view doc) {
  const std::string path = child_key(key, name);
  reader.problem(map.place, path, fmt::format("{} is missing", path), std::string(doc));
}

}  // namespace orrery
