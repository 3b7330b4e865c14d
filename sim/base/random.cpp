#include "sim/base/random.hpp"

#include "sim/base/check.hpp"
#include "sim/base/fingerprint.hpp"

namespace orrery {

RandomStream::RandomStream(std::uint64_t seed, std::string_view purpose, std::uint64_t item)
    : state_(splitmix64(splitmix64(seed) ^ Fingerprint().add(purpose).add(item).value())) {}

std::uint64_t RandomStream::next() {
  const std::uint64_t result = splitmix64(state_);
  state_ += 0x9e3779b97f4a7c15ULL;
  return result;
}

std::uint64_t RandomStream::below(std::uint64_t bound) {
  ORRERY_CHECK(bound > 0, "an empty range has no element");
  // Draws from the incomplete last copy of [0, bound) are rejected.
  const std::uint64_t rejected = (0 - bound) % bound;
  for (;;) {
    const std::uint64_t draw = next();
    if (draw >= rejected) return draw % bound;
  }
}

double RandomStream::uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

double RandomStream::normal() {
  double sum = -6.0;
  for (int i = 0; i < 12; ++i) sum += uniform();
  return sum;
}

}  // namespace orrery
