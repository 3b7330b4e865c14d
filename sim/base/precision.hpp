// Number formats that kernels compute in.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace orrery {

enum class Precision : std::uint8_t { fp32, tf32, fp16, bf16, fp8 };

inline constexpr std::size_t kPrecisions = 5;
inline constexpr std::array<std::string_view, kPrecisions> kPrecisionNames{"fp32", "tf32", "fp16", "bf16", "fp8"};

[[nodiscard]] constexpr std::string_view name_of(Precision p) { return kPrecisionNames[static_cast<std::size_t>(p)]; }

[[nodiscard]] constexpr std::optional<Precision> precision_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kPrecisions; ++i) {
    if (kPrecisionNames[i] == name) return static_cast<Precision>(i);
  }
  return std::nullopt;
}

// Bytes that one element takes in memory (tf32 is stored as fp32).
[[nodiscard]] constexpr std::int64_t bytes_per_element(Precision p) {
  switch (p) {
    case Precision::fp32:
    case Precision::tf32:
      return 4;
    case Precision::fp16:
    case Precision::bf16:
      return 2;
    case Precision::fp8:
      return 1;
  }
  return 0;
}

}  // namespace orrery
