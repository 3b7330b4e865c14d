#include "sim/study/inputs.hpp"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <set>
#include <string_view>
#include <system_error>
#include <vector>

#include "sim/base/fingerprint.hpp"
#include "sim/results/files.hpp"
#include "sim/study/validation/expectation.hpp"

namespace orrery {

namespace {

namespace fs = std::filesystem;

bool looks_like_a_file(std::string_view word) {
  const auto ends = [&](std::string_view suffix) {
    return word.size() > suffix.size() && word.substr(word.size() - suffix.size()) == suffix;
  };
  return ends(".yaml") || ends(".yml") || ends(".json") || ends(".csv");
}

std::vector<std::string> words(const std::string& text) {
  constexpr std::string_view kSeparators = " \t\r\n\"'[]{},:#";
  std::vector<std::string> found;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find_first_not_of(kSeparators, at);
    if (begin == std::string::npos) break;
    at = std::min(text.find_first_of(kSeparators, begin), text.size());
    found.push_back(text.substr(begin, at - begin));
  }
  return found;
}

class Digest {
 public:
  void text(const std::string& contents, const fs::path& folder) {
    fingerprint_.add(std::string_view(contents));
    for (const std::string& word : words(contents)) {
      if (looks_like_a_file(word)) file(fs::path(word).is_absolute() ? fs::path(word) : folder / word);
    }
  }

  // Each file counts once; what does not exist is no file.
  void file(const fs::path& path) {
    std::error_code error;
    if (!fs::is_regular_file(path, error) || !seen_.insert(path.lexically_normal().string()).second) return;
    const Result<std::string> contents = read_file(path.string());
    if (contents) text(*contents, path.parent_path());
  }

  void catalogue(const fs::path& folder) {
    std::error_code error;
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(folder, error)) {
      if (entry.path().extension() == ".yaml") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());  // the order of a folder's entries is the file system's
    for (const fs::path& path : files) file(path);
  }

  // Size and time of the running program: another build may compute something else.
  void program() {
    std::error_code error;
    const fs::path self = fs::read_symlink("/proc/self/exe", error);
    if (error) return;
    fingerprint_.add(static_cast<std::uint64_t>(fs::file_size(self, error)));
    fingerprint_.add(static_cast<std::int64_t>(fs::last_write_time(self, error).time_since_epoch().count()));
  }

  [[nodiscard]] std::string value() const { return fingerprint_.to_string(); }

 private:
  Fingerprint fingerprint_;
  std::set<std::string> seen_;
};

}  // namespace

std::string digest_of_inputs(const std::string& scenario_file, const LoadOptions& load) {
  Digest digest;
  const fs::path folder = fs::path(scenario_file).parent_path();
  digest.file(scenario_file);
  for (const Override& setting : load.overrides) digest.text(setting.key + "=" + setting.value, folder);
  const fs::path root = load.catalog_root.empty() ? find_catalog_root() : load.catalog_root;
  digest.catalogue(root / "topology" / "catalog");
  digest.catalogue(root / "workloads");
  digest.file(accuracy_path());
  digest.program();
  return digest.value();
}

}  // namespace orrery
