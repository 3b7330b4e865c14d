// Writing result files so that a reader never sees half of one.
#pragma once

#include <string>
#include <string_view>

#include "sim/base/problem.hpp"

namespace orrery {

// Writes `contents` beside `path` and renames it into place; makes the folders above. The problems say what the
// operating system said; none when all went well.
[[nodiscard]] Problems write_file(const std::string& path, std::string_view contents);

// Makes the folder, and a file in it that goes away again: whether results could be written there, before hours are
// spent on them.
[[nodiscard]] Problems prepare_folder(const std::string& folder);

// The whole of a file, or a Problem that names it.
[[nodiscard]] Result<std::string> read_file(const std::string& path);

}  // namespace orrery
