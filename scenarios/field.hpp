// Reading maps by table. A block of the schema is an array of rows, one per key: its name, the member it fills, its
// range, whether it must be there, and a line of documentation. Type and unit follow from the member's type. A new key
// is one new row; unknown keys, missing keys, types, units and ranges are checked here, alike for all blocks.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "scenarios/quantity.hpp"
#include "scenarios/yaml_document.hpp"
#include "sim/base/problem.hpp"
#include "sim/base/units.hpp"

namespace orrery {

class Catalog;

// Collects what is found while a tree is read: problems, where each dotted key stands, and remarks for the user.
class Reader {
 public:
  explicit Reader(Catalog& catalog) : catalog_(&catalog) {}

  void problem(const YamlPlace& place, std::string key, std::string message, std::string note = "");
  void add(Problems problems);
  void remark(std::string text) { remarks_.push_back(std::move(text)); }

  // Remembers where `key` stands, so that problems that name only the key can be located later.
  void locate(const std::string& key, const YamlPlace& place) { places_.insert_or_assign(key, place); }

  // The place of `key`, or of its nearest parent that stands anywhere.
  [[nodiscard]] YamlPlace place_of(std::string key) const;

  [[nodiscard]] Catalog& catalog() const { return *catalog_; }
  [[nodiscard]] const Problems& problems() const { return problems_; }
  [[nodiscard]] std::vector<std::string>& remarks() { return remarks_; }

 private:
  Catalog* catalog_;
  Problems problems_;
  std::map<std::string, YamlPlace, std::less<>> places_;
  std::vector<std::string> remarks_;
};

// Bounds of a number in its dimension's base unit (counts as they are; see quantity.hpp), both included.
struct Range {
  double least = 0;
  double most = 0;
};

// Bounds that catch slips of the pen, not limits of the simulator: a petabyte per second is beyond any machine.
inline constexpr Range kAnyCount{1, 1e9};
inline constexpr Range kCountOrZero{0, 1e9};
inline constexpr Range kSize{1, 1e18};
inline constexpr Range kDataRate{1e3, 1e15};
inline constexpr Range kComputeRate{1e6, 1e21};
inline constexpr Range kTime{0, 3600e12};  // an hour
inline constexpr Range kPower{0, 1e7};
inline constexpr Range kFraction{0, 1};
inline constexpr Range kPositiveFraction{1e-6, 1};

template <class T>
struct FieldRow {
  using Custom = void (*)(Reader&, const YamlNode&, const std::string& key, T&);
  using Member = std::variant<std::int64_t T::*, int T::*, double T::*, bool T::*, std::string T::*, Duration T::*,
                              Bytes T::*, BytesPerSecond T::*, FlopsPerSecond T::*, Watts T::*, Custom>;

  std::string_view name;
  Member member;
  Range range{};
  std::string_view doc;
  bool required = false;
  Dimension dimension = Dimension::number;  // of doubles
};

// Single values. Each reports what is wrong under `key` and returns whether `out` was set.
bool read_number(Reader& reader, const YamlNode& node, const std::string& key, Dimension dimension, Range range,
                 double& out);
bool read_integer(Reader& reader, const YamlNode& node, const std::string& key, Range range, std::int64_t& out);
bool read_boolean(Reader& reader, const YamlNode& node, const std::string& key, bool& out);
bool read_text(Reader& reader, const YamlNode& node, const std::string& key, std::string& out);

// The index of the text in `names`; -1 after a report with the nearest name.
int read_one_of(Reader& reader, const YamlNode& node, const std::string& key, std::span<const std::string_view> names);

// Reports unless the node is a map (or a list).
bool expect_map(Reader& reader, const YamlNode& node, const std::string& key, std::string_view example);
bool expect_list(Reader& reader, const YamlNode& node, const std::string& key, std::string_view example);

// Reports a key that no row has; the note names the nearest of `known`, or lists all.
void report_unknown_key(Reader& reader, const YamlEntry& entry, const std::string& key,
                        std::span<const std::string> known);
void report_missing_key(Reader& reader, const YamlNode& map, const std::string& key, std::string_view name,
                        std::string_view doc);

[[nodiscard]] std::string child_key(const std::string& key, std::string_view name);
[[nodiscard]] std::string child_key(const std::string& key, std::size_t index);

// What is documented of one key: for `--help`, `orrery catalog` and the README's test.
struct KeyDoc {
  std::string key;   // dotted, with "[]" for the items of a list
  std::string kind;  // "integer", "size", "text", ...
  std::string example;
  std::string doc;
  bool required = false;
};

// What a member's type is called, and the example of its unit.
struct MemberKind {
  std::string_view name;
  std::string_view example;
};
[[nodiscard]] MemberKind number_kind(Dimension dimension);

namespace detail {

template <class T, class Member>
bool read_member(Reader& reader, const YamlNode& node, const std::string& key, const FieldRow<T>& row,
                 Member T::*member, T& target) {
  auto& out = target.*member;
  if constexpr (std::is_same_v<Member, bool>) {
    return read_boolean(reader, node, key, out);
  } else if constexpr (std::is_same_v<Member, std::string>) {
    return read_text(reader, node, key, out);
  } else if constexpr (std::is_integral_v<Member>) {
    std::int64_t value = 0;
    if (!read_integer(reader, node, key, row.range, value)) return false;
    out = static_cast<Member>(value);
    return true;
  } else if constexpr (std::is_same_v<Member, double>) {
    return read_number(reader, node, key, row.dimension, row.range, out);
  } else {
    constexpr Dimension kDimension = std::is_same_v<Member, Duration>         ? Dimension::time
                                     : std::is_same_v<Member, Bytes>          ? Dimension::size
                                     : std::is_same_v<Member, BytesPerSecond> ? Dimension::data_rate
                                     : std::is_same_v<Member, FlopsPerSecond> ? Dimension::compute_rate
                                                                              : Dimension::power;
    double value = 0;
    if (!read_number(reader, node, key, kDimension, row.range, value)) return false;
    using Rep = decltype(out.count());
    out = Member(static_cast<Rep>(std::is_integral_v<Rep> ? value + 0.5 : value));  // to the nearest whole; value >= 0
    return true;
  }
}

template <class T, class Member>
constexpr MemberKind member_kind(Member T::*, Dimension dimension) {
  if constexpr (std::is_same_v<Member, bool>) return {"boolean", "true"};
  if constexpr (std::is_same_v<Member, std::string>) return {"text", ""};
  if constexpr (std::is_integral_v<Member>) return {"integer", "8"};
  if constexpr (std::is_same_v<Member, Duration>) return number_kind(Dimension::time);
  if constexpr (std::is_same_v<Member, Bytes>) return number_kind(Dimension::size);
  if constexpr (std::is_same_v<Member, BytesPerSecond>) return number_kind(Dimension::data_rate);
  if constexpr (std::is_same_v<Member, FlopsPerSecond>) return number_kind(Dimension::compute_rate);
  if constexpr (std::is_same_v<Member, Watts>) return number_kind(Dimension::power);
  return number_kind(dimension);
}

}  // namespace detail

// Fills `target` from one value by its row.
template <class T>
void read_field(Reader& reader, const YamlNode& node, const std::string& key, const FieldRow<T>& row, T& target) {
  std::visit(
      [&](auto member) {
        if constexpr (std::is_same_v<decltype(member), typename FieldRow<T>::Custom>) {
          member(reader, node, key, target);
        } else {
          detail::read_member(reader, node, key, row, member, target);
        }
      },
      row.member);
}

template <class T>
const FieldRow<T>* find_row(std::span<const FieldRow<T>> rows, std::string_view name) {
  for (const FieldRow<T>& row : rows) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

// Reads all keys of a map but those in `taken` (which the caller reads itself). An explicit null is as good as absent.
// `complete`: report required keys that are missing.
template <class T>
void read_fields(Reader& reader, const YamlNode& map, const std::string& key, std::span<const FieldRow<T>> rows,
                 T& target, bool complete = true, std::span<const std::string_view> taken = {}) {
  for (const YamlEntry& entry : map.entries) {
    const std::string path = child_key(key, entry.key);
    reader.locate(path, entry.value.place);
    bool is_taken = false;
    for (const std::string_view name : taken) is_taken = is_taken || name == entry.key;
    if (is_taken) continue;
    const FieldRow<T>* row = find_row(rows, entry.key);
    if (row == nullptr) {
      std::vector<std::string> known(taken.begin(), taken.end());
      for (const FieldRow<T>& known_row : rows) known.emplace_back(known_row.name);
      report_unknown_key(reader, entry, path, known);
    } else if (!entry.value.is_null()) {
      read_field(reader, entry.value, path, *row, target);
    }
  }
  if (!complete) return;
  for (const FieldRow<T>& row : rows) {
    const YamlEntry* entry = map.find(row.name);
    if (row.required && (entry == nullptr || entry->value.is_null())) {
      report_missing_key(reader, map, key, row.name, row.doc);
    }
  }
}

// The documentation of a table's keys, under `prefix`.
template <class T>
void append_docs(std::vector<KeyDoc>& docs, const std::string& prefix, std::span<const FieldRow<T>> rows) {
  for (const FieldRow<T>& row : rows) {
    const MemberKind kind = std::visit(
        [&](auto member) {
          if constexpr (std::is_same_v<decltype(member), typename FieldRow<T>::Custom>) {
            return MemberKind{"", ""};
          } else {
            return detail::member_kind(member, row.dimension);
          }
        },
        row.member);
    docs.push_back({child_key(prefix, row.name), std::string(kind.name), std::string(kind.example),
                    std::string(row.doc), row.required});
  }
}

}  // namespace orrery
