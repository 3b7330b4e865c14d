// toml++ reads dotted keys and brackets by recursion, and frees its tables so too: both depths are bounded before it
// sees the text, and by its own limit while it reads.
#include "scenarios/import/toml_document.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string>
#include <tuple>

#define TOML_EXCEPTIONS 0
#define TOML_HEADER_ONLY 1
#define TOML_MAX_NESTED_VALUES 32
#include <toml++/toml.h>

#include "scenarios/text_check.hpp"

namespace orrery {

namespace {

constexpr std::ptrdiff_t kDotsMost = 64;  // in one line, inside texts too

std::optional<Problem> find_deep_line(std::string_view text, const std::string& name) {
  int line = 1;
  for (std::size_t at = 0; at < text.size(); ++line) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    const std::string_view words = text.substr(at, end - at);
    if (std::count(words.begin(), words.end(), '.') > kDotsMost) {
      return Problem{"", fmt::format("more than {} dots in a line", kDotsMost), "a plan's keys have one or two",
                     SourceLocation{name, line, 1}};
    }
    at = end + 1;
  }
  return std::nullopt;
}

class TomlBuilder {
 public:
  explicit TomlBuilder(std::shared_ptr<const YamlOrigin> origin) : origin_(std::move(origin)) {}

  YamlNode build(const toml::node& node) {
    ++nodes;
    YamlNode built;
    built.place = place(node.source());
    if (const toml::table* table = node.as_table()) {
      built.kind = YamlNode::Kind::map;
      for (const auto& [key, value] : *table) {
        built.entries.push_back({std::string(key.str()), place(key.source()), build(value)});
      }
      // The parser sorts by name; people read from top to bottom.
      std::stable_sort(built.entries.begin(), built.entries.end(), [](const YamlEntry& a, const YamlEntry& b) {
        return std::tie(a.key_place.line, a.key_place.column) < std::tie(b.key_place.line, b.key_place.column);
      });
    } else if (const toml::array* array = node.as_array()) {
      built.kind = YamlNode::Kind::sequence;
      for (const toml::node& item : *array) built.items.push_back(build(item));
    } else {
      built.kind = YamlNode::Kind::scalar;
      built.quoted = node.is_string();
      built.text = text_of(node);
    }
    return built;
  }

  std::size_t nodes = 0;

 private:
  [[nodiscard]] YamlPlace place(const toml::source_region& source) const {
    return {origin_, static_cast<int>(source.begin.line), static_cast<int>(source.begin.column)};
  }

  static std::string text_of(const toml::node& node) {
    if (const auto* text = node.as_string()) return text->get();
    if (const auto* truth = node.as_boolean()) return truth->get() ? "true" : "false";
    if (const auto* integer = node.as_integer()) return fmt::format("{}", integer->get());
    if (const auto* real = node.as_floating_point()) return fmt::format("{}", real->get());
    std::ostringstream date;
    node.visit([&](const auto& value) {
      if constexpr (toml::is_date_time<decltype(value)> || toml::is_date<decltype(value)> ||
                    toml::is_time<decltype(value)>) {
        date << value.get();
      }
    });
    return date.str();
  }

  std::shared_ptr<const YamlOrigin> origin_;
};

}  // namespace

Result<YamlNode> parse_toml(std::string_view text, std::shared_ptr<const YamlOrigin> origin) {
  if (auto problem = find_text_problem(text, origin->name)) return *problem;
  text = without_byte_order_mark(text);
  if (auto problem = find_deep_line(text, origin->name)) return *problem;
  const toml::parse_result result = toml::parse(text);
  if (!result) {
    const toml::source_position at = result.error().source().begin;
    return Problem{
        "", std::string(result.error().description()), "",
        SourceLocation{origin->name, std::max(1, static_cast<int>(at.line)), std::max(1, static_cast<int>(at.column))}};
  }
  TomlBuilder builder(origin);
  YamlNode root = builder.build(result.table());
  if (builder.nodes > kYamlNodesMax) {
    return Problem{"", fmt::format("more than {} values", kYamlNodesMax), "a plan is a page or two of text",
                   SourceLocation{origin->name, 1, 1}};
  }
  return root;
}

}  // namespace orrery
