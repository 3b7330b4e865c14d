#include "sim/base/problem.hpp"

#include <algorithm>
#include <tuple>

namespace orrery {

std::string to_string(const Problem& problem) {
  std::string text;
  if (!problem.where.file.empty()) text += problem.where.file + ":";
  if (problem.where.line > 0) text += fmt::format("{}:{}:", problem.where.line, problem.where.column);
  if (!text.empty()) text += " ";
  text += "error: ";
  if (problem.where.line == 0 && !problem.key.empty()) text += problem.key + ": ";
  text += problem.message;
  if (!problem.note.empty()) text += "\n  note: " + problem.note;
  return text;
}

std::string to_string(const Problems& problems) {
  Problems ordered = problems;
  std::stable_sort(ordered.begin(), ordered.end(), [](const Problem& a, const Problem& b) {
    return std::tie(a.where.file, a.where.line, a.where.column) < std::tie(b.where.file, b.where.line, b.where.column);
  });
  std::string text;
  for (const Problem& problem : ordered) {
    if (!text.empty()) text += "\n";
    text += to_string(problem);
  }
  return text;
}

}  // namespace orrery
