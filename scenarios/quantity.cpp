#include "scenarios/quantity.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <optional>
#include <span>
#include <vector>

#include "scenarios/yaml_document.hpp"
#include "sim/base/text.hpp"

namespace orrery {

namespace {

struct Unit {
  std::string_view name;
  Dimension dimension;
  double scale;        // one of it, in the dimension's base unit
  bool alias = false;  // understood, but not what we print or list
};

struct DimensionInfo {
  Dimension dimension;
  std::string_view name;
  std::string_view example;
  bool bare;  // a number without a unit is right
};

constexpr std::array<DimensionInfo, kDimensions> kInfos{{
    {Dimension::number, "a number", "16", true},
    {Dimension::fraction, "a fraction", "2 %", true},
    {Dimension::tokens, "a number of tokens", "300e9 tokens", true},
    {Dimension::parameters, "a number of parameters", "7e9", true},
    {Dimension::size, "a size", "80 GiB", false},
    {Dimension::time, "a time", "5 us", false},
    {Dimension::data_rate, "a data rate", "400 Gb/s", false},
    {Dimension::compute_rate, "a compute rate", "312 TFLOP/s", false},
    {Dimension::power, "a power", "400 W", false},
    {Dimension::price, "a price per hour", "32.77 USD/h", false},
}};

// In each dimension from large to small, aliases last.
constexpr Unit kUnits[] = {
    {"%", Dimension::fraction, 0.01},

    {"tokens", Dimension::tokens, 1},
    {"T tokens", Dimension::tokens, 1e12, true},
    {"B tokens", Dimension::tokens, 1e9, true},
    {"M tokens", Dimension::tokens, 1e6, true},
    {"K tokens", Dimension::tokens, 1e3, true},
    {"T", Dimension::tokens, 1e12, true},
    {"B", Dimension::tokens, 1e9, true},
    {"M", Dimension::tokens, 1e6, true},
    {"K", Dimension::tokens, 1e3, true},
    {"token", Dimension::tokens, 1, true},

    {"parameters", Dimension::parameters, 1},
    {"T parameters", Dimension::parameters, 1e12, true},
    {"B parameters", Dimension::parameters, 1e9, true},
    {"M parameters", Dimension::parameters, 1e6, true},
    {"T", Dimension::parameters, 1e12, true},
    {"B", Dimension::parameters, 1e9, true},
    {"M", Dimension::parameters, 1e6, true},
    {"K", Dimension::parameters, 1e3, true},

    {"PB", Dimension::size, 1e15},
    {"TB", Dimension::size, 1e12},
    {"GB", Dimension::size, 1e9},
    {"MB", Dimension::size, 1e6},
    {"kB", Dimension::size, 1e3},
    {"B", Dimension::size, 1},
    {"PiB", Dimension::size, 1125899906842624.0},
    {"TiB", Dimension::size, 1099511627776.0},
    {"GiB", Dimension::size, 1073741824.0},
    {"MiB", Dimension::size, 1048576.0},
    {"KiB", Dimension::size, 1024.0},
    {"bytes", Dimension::size, 1, true},
    {"KB", Dimension::size, 1e3, true},

    {"d", Dimension::time, 86400e12},
    {"h", Dimension::time, 3600e12},
    {"min", Dimension::time, 60e12},
    {"s", Dimension::time, 1e12},
    {"ms", Dimension::time, 1e9},
    {"us", Dimension::time, 1e6},
    {"ns", Dimension::time, 1e3},
    {"ps", Dimension::time, 1},
    {"µs", Dimension::time, 1e6, true},  // micro sign
    {"μs", Dimension::time, 1e6, true},  // Greek mu

    {"TB/s", Dimension::data_rate, 1e12},
    {"GB/s", Dimension::data_rate, 1e9},
    {"MB/s", Dimension::data_rate, 1e6},
    {"kB/s", Dimension::data_rate, 1e3},
    {"B/s", Dimension::data_rate, 1},
    {"TiB/s", Dimension::data_rate, 1099511627776.0},
    {"GiB/s", Dimension::data_rate, 1073741824.0},
    {"MiB/s", Dimension::data_rate, 1048576.0},
    {"KiB/s", Dimension::data_rate, 1024.0},
    {"Tb/s", Dimension::data_rate, 0.125e12},
    {"Gb/s", Dimension::data_rate, 0.125e9},
    {"Mb/s", Dimension::data_rate, 0.125e6},
    {"kb/s", Dimension::data_rate, 0.125e3},
    {"b/s", Dimension::data_rate, 0.125},
    {"Tbit/s", Dimension::data_rate, 0.125e12, true},
    {"Gbit/s", Dimension::data_rate, 0.125e9, true},
    {"Mbit/s", Dimension::data_rate, 0.125e6, true},
    {"Gbps", Dimension::data_rate, 0.125e9, true},
    {"Mbps", Dimension::data_rate, 0.125e6, true},
    {"GBps", Dimension::data_rate, 1e9, true},
    {"MBps", Dimension::data_rate, 1e6, true},

    {"EFLOP/s", Dimension::compute_rate, 1e18},
    {"PFLOP/s", Dimension::compute_rate, 1e15},
    {"TFLOP/s", Dimension::compute_rate, 1e12},
    {"GFLOP/s", Dimension::compute_rate, 1e9},
    {"MFLOP/s", Dimension::compute_rate, 1e6},
    {"kFLOP/s", Dimension::compute_rate, 1e3},
    {"FLOP/s", Dimension::compute_rate, 1},
    {"PFLOPS", Dimension::compute_rate, 1e15, true},
    {"TFLOPS", Dimension::compute_rate, 1e12, true},
    {"GFLOPS", Dimension::compute_rate, 1e9, true},
    {"TFLOPs", Dimension::compute_rate, 1e12, true},
    {"PFLOPs", Dimension::compute_rate, 1e15, true},

    {"MW", Dimension::power, 1e6},
    {"kW", Dimension::power, 1e3},
    {"W", Dimension::power, 1},

    {"USD/h", Dimension::price, 1},
    {"USD/hour", Dimension::price, 1, true},
};

const DimensionInfo& info_of(Dimension dimension) { return kInfos[static_cast<std::size_t>(dimension)]; }

std::string such_as(Dimension dimension) { return fmt::format("write it as in {}", example_of(dimension)); }

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.front())) != 0) text.remove_prefix(1);
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.remove_suffix(1);
  return text;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Underscores between digits group them; anywhere else they make the number wrong.
std::optional<std::string> without_digit_groups(std::string_view number) {
  std::string plain;
  for (std::size_t i = 0; i < number.size(); ++i) {
    if (number[i] != '_') {
      plain += number[i];
    } else if (i == 0 || i + 1 == number.size() || !is_digit(number[i - 1]) || !is_digit(number[i + 1])) {
      return std::nullopt;
    }
  }
  return plain;
}

// How much of `text` is a number: sign, digits, point, exponent.
std::size_t number_length(std::string_view text) {
  std::size_t i = 0;
  if (i < text.size() && (text[i] == '+' || text[i] == '-')) ++i;
  while (i < text.size() && (is_digit(text[i]) || text[i] == '.' || text[i] == '_')) ++i;
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    std::size_t end = i + 1;
    if (end < text.size() && (text[end] == '+' || text[end] == '-')) ++end;
    if (end < text.size() && is_digit(text[end])) {
      while (end < text.size() && (is_digit(text[end]) || text[end] == '_')) ++end;
      i = end;
    }
  }
  return i;
}

bool equal_but_for_case(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) == std::tolower(static_cast<unsigned char>(y));
  });
}

QuantityError unknown_unit(std::string_view unit, Dimension dimension, std::string_view text) {
  std::vector<std::string> same_letters;
  std::vector<std::string> known;
  for (const Unit& candidate : kUnits) {
    if (candidate.dimension != dimension) continue;
    if (equal_but_for_case(candidate.name, unit)) same_letters.emplace_back(candidate.name);
    if (!candidate.alias) known.emplace_back(candidate.name);
  }
  QuantityError error{fmt::format("unknown unit {}", in_quotes(unit)), ""};
  const std::string nearest = unit.size() > 32 ? "" : nearest_name(unit, known);
  if (!same_letters.empty()) {
    error.note = fmt::format("did you mean {}? capitals matter", join(same_letters, " or "));
  } else if (!nearest.empty()) {
    error.note = fmt::format("did you mean {}?", nearest);
  } else if (known.empty()) {
    error.message = fmt::format("{} is not {}", in_quotes(text), name_of(dimension));
    error.note = such_as(dimension);
  } else {
    error.note = fmt::format("units of {}: {}", name_of(dimension), join(known));
  }
  return error;
}

// One space between words, as the table writes units of two.
std::string single_spaced(std::string_view unit) {
  std::string text;
  for (const char c : unit) {
    if (c == ' ' && !text.empty() && text.back() == ' ') continue;
    text += c;
  }
  return text;
}

std::variant<double, QuantityError> scale_of(std::string_view unit, Dimension dimension, std::string_view text) {
  if (unit.empty()) {
    if (info_of(dimension).bare) return 1.0;
    return QuantityError{fmt::format("{} has no unit", in_quotes(text)), such_as(dimension)};
  }
  const std::string name = single_spaced(unit);
  for (const Unit& candidate : kUnits) {
    if (candidate.dimension == dimension && candidate.name == name) return candidate.scale;
  }
  for (const Unit& candidate : kUnits) {
    if (candidate.name == name) {
      return QuantityError{
          fmt::format("{} is {}, but {} is needed", in_quotes(text), name_of(candidate.dimension), name_of(dimension)),
          such_as(dimension)};
    }
  }
  return unknown_unit(name, dimension, text);
}

}  // namespace

std::string_view name_of(Dimension dimension) { return info_of(dimension).name; }

std::string_view example_of(Dimension dimension) { return info_of(dimension).example; }

std::variant<double, QuantityError> parse_quantity(std::string_view text, Dimension dimension) {
  const std::string_view all = trimmed(text);
  const std::size_t length = number_length(all);
  const auto no_number = [&] {
    return QuantityError{fmt::format("{} is not {}", in_quotes(text), name_of(dimension)), such_as(dimension)};
  };
  const auto digits = without_digit_groups(all.substr(0, length));
  if (!digits || digits->empty()) return no_number();
  if (all.size() > length && all[length] == ',') {
    return QuantityError{fmt::format("{} contains a comma", in_quotes(text)), "write 1000 or 1_000 for a thousand"};
  }
  const char* begin = digits->data() + (digits->front() == '+' ? 1 : 0);
  const char* end = digits->data() + digits->size();
  double value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error == std::errc::result_out_of_range) {
    return QuantityError{fmt::format("{} is beyond what a number can hold", in_quotes(text)), ""};
  }
  if (error != std::errc() || stop != end) return no_number();
  const auto scale = scale_of(trimmed(all.substr(length)), dimension, all);
  if (const auto* wrong = std::get_if<QuantityError>(&scale)) return *wrong;
  value *= std::get<double>(scale);
  if (!std::isfinite(value))
    return QuantityError{fmt::format("{} is beyond what a number can hold", in_quotes(text)), ""};
  return value;
}

std::string format_quantity(double value, Dimension dimension) {
  const Unit* best = nullptr;
  for (const Unit& unit : kUnits) {
    if (unit.dimension != dimension || unit.alias) continue;
    best = &unit;
    if (std::abs(value) >= unit.scale) break;
    if (unit.scale == 1) break;  // the base unit is the smallest that is printed
  }
  if (best == nullptr || value == 0) {
    return best == nullptr || info_of(dimension).bare ? fmt::format("{:.16g}", value) : fmt::format("0 {}", best->name);
  }
  return fmt::format("{:.6g} {}", value / best->scale, best->name);
}

}  // namespace orrery
