// Choices out of a string of bytes: a fuzzer's input, or random bytes from a seed. When the bytes are used up every
// choice is the first one, so that cutting the string short makes a case simpler.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace orrery::fuzz {

class Draws {
 public:
  explicit Draws(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  // One of 0 .. bound - 1; nearly uniform over random bytes. bound > 0.
  std::uint64_t below(std::uint64_t bound) {
    std::uint64_t value = 0;
    for (std::uint64_t range = 1; range < bound; range <<= 8) value = value << 8 | next();
    return value % bound;
  }

  int between(int least, int most) {
    return least + static_cast<int>(below(static_cast<std::uint64_t>(most - least) + 1));
  }

  // True once in `n` times.
  bool once_in(std::uint64_t n) { return below(n) == n - 1; }

  template <class Container>
  const auto& one_of(const Container& container) {
    return container[static_cast<std::size_t>(below(std::size(container)))];
  }

  // In place, by Fisher and Yates; unchanged when the bytes are used up.
  template <class T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = 0; i + 1 < values.size(); ++i) {
      std::swap(values[i], values[i + static_cast<std::size_t>(below(values.size() - i))]);
    }
  }

 private:
  std::uint8_t next() { return position_ < bytes_.size() ? bytes_[position_++] : std::uint8_t{0}; }

  std::span<const std::uint8_t> bytes_;
  std::size_t position_ = 0;
};

}  // namespace orrery::fuzz
