// read_text_file: a file's bytes, or why they cannot be had.
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "scenarios/yaml_document.hpp"
#include "sim/base/text.hpp"

namespace orrery {

namespace {

namespace fs = std::filesystem;

constexpr std::size_t kNamesConsidered = 10'000;  // of a folder, for the nearest name

std::string nearest_file(const fs::path& path) {
  std::error_code error;
  const fs::path folder = path.has_parent_path() ? path.parent_path() : fs::path(".");
  std::vector<std::string> names;
  fs::directory_iterator files(folder, error);
  if (error) return fmt::format("the folder {} does not exist", in_quotes(folder.string()));
  for (; files != fs::directory_iterator() && names.size() < kNamesConsidered; files.increment(error)) {
    if (error) break;
    names.push_back(files->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  const std::string nearest = nearest_name(path.filename().string(), names);
  return nearest.empty() ? "" : fmt::format("did you mean {}?", in_quotes((path.parent_path() / nearest).string()));
}

}  // namespace

Result<std::string> read_text_file(const std::string& path, const SourceLocation& where) {
  const auto problem = [&](std::string message, std::string note) {
    const bool asked = !where.file.empty();
    return Problem{"", (asked ? in_quotes(path) + " " : std::string("the file ")) + std::move(message), std::move(note),
                   asked ? where : SourceLocation{path, 0, 0}};
  };
  if (path.empty() || path.find('\0') != std::string::npos) return problem("is no file name", "");
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (status.type() == fs::file_type::not_found) return problem("does not exist", nearest_file(path));
  if (error) return problem("cannot be read: " + error.message(), "");
  if (fs::is_directory(status)) return problem("is a folder", "name a file in it");
  // What the user names may be a pipe (`<(...)`); what a file names must be a file, or reading might never end.
  const bool pipe = where.file.empty() && (fs::is_fifo(status) || fs::is_character_file(status));
  if (!fs::is_regular_file(status) && !pipe) return problem("is no ordinary file", "");
  std::ifstream file(path, std::ios::binary);
  if (!file) return problem("cannot be opened", "is it readable for you?");
  std::string text;
  std::string chunk(std::size_t{1} << 16, '\0');
  while (file && text.size() <= kFileBytesMax) {  // a pipe has no size to ask for beforehand
    file.read(chunk.data(), static_cast<std::streamsize>(chunk.size()));
    text.append(chunk.data(), static_cast<std::size_t>(file.gcount()));
  }
  if (file.bad()) return problem("cannot be read to its end", "");
  if (text.size() > kFileBytesMax) {
    return problem(fmt::format("is larger than {} MiB", kFileBytesMax >> 20), "a scenario is a page or two of text");
  }
  return text;
}

}  // namespace orrery
