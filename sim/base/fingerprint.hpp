// A 64-bit hash of what a run did, to see at a glance whether two runs are the same. Not cryptographic.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace orrery {

class Fingerprint {
 public:
  // Mixes in one value. The result depends on the order of the calls.
  Fingerprint& add(std::uint64_t value);
  Fingerprint& add(std::int64_t value) { return add(static_cast<std::uint64_t>(value)); }
  Fingerprint& add(std::string_view text);

  [[nodiscard]] std::uint64_t value() const { return state_; }

  // Sixteen hexadecimal digits.
  [[nodiscard]] std::string to_string() const;

 private:
  std::uint64_t state_ = 0x6f7272657279ULL;  // "orrery"
};

}  // namespace orrery
