#include "sim/base/units.hpp"

#include <doctest/doctest.h>

using namespace orrery;
using namespace orrery::literals;

TEST_CASE("a transfer time is rounded up to the next picosecond") {
  // 1 byte at 3 GB/s takes 333.33 ps.
  CHECK(transfer_time(1_B, 3_GBps) == 334_ps);
  // 25 bytes at 25 GB/s take exactly 1 ns.
  CHECK(transfer_time(25_B, 25_GBps) == 1_ns);
}

TEST_CASE("nothing takes no time, and a rate of zero takes for ever") {
  CHECK(transfer_time(0_B, BytesPerSecond(0)) == Duration::zero());
  CHECK(transfer_time(1_B, BytesPerSecond(0)) == Duration::max());
}

TEST_CASE("a second has 10^12 picoseconds") {
  CHECK(to_seconds(std::chrono::seconds(1)) == 1.0);
}

TEST_CASE("binary and decimal prefixes differ") {
  CHECK((1_GiB).count() == 1'073'741'824);
  CHECK((1_GB).count() == 1'000'000'000);
  CHECK(1_GiB > 1_GB);
  CHECK(1_MiB - 1_MB == Bytes(48'576));
}

TEST_CASE("sums and conversions saturate instead of wrapping around") {
  CHECK(saturating_add(Instant::max(), 1_ps) == Instant::max());
  CHECK(saturating_add(Instant(5_ps), 7_ps) == Instant(12_ps));
  CHECK(saturating_add(Duration::max(), Duration::max()) == Duration::max());
  CHECK(duration_from_seconds(1e30) == Duration::max());
  CHECK(duration_from_seconds(9.3e6) == Duration::max());  // 2^63 ps are 9,223,372 s
  CHECK(duration_from_seconds(0.5) == Duration(500'000'000'000));
}

TEST_CASE("divide_up rounds towards the larger integer and does not overflow") {
  CHECK(divide_up(0, 5) == 0);
  CHECK(divide_up(10, 5) == 2);
  CHECK(divide_up(11, 5) == 3);
  CHECK(divide_up(std::int64_t{9223372036854775807}, 2) == std::int64_t{4611686018427387904});
}
