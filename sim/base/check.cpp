#include "sim/base/check.hpp"

#include <cstdio>
#include <cstdlib>

namespace orrery::detail {

void check_failed(const char* file, int line, const char* condition, const std::string& details) {
  std::fprintf(stderr, "%s:%d: internal error: '%s' does not hold: %s\n", file, line, condition, details.c_str());
  std::abort();
}

}  // namespace orrery::detail
