#include "sim/base/random.hpp"

#include <doctest/doctest.h>

#include <array>
#include <vector>

#include "sim/base/fingerprint.hpp"

using namespace orrery;

TEST_CASE("splitmix64 gives the published first outputs of seed 1234567") {
  // Reference outputs as listed on Rosetta Code, "Pseudo-random numbers/Splitmix64".
  RandomStream stream(1234567);
  CHECK(stream.next() == 6457827717110365317ULL);
  CHECK(stream.next() == 3203168211198807973ULL);
  CHECK(stream.next() == 9817491932198370423ULL);
  CHECK(stream.next() == 4593380528125082431ULL);
  CHECK(stream.next() == 16408922859458223821ULL);
}

TEST_CASE("substreams depend on seed, purpose and item, and on nothing else") {
  const auto first = [](RandomStream stream) { return stream.next(); };
  CHECK(first(RandomStream(1, "kernel_jitter", 3)) == first(RandomStream(1, "kernel_jitter", 3)));
  CHECK(first(RandomStream(1, "kernel_jitter", 3)) != first(RandomStream(2, "kernel_jitter", 3)));
  CHECK(first(RandomStream(1, "kernel_jitter", 3)) != first(RandomStream(1, "ecmp", 3)));
  CHECK(first(RandomStream(1, "kernel_jitter", 3)) != first(RandomStream(1, "kernel_jitter", 4)));
}

TEST_CASE("below stays in range and reaches every value alike") {
  RandomStream stream(7);
  std::array<int, 7> seen{};
  constexpr int kDraws = 70'000;
  for (int i = 0; i < kDraws; ++i) {
    const std::uint64_t draw = stream.below(7);
    REQUIRE(draw < 7);
    ++seen[draw];
  }
  // Binomial with mean 10,000 and standard deviation 93: six of them is 560.
  for (const int count : seen) CHECK(std::abs(count - kDraws / 7) < 560);
}

TEST_CASE("uniform and normal have the moments they should") {
  RandomStream stream(11);
  constexpr int kDraws = 100'000;
  double uniform_sum = 0;
  double normal_sum = 0;
  double normal_squares = 0;
  for (int i = 0; i < kDraws; ++i) {
    const double u = stream.uniform();
    REQUIRE(u >= 0);
    REQUIRE(u < 1);
    uniform_sum += u;
    const double z = stream.normal();
    REQUIRE(z >= -6);
    REQUIRE(z <= 6);
    normal_sum += z;
    normal_squares += z * z;
  }
  // Standard errors: 0.0009, 0.0032 and 0.0044; the bounds are five of them.
  CHECK(uniform_sum / kDraws == doctest::Approx(0.5).epsilon(0.01));
  CHECK(std::abs(normal_sum / kDraws) < 0.016);
  CHECK(normal_squares / kDraws == doctest::Approx(1.0).epsilon(0.022));
}

TEST_CASE("a fingerprint tells order and boundaries apart") {
  CHECK(Fingerprint().add(std::int64_t{1}).add(std::int64_t{2}).value() !=
        Fingerprint().add(std::int64_t{2}).add(std::int64_t{1}).value());
  CHECK(Fingerprint().add("ab").add("c").value() != Fingerprint().add("a").add("bc").value());
  CHECK(Fingerprint().add("x").to_string() == Fingerprint().add("x").to_string());
  CHECK(Fingerprint().to_string().size() == 16);
}
