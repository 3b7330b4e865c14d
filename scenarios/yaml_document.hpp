// A YAML (or JSON) text as a tree in which every key and value knows where it stands.
//
// The parser is yaml-cpp, driven through its events, so that nothing but yaml_document.cpp sees it, and so that what a
// user can get wrong is caught while the text is read: duplicate keys, keys that are not words, second documents,
// aliases that grow without end ("billion laughs"), nesting without end, and files that are not text at all.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/problem.hpp"

namespace orrery {

// Bounds on what is read; a file beyond one of them is refused with a message that names it.
inline constexpr std::size_t kFileBytesMax = std::size_t{16} << 20;
inline constexpr std::size_t kYamlNodesMax = 100'000;  // after aliases are expanded
inline constexpr std::size_t kYamlDepthMax = 64;
inline constexpr std::size_t kYamlScalarBytesMax = 65'536;

// What a text came from: a file, or an option of the command line.
struct YamlOrigin {
  std::string name;    // as shown in messages
  std::string folder;  // what relative paths in it start from
};

// Where a key or value begins. Line and column count from 1; 0: the origin has no lines.
struct YamlPlace {
  std::shared_ptr<const YamlOrigin> origin;
  int line = 0;
  int column = 0;

  [[nodiscard]] SourceLocation location() const;
  [[nodiscard]] std::string folder() const { return origin == nullptr ? std::string() : origin->folder; }
};

struct YamlEntry;

struct YamlNode {
  enum class Kind : std::uint8_t { null, scalar, sequence, map };

  Kind kind = Kind::null;
  bool quoted = false;             // scalar: written in quotes, or as a block
  std::string text;                // scalar
  std::vector<YamlNode> items;     // sequence
  std::vector<YamlEntry> entries;  // map, in the order written; keys are unique
  YamlPlace place;

  [[nodiscard]] bool is_null() const { return kind == Kind::null; }
  [[nodiscard]] bool is_scalar() const { return kind == Kind::scalar; }
  [[nodiscard]] bool is_sequence() const { return kind == Kind::sequence; }
  [[nodiscard]] bool is_map() const { return kind == Kind::map; }

  // The entry of a map with this key, or null. O(entries).
  [[nodiscard]] const YamlEntry* find(std::string_view key) const;
  [[nodiscard]] YamlEntry* find(std::string_view key);
};

struct YamlEntry {
  std::string key;
  YamlPlace key_place;
  YamlNode value;
};

// "a map", "a list", "text", "nothing": for messages.
[[nodiscard]] std::string_view describe(const YamlNode& node);

// The tree of one document. An empty text is a problem. `origin` stands in every place.
[[nodiscard]] Result<YamlNode> parse_yaml(std::string_view text, std::shared_ptr<const YamlOrigin> origin);

// The whole file. Problems: missing (with the nearest name in its folder), a folder, unreadable, too large. `where` is
// what asked for the file; without it the problem stands at the file itself.
[[nodiscard]] Result<std::string> read_text_file(const std::string& path, const SourceLocation& where = {});

// One line of YAML that reads back as the same tree.
[[nodiscard]] std::string to_yaml_text(const YamlNode& node);

// Text from a user as it is quoted in messages: in double quotes, control characters escaped, cut when long.
[[nodiscard]] std::string in_quotes(std::string_view text);

}  // namespace orrery
