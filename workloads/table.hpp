// What the tables of this folder have in common: rows that begin with what is public of them (registry.hpp).
#pragma once

#include <array>
#include <string_view>

#include "workloads/registry.hpp"

namespace orrery {

// The public part of every row.
template <class Row, std::size_t N>
[[nodiscard]] constexpr std::array<RegistryRow, N> public_rows(const std::array<Row, N>& table) {
  std::array<RegistryRow, N> rows{};
  for (std::size_t i = 0; i < N; ++i) rows[i] = table[i].row;
  return rows;
}

// The row of this name, or null.
template <class Row, std::size_t N>
[[nodiscard]] const Row* find_in(const std::array<Row, N>& table, std::string_view name) {
  for (const Row& row : table) {
    if (row.row.name == name) return &row;
  }
  return nullptr;
}

}  // namespace orrery
