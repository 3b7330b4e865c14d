// Reading the options of a Choice by what its registry row says about them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "sim/base/problem.hpp"
#include "workloads/plan.hpp"
#include "workloads/registry.hpp"

namespace orrery {

// The row that `choice` names, or null.
[[nodiscard]] const RegistryRow* find_row(std::span<const RegistryRow> rows, std::string_view name);

// An unknown kind or option (with the nearest name), a value of the wrong type or out of range. `key` is the scenario
// key of the choice ("parallelism.schedule"); options are keyed below it.
[[nodiscard]] Problems check_choice(const Choice& choice, std::span<const RegistryRow> rows, std::string_view key);

// The value of an option, or its row's default. The choice must be checked.
[[nodiscard]] std::int64_t integer_option(const Choice& choice, const RegistryRow& row, std::string_view name);
[[nodiscard]] double number_option(const Choice& choice, const RegistryRow& row, std::string_view name);
[[nodiscard]] std::string_view text_option(const Choice& choice, const RegistryRow& row, std::string_view name);
// Of type "boolean or integer": the integer, kSwitchedOn for true, 0 for false.
inline constexpr std::int64_t kSwitchedOn = -1;
[[nodiscard]] std::int64_t switch_or_size_option(const Choice& choice, const RegistryRow& row, std::string_view name);
[[nodiscard]] bool boolean_option(const Choice& choice, const RegistryRow& row, std::string_view name);
// Empty where it is not given.
[[nodiscard]] FileText file_option(const Choice& choice, const RegistryRow& row, std::string_view name);

}  // namespace orrery
