// A folder of files that goes away with the test.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace orrery::test {

class TemporaryFolder {
 public:
  // With a blank in its name, so that what cannot cope with one is found.
  TemporaryFolder() : path((std::filesystem::temp_directory_path() / "orrery test-XXXXXX").string()) {
    REQUIRE(::mkdtemp(path.data()) != nullptr);
  }
  ~TemporaryFolder() { std::filesystem::remove_all(path); }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  // The path of a file in it with these contents; folders on the way are made.
  std::string write(const std::string& name, const std::string& contents) const {
    const std::filesystem::path file = std::filesystem::path(path) / name;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file, std::ios::binary) << contents;
    REQUIRE(std::filesystem::exists(file));
    return file.string();
  }

  std::string path;
};

}  // namespace orrery::test
