// The laws of an execution on random small cases (tests/fuzz), and on those that once broke one.
#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/random.hpp"
#include "tests/fuzz/execution_laws.hpp"

using namespace orrery;

namespace {

std::vector<std::uint8_t> random_bytes(std::uint64_t seed, std::size_t count) {
  RandomStream random(seed);
  std::vector<std::uint8_t> bytes(count);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
  return bytes;
}

// Whether the bytes make a case at all; its laws are checked.
bool check(const std::vector<std::uint8_t>& bytes) {
  const auto drawn = fuzz::draw_small_case(bytes);
  if (!drawn) return false;
  for (const std::string& law : fuzz::broken_laws(*drawn)) FAIL_CHECK(law);
  return true;
}

}  // namespace

TEST_CASE("random small cases break no law of an execution") {
  constexpr int kCases = 400;
  int played = 0;
  for (std::uint64_t seed = 0; seed < kCases; ++seed) {
    CAPTURE(seed);
    if (check(random_bytes(seed, 100 + seed % 500))) ++played;
  }
  // Some clusters are none: no NIC, sockets that nothing joins.
  CHECK(played > kCases / 2);
}
