// Any small case runs to its end and breaks none of the laws of an execution (execution_laws.hpp).
//
// With ORRERY_FUZZ_SHOW set in the environment, cases are described before they run: for looking at a finding.
#include <fmt/core.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "tests/fuzz/execution_laws.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace orrery::fuzz;
  static const bool show = std::getenv("ORRERY_FUZZ_SHOW") != nullptr;
  const std::optional<SmallCase> drawn = draw_small_case({data, size});
  if (!drawn) return 0;
  if (show) fmt::print(stderr, "{}", describe(*drawn));
  const std::vector<std::string> broken = broken_laws(*drawn);
  if (broken.empty()) return 0;
  fmt::print(stderr, "{}", describe(*drawn));
  for (const std::string& law : broken) fmt::print(stderr, "broken: {}\n", law);
  std::abort();
}
