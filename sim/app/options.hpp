// The options of all commands, as one table, and the parser for it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/load.hpp"
#include "sim/base/problem.hpp"

namespace orrery {

// What a command line said.
struct Arguments {
  std::vector<std::string> positional;
  std::string schedule;               // scenario whose pipeline schedule is drawn; empty: none
  std::vector<Override> overrides;    // --set and --seed, in order
  std::string out;                    // folder, or file where a command writes one; empty: no files
  std::string format;                 // of a plan to import; empty: by its contents
  std::string model;                  // name or path
  std::vector<std::string> clusters;  // "dgx-h100 x 8"
  bool json = false;
  int threads = 0;  // 0: all cores
  bool fold = true;
  bool rows = false;         // tell of every row, not of sources alone
  bool bands = false;        // simulate what else a row may mean
  bool collectives = false;  // the tables are of collectives
  bool kernels = false;      // the tables are of kernels
  bool fitted = false;       // list fitted constants
  int sample = 0;            // rows of each source; 0: all
  std::string bounds;        // file, or "none"; empty: the repository's where they apply
  bool quiet = false;
  bool verbose = false;
  bool help = false;
  bool version = false;
};

struct OptionRow {
  std::string_view name;   // "--out"
  std::string_view brief;  // "-q"; empty: none
  std::string_view value;  // "DIR"; empty: a flag
  std::string_view doc;
  // Takes the option's value ("" for a flag); says what is wrong with it, or nothing.
  std::optional<Problem> (*apply)(Arguments& arguments, const std::string& value) = nullptr;
  // Whether a word behind the value belongs to it: values of several words need no quotes. Null: none does.
  bool (*goes_on)(const std::string& value, const std::string& next) = nullptr;
};

// All there are; commands name those they take.
[[nodiscard]] std::span<const OptionRow> option_rows();
[[nodiscard]] const OptionRow& option_row(std::string_view name);

// Reads `words` with the given options; --help and --version are always known. Values stand in the next word or after
// "="; "--" ends the options. All mistakes are reported, unknown options with the nearest known one.
[[nodiscard]] Result<Arguments> parse_arguments(std::span<const std::string> words,
                                                std::span<const std::string_view> options);

}  // namespace orrery
