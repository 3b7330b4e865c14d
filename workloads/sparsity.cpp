#include "workloads/sparsity.hpp"

#include <fmt/core.h>

#include <array>

#include "workloads/options.hpp"
#include "workloads/table.hpp"

namespace orrery {

namespace {

constexpr std::array<std::string_view, 2> kParts{"mlp", "linear"};

constexpr std::array k24Options{
    OptionDoc{"parts", "text", "mlp", 0, 0, "mlp (experts as well), or linear: attention's projections too", kParts},
    OptionDoc{"gain", "number", "1.6", 1, 2, "rate of a sparse product against the dense one"},
};

struct SparsityRow {
  RegistryRow row;
};

constexpr std::array kRows{
    SparsityRow{{"none", "weights are dense", {}}},
    SparsityRow{{"2:4", "two of four elements of a weight are zero, pruned anew in each forward pass", k24Options}},
};

constexpr auto kPublicRows = public_rows(kRows);

}  // namespace

std::span<const RegistryRow> sparsity_rows() { return kPublicRows; }

SparsityShape sparsity_shape(const TrainingSpec& training) {
  if (training.sparsity.kind == "none") return {};
  const RegistryRow& row = *find_row(sparsity_rows(), training.sparsity.kind);
  return {.mlp = true,
          .attention = text_option(training.sparsity, row, "parts") == "linear",
          .gain = number_option(training.sparsity, row, "gain")};
}

Problems check_sparsity(const TrainingSpec& training) {
  if (training.sparsity.kind == "none") return {};
  if (training.precision == PrecisionRecipe::fp16 || training.precision == PrecisionRecipe::bf16) return {};
  return {{"training.sparsity",
           fmt::format("2:4 sparsity is simulated in 16 bits, not in {}", name_of(training.precision)),
           "nearest valid: precision bf16 or fp16"}};
}

}  // namespace orrery
