// One pass over the text. Every character of a value knows its line and column, so that a word is located where it was
// written however many variables it came through. Control flow is not followed: the branches of a condition are read
// one after the other, so of two assignments to one variable the later counts.
#include "scenarios/import/shell_words.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cstdint>
#include <map>
#include <optional>

#include "scenarios/text_check.hpp"

namespace orrery {

namespace {

constexpr std::size_t kBytesMost = std::size_t{1} << 18;  // of a script, and of all its expansions
constexpr int kDepthMost = 32;                            // of ${A:-${B:-...}} and of brackets in arithmetic

struct Spot {
  int line = 1;
  int column = 1;
};

// Text with the place of each of its bytes.
struct Located {
  std::string text;
  std::vector<Spot> spots;

  void add(char c, Spot spot) {
    text += c;
    spots.push_back(spot);
  }
  void add(const Located& other) {
    text += other.text;
    spots.insert(spots.end(), other.spots.begin(), other.spots.end());
  }
  void add(std::string_view other, Spot spot) {
    text += other;
    spots.insert(spots.end(), other.size(), spot);
  }
};

struct Variable {
  bool array = false;
  std::vector<Located> values;  // one, unless it is an array
};

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }
bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Ends a word outside quotes.
bool is_separator(char c) { return is_blank(c) || std::string_view("\n;&|()<>").find(c) != std::string_view::npos; }

constexpr std::array<std::string_view, 15> kKeywords{"if",   "then", "else", "elif", "fi",   "for", "while", "until",
                                                     "case", "esac", "do",   "done", "time", "{",   "}"};
constexpr std::array<std::string_view, 5> kConditions{"if", "for", "while", "until", "case"};
constexpr std::array<std::string_view, 6> kAssigners{"export", "local", "declare", "readonly", "typeset", "env"};

template <std::size_t N>
bool is_one_of(const std::string& text, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), text) != words.end();
}

// Sums, products and brackets over whole numbers; nothing where it is more than that, or overflows.
class Arithmetic {
 public:
  Arithmetic(std::string_view text, const std::map<std::string, Variable, std::less<>>& variables)
      : text_(text), variables_(variables) {}

  std::optional<std::int64_t> value() {
    const auto result = sum(0);
    skip();
    return at_ == text_.size() ? result : std::nullopt;
  }

 private:
  using Value = std::optional<std::int64_t>;

  void skip() {
    while (at_ < text_.size() && (is_blank(text_[at_]) || text_[at_] == '\n')) ++at_;
  }
  char next() {
    skip();
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  Value sum(int depth) {
    Value left = product(depth);
    while (left && (next() == '+' || next() == '-')) {
      const char sign = text_[at_++];
      const Value right = product(depth);
      std::int64_t result = 0;
      if (!right) return std::nullopt;
      const bool over =
          sign == '+' ? __builtin_add_overflow(*left, *right, &result) : __builtin_sub_overflow(*left, *right, &result);
      if (over) return std::nullopt;
      left = result;
    }
    return left;
  }

  Value product(int depth) {
    Value left = factor(depth);
    while (left && (next() == '*' || next() == '/' || next() == '%')) {
      const char sign = text_[at_++];
      const Value right = factor(depth);
      if (!right || (sign != '*' && (*right <= 0))) return std::nullopt;
      std::int64_t result = 0;
      if (sign == '*' && __builtin_mul_overflow(*left, *right, &result)) return std::nullopt;
      left = sign == '*' ? result : sign == '/' ? *left / *right : *left % *right;
    }
    return left;
  }

  Value factor(int depth) {
    if (depth > kDepthMost) return std::nullopt;
    if (next() == '(') {
      ++at_;
      const Value inner = sum(depth + 1);
      if (!inner || next() != ')') return std::nullopt;
      ++at_;
      return inner;
    }
    if (next() == '$') ++at_;
    const bool braced = next() == '{';
    if (braced) ++at_;
    const std::size_t start = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    const std::string_view word = text_.substr(start, at_ - start);
    if (braced && next() != '}') return std::nullopt;
    if (braced) ++at_;
    return word.empty() ? std::nullopt : is_digit(word.front()) ? number(word) : variable(word);
  }

  static Value number(std::string_view word) {
    std::int64_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    return value;
  }

  Value variable(std::string_view name) const {
    const auto found = variables_.find(name);
    if (found == variables_.end() || found->second.values.empty()) return std::nullopt;
    return number(found->second.values.front().text);
  }

  std::string_view text_;
  const std::map<std::string, Variable, std::less<>>& variables_;
  std::size_t at_ = 0;
};

class ShellReader {
 public:
  ShellReader(std::string_view text, std::shared_ptr<const YamlOrigin> origin)
      : text_(text), origin_(std::move(origin)) {}

  Result<ShellScript> run() {
    while (at_ < text_.size() && problems_.empty()) command();
    if (!problems_.empty()) return problems_;
    return std::move(script_);
  }

 private:
  // --- Characters.

  [[nodiscard]] bool over() const { return at_ >= text_.size() || !problems_.empty(); }
  [[nodiscard]] char peek(std::size_t ahead = 0) const {
    return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0';
  }
  [[nodiscard]] bool at(std::string_view words) const { return text_.substr(at_).starts_with(words); }
  char take() {
    const char c = text_[at_++];
    spot_.column += c == '\n' ? 0 : 1;
    if (c == '\n') spot_ = {spot_.line + 1, 1};
    return c;
  }
  void take(std::size_t count) {
    while (count-- > 0 && at_ < text_.size()) take();
  }
  void problem(Spot spot, std::string message, std::string note = "") {
    problems_.push_back(
        {"", std::move(message), std::move(note), SourceLocation{origin_->name, spot.line, spot.column}});
  }
  [[nodiscard]] YamlPlace place(Spot spot) const { return {origin_, spot.line, spot.column}; }

  // A backslash at the end of a line, with or without a carriage return.
  bool continues_line() {
    if (peek() != '\\') return false;
    const std::size_t length = peek(1) == '\n' ? 2 : peek(1) == '\r' && peek(2) == '\n' ? 3 : 0;
    take(length);
    return length > 0;
  }

  void skip_blanks() {
    while (!over() && (is_blank(peek()) || continues_line())) {
      if (is_blank(peek())) take();
    }
  }
  void skip_line() {
    while (!over() && peek() != '\n') take();
  }

  // --- Words.

  // The words that one written word becomes: none, one, or several where an expansion is split or an array stands.
  struct Words {
    std::vector<Located> done;
    Located current;
    bool begun = false;  // also by quotes around nothing

    void end() {
      if (begun) done.push_back(std::move(current));
      current = {};
      begun = false;
    }
  };

  std::vector<Located> word(bool split) {
    Words words;
    while (!over() && !is_separator(peek())) {
      const char c = peek();
      if (continues_line()) continue;
      if (c == '\\') {
        take();
        if (!over()) add(words, take());
      } else if (c == '\'') {
        single_quotes(words);
      } else if (c == '"') {
        double_quotes(words);
      } else if (c == '$' || c == '`') {
        expansion(words, !split, 0);
      } else {
        add(words, take());
      }
    }
    words.end();
    return std::move(words.done);
  }

  void add(Words& words, char c) {
    // The place of a byte that has just been taken.
    words.current.add(c, {spot_.line, std::max(1, spot_.column - 1)});
    words.begun = true;
  }

  void single_quotes(Words& words) {
    const Spot start = spot_;
    take();
    words.begun = true;
    while (!over() && peek() != '\'') add(words, take());
    if (over()) return problem(start, "this quotation mark has no other", "");
    take();
  }

  void double_quotes(Words& words) {
    const Spot start = spot_;
    take();
    // "${A[@]}" of an empty array is no word at all, and "" is one.
    words.begun = words.begun || !at("${") || peek() == '"';
    while (!over() && peek() != '"') {
      const char c = peek();
      if (continues_line()) continue;
      if (c == '\\' && std::string_view("\\\"$`").find(peek(1)) != std::string_view::npos && peek(1) != '\0') {
        take();
        add(words, take());
      } else if (c == '$' || c == '`') {
        expansion(words, true, 0);
      } else {
        add(words, take());
      }
    }
    if (over()) return problem(start, "this quotation mark has no other", "");
    take();
  }

  // --- Expansions. What cannot be expanded is added as it is written.

  void expansion(Words& words, bool quoted, int depth) {
    const Spot start = spot_;
    if (peek() == '`') return literal(words, start, 1, '`');
    if (at("$((")) return arithmetic(words, start);
    if (at("$(")) return brackets(words, start);
    if (at("${")) return braces(words, start, quoted, depth);
    take();
    std::string name;
    if (is_name_start(peek())) {
      while (!over() && is_name(peek())) name += take();
      return insert(words, name, quoted, false, "$" + name, start);
    }
    // $1, $@, $?, or a dollar sign by itself.
    std::string written = "$";
    if (peek() != '\0' && (is_digit(peek()) || std::string_view("@*#?$!-").find(peek()) != std::string_view::npos)) {
      written += take();
    }
    add(words, written, start);
  }

  void add(Words& words, std::string_view written, Spot spot) {
    if (!spend(written.size())) return;
    words.current.add(written, spot);
    words.begun = true;
  }

  bool spend(std::size_t bytes) {
    spent_ += bytes;
    if (spent_ > kBytesMost && problems_.empty()) problem(spot_, "variables expand to more text than can be read");
    return problems_.empty();
  }

  // Everything up to a closing character, as written.
  void literal(Words& words, Spot start, std::size_t opening, char closing) {
    const std::size_t from = at_;
    take(opening);
    while (!over() && peek() != closing) take();
    if (over()) return problem(start, "this bracket or quotation mark has no other");
    take();
    add(words, text_.substr(from, at_ - from), start);
  }

  // $(command), which is not run.
  void brackets(Words& words, Spot start) {
    const std::size_t from = at_;
    take(2);
    for (int open = 1; open > 0; take()) {
      if (over()) return problem(start, "this bracket has no other");
      open += peek() == '(' ? 1 : peek() == ')' ? -1 : 0;
    }
    add(words, text_.substr(from, at_ - from), start);
  }

  void arithmetic(Words& words, Spot start) {
    const std::size_t from = at_;
    take(3);
    const std::size_t inner = at_;
    for (int open = 0; !over() && !(open == 0 && at("))")); take()) {
      open += peek() == '(' ? 1 : peek() == ')' ? -1 : 0;
    }
    if (over()) return problem(start, "this bracket has no other");
    const std::string_view expression = text_.substr(inner, at_ - inner);
    take(2);
    const auto value = Arithmetic(expression, variables_).value();
    add(words, value ? std::to_string(*value) : std::string(text_.substr(from, at_ - from)), start);
  }

  // ${NAME}, ${NAME[@]}, ${NAME:-words}; all else as written.
  void braces(Words& words, Spot start, bool quoted, int depth) {
    const std::size_t from = at_;
    if (depth > kDepthMost) return problem(start, "nested too deeply");
    take(2);
    std::string name;
    while (!over() && is_name(peek())) name += take();
    const bool all = at("[@]") || at("[*]");
    if (all) take(3);
    if (peek() == '}') {
      take();
      return insert(words, name, quoted, all, std::string(text_.substr(from, at_ - from)), start);
    }
    const bool fallback = at(":-") || at(":=") || at("-") || at("=");
    if (!fallback || name.empty()) return rest_of_braces(words, from, start);
    take(peek() == ':' ? 2 : 1);
    Words value;
    while (!over() && peek() != '}') {
      if (peek() == '$' || peek() == '`') {
        expansion(value, true, depth + 1);
      } else if (peek() == '"' || peek() == '\'') {
        take();
      } else {
        add(value, take());
      }
    }
    if (over()) return problem(start, "this bracket has no other");
    take();
    const auto found = variables_.find(name);
    if (found != variables_.end() && !found->second.values.empty()) return insert(words, name, quoted, all, "", start);
    insert(words, value.current, quoted);
  }

  void rest_of_braces(Words& words, std::size_t from, Spot start) {
    for (int open = 1; open > 0; take()) {
      if (over()) return problem(start, "this bracket has no other");
      open += peek() == '{' ? 1 : peek() == '}' ? -1 : 0;
    }
    add(words, text_.substr(from, at_ - from), start);
  }

  // The value of a variable; `written` where it has none.
  void insert(Words& words, const std::string& name, bool quoted, bool all, std::string_view written, Spot start) {
    const auto found = variables_.find(name);
    if (found == variables_.end()) return add(words, written, start);
    const Variable& variable = found->second;
    for (std::size_t i = 0; i < variable.values.size(); ++i) {
      if (i > 0) {
        if (!all) return;  // of an array without [@], the first
        words.end();
      }
      if (quoted && all) words.begun = true;
      insert(words, variable.values[i], quoted);
    }
  }

  void insert(Words& words, const Located& value, bool quoted) {
    if (!spend(value.text.size() + 1)) return;
    if (quoted) {
      words.current.add(value);
      words.begun = words.begun || !value.text.empty();
      return;
    }
    for (std::size_t i = 0; i < value.text.size(); ++i) {
      if (is_blank(value.text[i]) || value.text[i] == '\n') {
        words.end();
      } else {
        words.current.add(value.text[i], value.spots[i]);
        words.begun = true;
      }
    }
  }

  // --- Commands.

  // NAME=, NAME+= at this place: the name's length, or 0.
  [[nodiscard]] std::size_t assignment_length() const {
    if (!is_name_start(peek())) return 0;
    std::size_t length = 1;
    while (is_name(peek(length))) ++length;
    return peek(length) == '=' || (peek(length) == '+' && peek(length + 1) == '=') ? length : 0;
  }

  void assignment(std::size_t length) {
    const std::string name(text_.substr(at_, length));
    take(length);
    const bool append = peek() == '+';
    take(append ? 2 : 1);
    Variable value;
    if (peek() == '(') {
      value = array();
    } else {
      const std::vector<Located> words = word(false);
      value.values.push_back(words.empty() ? Located{} : words.front());
    }
    Variable& variable = variables_[name];
    if (!append || variable.values.empty()) {
      variable = std::move(value);
    } else if (value.array) {
      variable.array = true;
      variable.values.insert(variable.values.end(), value.values.begin(), value.values.end());
    } else {
      variable.values.front().add(value.values.front());
    }
    std::size_t bytes = 0;
    for (const Located& part : variable.values) bytes += part.text.size() + 1;
    spend(bytes);
  }

  Variable array() {
    const Spot start = spot_;
    Variable value;
    value.array = true;
    take();
    while (!over() && peek() != ')') {
      if (is_blank(peek()) || peek() == '\n') {
        take();
      } else if (continues_line()) {
        continue;
      } else if (peek() == '#') {
        skip_line();
      } else if (is_separator(peek())) {
        take();
      } else {
        for (Located& part : word(true)) value.values.push_back(std::move(part));
      }
    }
    if (over()) {
      problem(start, "this bracket has no other");
    } else {
      take();
    }
    return value;
  }

  // One command, up to its end; what stands before its first word and is none of it is done away with.
  void command() {
    ShellCommand words;
    bool prefix = true;  // assignments may still come
    assigning_ = false;
    while (!over()) {
      skip_blanks();
      if (over()) break;
      const char c = peek();
      if (c == '#') {
        skip_line();
      } else if (c == '\n' || c == ';' || c == '&' || c == '|' || c == '(' || c == ')') {
        take();
        if (c == '\n') skip_here_documents();
        break;
      } else if (c == '<' || c == '>') {
        redirection();
      } else if (const std::size_t length = prefix ? assignment_length() : 0; length > 0) {
        assignment(length);
      } else {
        add_word(words, prefix);
      }
    }
    if (!words.empty()) script_.commands.push_back(std::move(words));
  }

  void add_word(ShellCommand& words, bool& prefix) {
    const Spot start = spot_;
    const std::size_t from = at_;
    std::vector<Located> parts = word(true);
    if (at_ == from && !over()) take();  // nothing that a word can hold
    const bool redirected = (peek() == '<' || peek() == '>') && parts.size() == 1 && !parts[0].text.empty() &&
                            std::all_of(parts[0].text.begin(), parts[0].text.end(), is_digit);
    if (redirected) return;  // the 2 of 2>&1
    if (words.empty() && parts.size() == 1 && is_one_of(parts[0].text, kKeywords)) {
      if (is_one_of(parts[0].text, kConditions)) script_.conditions.push_back(place(start));
      return;
    }
    if (words.empty() && parts.size() == 1 && is_one_of(parts[0].text, kAssigners)) assigning_ = true;
    if (assigning_ && words.empty() && parts.size() == 1 &&
        (parts[0].text.starts_with('-') || is_one_of(parts[0].text, kAssigners))) {
      return;  // declare -a
    }
    for (Located& part : parts) {
      if (!spend(part.text.size() + 1)) return;
      const Spot spot = part.spots.empty() ? start : part.spots.front();
      words.push_back({std::move(part.text), place(spot)});
      prefix = false;
    }
  }

  void redirection() {
    if (at("<<") && !at("<<<")) {
      take(2);
      if (peek() == '-') take();
      skip_blanks();
      std::vector<Located> words = word(false);
      if (!words.empty()) here_documents_.push_back(words.front().text);
      return;
    }
    while (!over() && (peek() == '<' || peek() == '>' || peek() == '&' || peek() == '|')) take();
    skip_blanks();
    word(false);
  }

  void skip_here_documents() {
    for (const std::string& end : here_documents_) {
      while (!over()) {
        const std::size_t from = at_;
        skip_line();
        std::string_view line = text_.substr(from, at_ - from);
        if (!over()) take();
        line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
        if (without_trailing_space(line) == end) break;
      }
    }
    here_documents_.clear();
  }

  std::string_view text_;
  std::shared_ptr<const YamlOrigin> origin_;
  std::size_t at_ = 0;
  Spot spot_;
  std::size_t spent_ = 0;
  bool assigning_ = false;  // behind export, declare, ...
  std::map<std::string, Variable, std::less<>> variables_;
  std::vector<std::string> here_documents_;
  ShellScript script_;
  Problems problems_;
};

}  // namespace

Result<ShellScript> read_shell(std::string_view text, std::shared_ptr<const YamlOrigin> origin) {
  if (auto problem = find_text_problem(text, origin->name)) return *problem;
  text = without_byte_order_mark(text);
  if (text.size() > kBytesMost) {
    return Problem{"", fmt::format("{} bytes are too many for a script", text.size()),
                   "a script is a page or two of text", SourceLocation{origin->name, 1, 1}};
  }
  return ShellReader(text, std::move(origin)).run();
}

}  // namespace orrery
