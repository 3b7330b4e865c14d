// Pipeline schedules as tables: for each stage, the order in which it runs forward and backward passes of which
// micro-batch on which of its model chunks. Who sends what to whom follows from the placement of chunks
// (virtual stage = chunk x stages + stage), so that a schedule says nothing about communication.
//
// Adding one: a file here with its slots function, and a row in table.cpp. check_schedule then tests it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workloads/registry.hpp"

namespace orrery {

enum class Direction : std::uint8_t { forward, backward };

struct Slot {
  Direction direction = Direction::forward;
  std::int32_t micro_batch = 0;
  std::int32_t chunk = 0;

  friend bool operator==(const Slot&, const Slot&) = default;
};

struct ScheduleShape {
  std::int64_t stages = 1;
  std::int64_t micro_batches = 1;
  std::int64_t chunks = 1;  // model chunks per stage (virtual stages)
};

// The slots of one stage, in order. O(micro-batches x chunks).
using SlotsFunction = std::vector<Slot> (*)(const ScheduleShape& shape, std::int64_t stage);

struct ScheduleRow {
  RegistryRow row;
  SlotsFunction slots = nullptr;
  bool chunked = false;       // has the option virtual_stages; transfers always overlap compute
  bool whole_rounds = false;  // micro-batches must be a multiple of the stages
};

// The row of this name, or null.
[[nodiscard]] const ScheduleRow* find_schedule(std::string_view name);

// What a table of slots does wrong: a pass that is missing, repeated or out of range, a backward pass before its
// forward pass, or an order in which the stages wait for one another for ever. Empty when sound.
// `slots`: [stages].
[[nodiscard]] std::vector<std::string> check_schedule(const ScheduleShape& shape,
                                                      std::span<const std::vector<Slot>> slots);

// The most forward passes that await their backward pass at one time.
[[nodiscard]] std::int64_t activations_in_flight(std::span<const Slot> slots);

[[nodiscard]] std::vector<Slot> gpipe_slots(const ScheduleShape& shape, std::int64_t stage);
[[nodiscard]] std::vector<Slot> one_f_one_b_slots(const ScheduleShape& shape, std::int64_t stage);
[[nodiscard]] std::vector<Slot> interleaved_slots(const ScheduleShape& shape, std::int64_t stage);

}  // namespace orrery
