#include "sim/base/fingerprint.hpp"

#include <fmt/core.h>

#include "sim/base/random.hpp"

namespace orrery {

Fingerprint& Fingerprint::add(std::uint64_t value) {
  state_ = splitmix64(state_ ^ splitmix64(value));
  return *this;
}

Fingerprint& Fingerprint::add(std::string_view text) {
  for (const char c : text) add(static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
  return add(static_cast<std::uint64_t>(text.size()));
}

std::string Fingerprint::to_string() const { return fmt::format("{:016x}", state_); }

}  // namespace orrery
