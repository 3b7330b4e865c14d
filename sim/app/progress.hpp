// One line on a terminal that rewrites itself while long work goes on; elsewhere nothing, so that logs stay readable.
#pragma once

#include <chrono>
#include <ostream>
#include <string_view>

#include "sim/app/commands.hpp"
#include "sim/app/options.hpp"

namespace orrery {

class ProgressLine {
 public:
  ProgressLine(const Arguments& arguments, const Console& console)
      : out_(console.err), shown_(console.terminal && !arguments.quiet && !arguments.json) {}
  ~ProgressLine() { clear(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  [[nodiscard]] bool shown() const { return shown_; }

  // Whether the last line has stood for a while: lines that come often are shown only then.
  [[nodiscard]] bool due() const { return std::chrono::steady_clock::now() - written_ >= kInterval; }

  void show(std::string_view line) {
    if (!shown_) return;
    out_ << kErase << line << std::flush;
    written_ = std::chrono::steady_clock::now();
    standing_ = true;
  }

  void clear() {
    if (standing_) out_ << kErase << std::flush;
    standing_ = false;
  }

 private:
  static constexpr std::chrono::milliseconds kInterval{200};
  static constexpr std::string_view kErase = "\r\033[K";

  std::ostream& out_;
  bool shown_;
  bool standing_ = false;
  std::chrono::steady_clock::time_point written_ = std::chrono::steady_clock::now();
};

}  // namespace orrery
