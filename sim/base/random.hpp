// Seeded randomness that is the same on every compiler and library: own generator, own integer distributions.
// One 64-bit seed gives an independent substream per purpose, by name, so that adding a draw in one place leaves all
// others unchanged.
#pragma once

#include <cstdint>
#include <string_view>

namespace orrery {

// One step of Vigna's SplitMix64 (public domain, prng.di.unimi.it/splitmix64.c) applied to `x`: a good 64-bit mixer.
[[nodiscard]] constexpr std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// A stream of random integers. Copyable: a copy continues from the same state.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed) : state_(seed) {}

  // The stream for one purpose ("kernel_jitter", "ecmp") and one item (a rank, say) under the run's seed.
  RandomStream(std::uint64_t seed, std::string_view purpose, std::uint64_t item = 0);

  // Uniform over all 64-bit values.
  std::uint64_t next();

  // Uniform over [0, bound), without bias. bound > 0.
  std::uint64_t below(std::uint64_t bound);

  // Uniform over [0, 1): 53 random bits scaled by 2^-53, exact in a double.
  double uniform();

  // Normal with mean 0 and variance 1, by summing twelve uniforms (Irwin-Hall): only additions, so it has the same
  // bits everywhere; support is [-6, 6].
  double normal();

 private:
  std::uint64_t state_;
};

}  // namespace orrery
