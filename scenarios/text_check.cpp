#include "scenarios/text_check.hpp"

#include <fmt/format.h>

#include <cstddef>

#include "scenarios/yaml_document.hpp"

namespace orrery {

namespace {

constexpr std::string_view kUtf8Mark = "\xEF\xBB\xBF";

// Length of the UTF-8 sequence that begins `text`, or 0 where it is broken (Unicode 15, table 3-7).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U; };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0U) == 0x80U; };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if ((first & 0xF0U) == 0xE0U) {
    const bool overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = first == 0xED && byte(1) > 0x9F;
    return continues(1) && continues(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool overlong = first == 0xF0 && byte(1) < 0x90;
    const bool beyond = first == 0xF4 && byte(1) > 0x8F;
    return continues(1) && continues(2) && continues(3) && !overlong && !beyond ? 4 : 0;
  }
  return 0;
}

bool is_control(char c) {
  const auto code = static_cast<unsigned char>(c);
  return (code < 0x20 && c != '\t' && c != '\n' && c != '\r') || code == 0x7F;
}

}  // namespace

std::optional<Problem> find_text_problem(std::string_view text, const std::string& name) {
  if (text.size() > kFileBytesMax) {
    return Problem{"", fmt::format("{} bytes are too many to read", text.size()),
                   fmt::format("at most {} MiB are read", kFileBytesMax >> 20), SourceLocation{name, 1, 1}};
  }
  if (text.starts_with("\xFE\xFF") || text.starts_with("\xFF\xFE")) {
    return Problem{"", "the file is UTF-16", "save it as UTF-8", SourceLocation{name, 1, 1}};
  }
  int line = 1;
  std::size_t line_start = 0;
  std::size_t flow_marks = 0;
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const auto here = [&] { return SourceLocation{name, line, static_cast<int>(i - line_start) + 1}; };
    if (is_control(c)) {
      return Problem{"", fmt::format("control character 0x{:02X}: this is no text file", static_cast<unsigned char>(c)),
                     "a scenario is YAML or JSON text in UTF-8", here()};
    }
    const std::size_t length = utf8_length(text.substr(i));
    if (length == 0) {
      return Problem{"", fmt::format("byte 0x{:02X} is not valid UTF-8", static_cast<unsigned char>(c)),
                     "a scenario is YAML or JSON text in UTF-8", here()};
    }
    // The parser looks ahead through a whole bracket before it tells us of its first value, so endless ones are found
    // here. Brackets and commas inside texts count too: a scenario has nowhere near as many.
    if (c == '[' || c == '{' || c == ',') ++flow_marks;
    if (flow_marks > kYamlNodesMax) {
      return Problem{"", fmt::format("more than {} brackets and commas", kYamlNodesMax),
                     "a scenario is a page or two of text", here()};
    }
    i += length;
    if (c == '\n') {
      ++line;
      line_start = i;
    }
  }
  return std::nullopt;
}

std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with(kUtf8Mark)) text.remove_prefix(kUtf8Mark.size());
  return text;
}

std::string_view without_trailing_space(std::string_view text) {
  const std::size_t last = text.find_last_not_of(" \t\r\n");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

std::string escaped_in_quotes(std::string_view text) {
  std::string escaped = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      escaped += {'\\', c};
    } else if (c == '\n') {
      escaped += "\\n";
    } else if (c == '\t') {
      escaped += "\\t";
    } else if (c == '\r') {
      escaped += "\\r";
    } else if (is_control(c)) {
      escaped += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    } else {
      escaped += c;
    }
  }
  return escaped + "\"";
}

}  // namespace orrery
