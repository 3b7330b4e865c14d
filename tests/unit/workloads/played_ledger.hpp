// The memory operations of a step, played in program order.
#pragma once

#include <fmt/core.h>

#include <array>
#include <string>

#include "sim/graph/program.hpp"

namespace orrery::testing {

struct Ledger {
  std::array<std::int64_t, kMemoryTags> held{};
  std::string fault;
};

// Plays the memory operations of a step in program order.
inline Ledger play_ledger(const Program& program) {
  Ledger ledger;
  const auto apply = [&](const MemoryOperation& m) { ledger.held[static_cast<std::size_t>(m.tag)] += m.bytes.count(); };
  for (const MemoryOperation& m : program.resident_memory()) apply(m);
  const auto begin = ledger.held;
  for (const Task& task : program.tasks()) {
    for (const MemoryOperation& m : program.memory(task)) {
      apply(m);
      if (ledger.held[static_cast<std::size_t>(m.tag)] < 0 && ledger.fault.empty()) {
        ledger.fault = fmt::format("{} freed twice by {}", name_of(m.tag), program.label(task));
      }
    }
  }
  for (std::size_t tag = 0; tag < kMemoryTags; ++tag) {
    if (ledger.held[tag] == begin[tag] || !ledger.fault.empty()) continue;
    ledger.fault = fmt::format("{} ends {} bytes off", kMemoryTagNames[tag], ledger.held[tag] - begin[tag]);
  }
  return ledger;
}

}  // namespace orrery::testing
