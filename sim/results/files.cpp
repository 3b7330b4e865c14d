#include "sim/results/files.hpp"

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>

namespace orrery {

namespace {

Problems failure(const std::string& what, const std::string& path, const std::string& reason) {
  return {Problem{.key = "", .message = fmt::format("cannot {} {}: {}", what, path, reason), .note = ""}};
}

struct Close {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using File = std::unique_ptr<std::FILE, Close>;

}  // namespace

Problems write_file(const std::string& path, std::string_view contents) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (!folder.empty()) std::filesystem::create_directories(folder, error);
  if (error) return failure("make the folder of", path, error.message());

  // The process id keeps two runs that write to one folder from writing into one another's file.
  const std::string beside = fmt::format("{}.{}.part", path, ::getpid());
  File file(std::fopen(beside.c_str(), "wb"));
  if (!file) return failure("write", path, std::strerror(errno));
  const bool written = std::fwrite(contents.data(), 1, contents.size(), file.get()) == contents.size();
  const int write_error = errno;
  const bool closed = std::fclose(file.release()) == 0;
  if (!written || !closed) {
    const std::string reason = std::strerror(written ? errno : write_error);
    std::filesystem::remove(beside, error);
    return failure("write", path, reason);
  }
  std::filesystem::rename(beside, path, error);
  if (error) {
    const std::string reason = error.message();
    std::filesystem::remove(beside, error);
    return failure("write", path, reason);
  }
  return {};
}

Problems prepare_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return failure("make the folder", folder, error.message());
  // Problems are of the folder that the user named, not of the file that it is tried with.
  const std::string probe = fmt::format("{}/.{}.part", folder, ::getpid());
  const bool written = File(std::fopen(probe.c_str(), "wb")) != nullptr;
  if (!written) return failure("write into the folder", folder, std::strerror(errno));
  std::filesystem::remove(probe, error);
  if (error) return failure("remove files from the folder", folder, error.message());
  return {};
}

Result<std::string> read_file(const std::string& path) {
  File file(std::fopen(path.c_str(), "rb"));
  if (!file) return failure("read", path, std::strerror(errno));
  std::string contents;
  char buffer[1 << 16];
  for (std::size_t got = 0; (got = std::fread(buffer, 1, sizeof buffer, file.get())) > 0;) {
    contents.append(buffer, got);
  }
  if (std::ferror(file.get()) != 0) return failure("read", path, std::strerror(errno));
  return contents;
}

}  // namespace orrery
