// The report of an import as a table: what was understood, what was assumed, what is left out and why.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "scenarios/import/import.hpp"

namespace orrery {

namespace {

struct Section {
  Fate fate;
  std::string_view title;
};
constexpr std::array kSections{
    Section{Fate::understood, "understood"},
    Section{Fate::assumed, "assumed"},
    Section{Fate::given, "set by an option instead"},
    Section{Fate::not_simulated, "ignored: not simulated, though it has an influence"},
    Section{Fate::unknown, "ignored: unknown"},
    Section{Fate::no_influence, "ignored: no influence on the simulated step"},
};

// Columns of a table: wide enough for nearly all, and no wider.
constexpr std::size_t kKeyWidest = 62;
constexpr std::size_t kValueWidest = 24;

std::string outcome_of(const ImportLine& line) {
  if (line.leads_to.empty()) return line.why;
  return line.why.empty() ? line.leads_to : fmt::format("{} ({})", line.leads_to, line.why);
}

std::size_t count(const std::vector<ImportLine>& lines, Fate fate) {
  return static_cast<std::size_t>(
      std::count_if(lines.begin(), lines.end(), [&](const ImportLine& line) { return line.fate == fate; }));
}

}  // namespace

std::string to_string(const std::vector<ImportLine>& lines) {
  std::size_t key_width = 0;
  std::size_t value_width = 0;
  for (const ImportLine& line : lines) {
    key_width = std::min(kKeyWidest, std::max(key_width, line.key.size()));
    value_width = std::min(kValueWidest, std::max(value_width, line.value.size()));
  }
  std::string text;
  for (const Section& section : kSections) {
    if (count(lines, section.fate) == 0) continue;
    text += fmt::format("{}\n", section.title);
    for (const ImportLine& line : lines) {
      if (line.fate != section.fate) continue;
      std::string row =
          fmt::format("  {:<{}}  {:<{}}  {}", line.key, key_width, line.value, value_width, outcome_of(line));
      row.erase(row.find_last_not_of(' ') + 1);
      text += row + "\n";
    }
    text += "\n";
  }
  const std::size_t missed = count(lines, Fate::not_simulated);
  const std::size_t unknown = count(lines, Fate::unknown);
  text += fmt::format("{} understood, {} assumed, {} without influence, {} not simulated, {} unknown\n",
                      count(lines, Fate::understood), count(lines, Fate::assumed), count(lines, Fate::no_influence),
                      missed, unknown);
  return text;
}

}  // namespace orrery
