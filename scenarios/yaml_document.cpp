#include "scenarios/yaml_document.hpp"

#include <fmt/format.h>
#include <yaml-cpp/anchor.h>
#include <yaml-cpp/emitterstyle.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/parser.h>

#include <istream>
#include <map>
#include <optional>
#include <set>
#include <streambuf>
#include <utility>

#include "scenarios/text_check.hpp"

namespace orrery {

namespace {

constexpr std::string_view kStandardTag = "tag:yaml.org,2002:";  // "!!" for short

// Thrown out of yaml-cpp's event handler to end the parse; parse_yaml catches it. The only way to stop that parser.
struct StopParsing {};

// One map or list that is still open.
struct OpenNode {
  YamlNode node;
  YAML::anchor_t anchor = 0;
  std::optional<YamlEntry> pending;  // map: the key that waits for its value
  std::set<std::string, std::less<>> keys;
};

// An alias stands for what its anchor marked, once that is complete.
struct Anchored {
  YamlNode node;
  std::size_t size = 0;  // nodes in it
};

std::size_t count_nodes(const YamlNode& node) {
  std::size_t count = 1;
  for (const YamlNode& item : node.items) count += count_nodes(item);
  for (const YamlEntry& entry : node.entries) count += count_nodes(entry.value);
  return count;
}

std::size_t depth_of(const YamlNode& node) {
  std::size_t depth = 0;
  for (const YamlNode& item : node.items) depth = std::max(depth, depth_of(item));
  for (const YamlEntry& entry : node.entries) depth = std::max(depth, depth_of(entry.value));
  return depth + 1;
}

class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(std::shared_ptr<const YamlOrigin> origin) : origin_(std::move(origin)) {}

  void OnDocumentStart(const YAML::Mark& mark) override {
    if (documents_++ > 0) stop(place(mark), "a second document begins here", "one file holds one document; drop '---'");
  }
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { add_leaf(YamlNode::Kind::null, mark, anchor); }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) {
      stop(place(mark), "an alias stands inside what its own anchor marks", "a value cannot contain itself");
    }
    count(found->second.size, mark);
    if (open_.size() + depth_of(found->second.node) > kYamlDepthMax) too_deep(mark);
    add(YamlNode(found->second.node), place(mark), 0);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    for (const std::string_view standard : {"int", "float", "bool", "null"}) {
      if (tag == fmt::format("{}{}", kStandardTag, standard)) return OnScalar(mark, "?", anchor, value);
    }
    refuse_tag(mark, tag, "str");
    if (value.size() > kYamlScalarBytesMax) {
      stop(place(mark), fmt::format("a value of {} characters", value.size()),
           fmt::format("no value is longer than {}", kYamlScalarBytesMax));
    }
    count(1, mark);
    YamlNode node;
    node.kind = YamlNode::Kind::scalar;
    node.quoted = tag != "?";
    node.text = value;
    node.place = place(mark);
    add(std::move(node), place(mark), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    refuse_tag(mark, tag, "seq");
    open(YamlNode::Kind::sequence, mark, anchor);
  }
  void OnSequenceEnd() override { close(); }

  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    refuse_tag(mark, tag, "map");
    open(YamlNode::Kind::map, mark, anchor);
  }
  void OnMapEnd() override { close(); }

  std::optional<YamlNode> root;
  Problems problems;

 private:
  [[nodiscard]] YamlPlace place(const YAML::Mark& mark) const {
    return mark.is_null() ? YamlPlace{origin_, 1, 1} : YamlPlace{origin_, mark.line + 1, mark.column + 1};
  }

  void report(const YamlPlace& at, std::string message, std::string note) {
    problems.push_back({"", std::move(message), std::move(note), at.location()});
  }
  [[noreturn]] void stop(const YamlPlace& at, std::string message, std::string note) {
    report(at, std::move(message), std::move(note));
    throw StopParsing{};
  }
  [[noreturn]] void too_deep(const YAML::Mark& mark) {
    stop(place(mark), "nested too deeply", fmt::format("at most {} levels are read", kYamlDepthMax));
  }

  void refuse_tag(const YAML::Mark& mark, const std::string& tag, std::string_view allowed) {
    if (tag.empty() || tag == "?" || tag == "!" || tag == fmt::format("{}{}", kStandardTag, allowed)) return;
    const std::string shown = tag.starts_with(kStandardTag) ? "!!" + tag.substr(kStandardTag.size()) : tag;
    report(place(mark), fmt::format("tag {} is not understood", in_quotes(shown)), "write the value without a tag");
  }

  void count(std::size_t more, const YAML::Mark& mark) {
    nodes_ += more;
    if (nodes_ > kYamlNodesMax) {
      stop(place(mark), fmt::format("more than {} values", kYamlNodesMax), "values count again at each alias to them");
    }
  }

  void add_leaf(YamlNode::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    count(1, mark);
    YamlNode node;
    node.kind = kind;
    node.place = place(mark);
    add(std::move(node), place(mark), anchor);
  }

  void open(YamlNode::Kind kind, const YAML::Mark& mark, YAML::anchor_t anchor) {
    count(1, mark);
    if (open_.size() >= kYamlDepthMax) too_deep(mark);
    OpenNode opened;
    opened.node.kind = kind;
    opened.node.place = place(mark);
    opened.anchor = anchor;
    open_.push_back(std::move(opened));
  }

  void close() {
    OpenNode closed = std::move(open_.back());
    open_.pop_back();
    const YamlPlace at = closed.node.place;
    add(std::move(closed.node), at, closed.anchor);
  }

  void add(YamlNode node, const YamlPlace& at, YAML::anchor_t anchor) {
    if (anchor != 0) anchors_[anchor] = Anchored{node, count_nodes(node)};
    if (open_.empty()) {
      root = std::move(node);
      return;
    }
    OpenNode& parent = open_.back();
    if (parent.node.is_sequence()) {
      parent.node.items.push_back(std::move(node));
    } else if (!parent.pending) {
      parent.pending = key_from(node, at);
    } else {
      add_value(parent, std::move(node));
    }
  }

  YamlEntry key_from(const YamlNode& node, const YamlPlace& at) {
    if (!node.is_scalar()) {
      report(at, fmt::format("a key must be a word, not {}", describe(node)),
             node.is_null() ? "is there a ',' or ':' too many?" : "");
    }
    return YamlEntry{node.text, at, {}};
  }

  void add_value(OpenNode& parent, YamlNode value) {
    YamlEntry entry = std::move(*parent.pending);
    parent.pending.reset();
    if (value.is_null()) value.place = entry.key_place;
    entry.value = std::move(value);
    if (!parent.keys.insert(entry.key).second) {
      const SourceLocation first = parent.node.find(entry.key)->key_place.location();
      report(entry.key_place, fmt::format("duplicate key {}", in_quotes(entry.key)),
             fmt::format("first given at {}:{}", first.line, first.column));
      return;
    }
    parent.node.entries.push_back(std::move(entry));
  }

  std::shared_ptr<const YamlOrigin> origin_;
  std::vector<OpenNode> open_;
  std::map<YAML::anchor_t, Anchored> anchors_;
  std::size_t nodes_ = 0;
  int documents_ = 0;
};

// Reads from memory without a copy.
class ViewBuffer : public std::streambuf {
 public:
  explicit ViewBuffer(std::string_view text) {
    char* begin = const_cast<char*>(text.data());  // NOLINT: streambuf wants char*, and a get area is only read
    setg(begin, begin, begin + text.size());
  }
};

struct Hint {
  std::string_view message;  // yaml-cpp's
  std::string_view note;
};

// What most often lies behind yaml-cpp's messages.
constexpr Hint kHints[] = {
    {"illegal map value", "a value that contains ': ' must be in quotes; or the indentation is off, or made of tabs"},
    {"end of map not found", "keys of one map begin in one column, or '}' is missing"},
    {"end of map flow not found", "'}' or ',' is missing"},
    {"end of sequence not found", "items of one list begin in one column"},
    {"end of sequence flow not found", "']' or ',' is missing"},
    {"illegal flow end", "a ']' or '}' without its beginning"},
    {"unknown anchor", "an alias (*name) refers to an anchor (&name) further up"},
    {"the referenced anchor is not defined", "an alias (*name) refers to an anchor (&name) further up"},
    {"illegal block entry", "'- ' begins a list item on a line of its own"},
    {"illegal EOF in scalar", "a quotation mark is missing"},
    {"unknown token", "quote a value that begins with one of ` @ % & * ! | > or a tab"},
};

std::string hint_for(std::string_view message) {
  for (const Hint& hint : kHints) {
    if (message.starts_with(hint.message)) return std::string(hint.note);
  }
  return "";
}

// Puts the entries of the maps under "<<" beneath those written out, as YAML 1.1's merge key does.
void apply_merge_keys(YamlNode& node, Problems& problems) {
  for (YamlNode& item : node.items) apply_merge_keys(item, problems);
  for (YamlEntry& entry : node.entries) apply_merge_keys(entry.value, problems);
  const YamlEntry* merge = node.find("<<");
  if (merge == nullptr) return;
  const YamlEntry merged = *merge;
  std::erase_if(node.entries, [](const YamlEntry& entry) { return entry.key == "<<"; });
  const std::vector<YamlNode> maps = merged.value.is_sequence() ? merged.value.items : std::vector{merged.value};
  std::set<std::string, std::less<>> keys;
  for (const YamlEntry& entry : node.entries) keys.insert(entry.key);
  for (const YamlNode& map : maps) {
    if (!map.is_map()) {
      problems.push_back({"", fmt::format("'<<' merges maps, not {}", describe(map)), "", merged.key_place.location()});
      continue;
    }
    for (const YamlEntry& entry : map.entries) {
      if (keys.insert(entry.key).second) node.entries.push_back(entry);
    }
  }
}

}  // namespace

SourceLocation YamlPlace::location() const {
  return origin == nullptr ? SourceLocation{} : SourceLocation{origin->name, line, column};
}

const YamlEntry* YamlNode::find(std::string_view key) const {
  for (const YamlEntry& entry : entries) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

YamlEntry* YamlNode::find(std::string_view key) {
  return const_cast<YamlEntry*>(std::as_const(*this).find(key));  // NOLINT: the node itself is not const
}

std::string_view describe(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "nothing";
    case YamlNode::Kind::scalar:
      return "a single value";
    case YamlNode::Kind::sequence:
      return "a list";
    case YamlNode::Kind::map:
      return "a map";
  }
  return "";
}

Result<YamlNode> parse_yaml(std::string_view text, std::shared_ptr<const YamlOrigin> origin) {
  if (auto problem = find_text_problem(text, origin->name)) return *problem;
  // Without the last line's end: yaml-cpp takes a quotation mark that is missing for closed there. (A block text that
  // ends the file loses its last newline.)
  text = without_trailing_space(without_byte_order_mark(text));
  TreeBuilder builder(origin);
  try {
    ViewBuffer buffer(text);
    std::istream stream(&buffer);
    YAML::Parser parser(stream);
    while (parser.HandleNextDocument(builder)) {
    }
  } catch (const StopParsing&) {
  } catch (const YAML::Exception& error) {
    const YAML::Mark mark = error.mark.is_null() ? YAML::Mark() : error.mark;
    builder.problems.push_back(
        {"", error.msg, hint_for(error.msg), SourceLocation{origin->name, mark.line + 1, mark.column + 1}});
  }
  if (!builder.problems.empty()) return builder.problems;
  if (!builder.root) return Problem{"", "the file is empty", "", SourceLocation{origin->name, 1, 1}};
  Problems problems;
  apply_merge_keys(*builder.root, problems);
  if (!problems.empty()) return problems;
  return std::move(*builder.root);
}

std::string to_yaml_text(const YamlNode& node) {
  std::string text;
  switch (node.kind) {
    case YamlNode::Kind::null:
      return "null";
    case YamlNode::Kind::scalar:
      return node.quoted ? escaped_in_quotes(node.text) : node.text;
    case YamlNode::Kind::sequence:
      for (const YamlNode& item : node.items) text += (text.empty() ? "" : ", ") + to_yaml_text(item);
      return "[" + text + "]";
    case YamlNode::Kind::map:
      for (const YamlEntry& entry : node.entries) {
        text += (text.empty() ? "" : ", ") + escaped_in_quotes(entry.key) + ": " + to_yaml_text(entry.value);
      }
      return "{" + text + "}";
  }
  return text;
}

std::string in_quotes(std::string_view text) {
  constexpr std::size_t kShown = 60;
  if (text.size() <= kShown) return escaped_in_quotes(text);
  std::size_t cut = kShown;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0U) == 0x80U) --cut;  // not inside a character
  return escaped_in_quotes(std::string(text.substr(0, cut)) + "...");
}

}  // namespace orrery
