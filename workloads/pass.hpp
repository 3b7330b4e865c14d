// The passes of one micro-batch through a part of the model. A backward pass runs whole, or as its two halves: first
// the gradients of inputs, which the part of the model before it waits for, and the gradients of weights whenever there
// is time (Qi et al. 2024, "Zero Bubble Pipeline Parallelism").
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace orrery {

enum class Pass : std::uint8_t { forward, backward, backward_input, backward_weight };
inline constexpr std::size_t kPasses = 4;
inline constexpr std::array<std::string_view, kPasses> kPassNames{"forward", "backward", "backward_input",
                                                                  "backward_weight"};
[[nodiscard]] constexpr std::string_view name_of(Pass pass) { return kPassNames[static_cast<std::size_t>(pass)]; }

// As PyTorch writes them in schedules (torch/distributed/pipelining/schedules.py, _ComputationType).
inline constexpr std::string_view kPassLetters = "FBIW";
[[nodiscard]] constexpr char letter_of(Pass pass) { return kPassLetters[static_cast<std::size_t>(pass)]; }

// Whether the pass makes gradients of inputs, and of weights.
[[nodiscard]] constexpr bool makes_input_gradients(Pass pass) {
  return pass == Pass::backward || pass == Pass::backward_input;
}
[[nodiscard]] constexpr bool makes_weight_gradients(Pass pass) {
  return pass == Pass::backward || pass == Pass::backward_weight;
}

}  // namespace orrery
