// Pipeline schedules as tables: for each stage, the order in which it runs which pass of which micro-batch on which of
// its model chunks. Who sends what to whom follows from the placement of chunks (placement.hpp), so that a schedule
// says nothing about communication.
//
// Adding one: a file here with its slots function, and a row in table.cpp. check_schedule then tests it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/problem.hpp"
#include "workloads/pass.hpp"
#include "workloads/plan.hpp"
#include "workloads/registry.hpp"
#include "workloads/schedules/placement.hpp"
#include "workloads/stage_layers.hpp"

namespace orrery {

struct Slot {
  Pass pass = Pass::forward;
  std::int32_t micro_batch = 0;
  std::int32_t chunk = 0;
  bool paired = false;  // meant to run beside the slot after it, of another micro-batch in the other direction

  friend bool operator==(const Slot&, const Slot&) = default;
};

struct ScheduleShape {
  std::int64_t stages = 1;
  std::int64_t micro_batches = 1;  // all of them; with several copies of the model, each passes one
  std::int64_t chunks = 1;         // model chunks per stage
};

// The schedule of one plan.
struct Schedule {
  ScheduleShape shape;
  PipelinePlacement placement{ChunkPlacement::looped, 1, 1};
  std::vector<std::vector<Slot>> slots;  // [stages], in order
  // Receives are posted a slot ahead, and sends are not waited for.
  bool overlaps_transfers = false;
  // Transfers of different chunks have streams of their own, so that none waits for another (looped schedules do
  // without: chunks take their turns in the same order on all stages).
  bool streams_per_chunk = false;
  // Paired slots run in turns, so that the rows of one travel to experts and back while the other computes; otherwise
  // one runs after the other.
  bool overlaps_pairs = false;
};

// The micro-batches that pass a copy of the model: [first, end).
struct MicroBatches {
  std::int64_t first = 0;
  std::int64_t end = 0;
};
[[nodiscard]] MicroBatches micro_batches_of(const Schedule& schedule, std::int64_t copy);

// The slots of one stage, in order. O(micro-batches x chunks).
using SlotsFunction = std::vector<Slot> (*)(const ScheduleShape& shape, std::int64_t stage);

struct ScheduleRow {
  RegistryRow row;
  SlotsFunction slots = nullptr;  // null: a user's own table (user_table.hpp)
  ChunkPlacement placement = ChunkPlacement::looped;
  std::int64_t chunks = 1;           // 0: the option virtual_stages says
  bool overlaps_transfers = false;   // always; otherwise the option overlap_transfers says
  bool whole_rounds = false;         // micro-batches must be a multiple of the stages
  bool even = false;                 // stages and micro-batches must be even
  std::int64_t rounds_least = 0;     // micro-batches must be at least so many times the stages
  bool halves = false;               // backward passes run by halves, some or all
  SlotsFunction combined = nullptr;  // in place of `slots`, where the option kOverlapExperts is on; null: it has none
  bool pairs = false;                // some slots are paired; the option overlap_pairs says what comes of it
};

// The row of this name, or null.
[[nodiscard]] const ScheduleRow* find_schedule(std::string_view name);

// The option of that name, by which rows travel to experts beside the pass of another micro-batch.
inline constexpr std::string_view kOverlapExperts = "overlap_moe_expert_parallel_comm";
// Whether a sound choice asks for it.
[[nodiscard]] bool overlaps_experts(const Choice& choice);

// Model chunks per stage of a choice that check_choice finds sound. Of a user's own table, what the table says.
[[nodiscard]] std::int64_t chunks_of(const Choice& choice, std::int64_t stages);

// What layers are dealt out to.
[[nodiscard]] StageGrid stage_grid(const ScheduleRow& row, std::int64_t stages, std::int64_t chunks);

// Whether a row can do with so many stages and micro-batches.
[[nodiscard]] bool fits(const ScheduleRow& row, std::int64_t stages, std::int64_t micro_batches);

// The schedule of a sound choice that fits. Problems are those of a user's own table alone, each with its place in the
// table's file.
[[nodiscard]] Result<Schedule> make_schedule(const Choice& choice, std::int64_t stages, std::int64_t micro_batches);

// Whether some backward passes run by halves.
[[nodiscard]] bool has_halves(const Schedule& schedule);

struct ScheduleMistake {
  std::string text;
  std::int64_t stage = 0;
  std::int64_t slot = -1;  // of that stage; -1: no one slot
};

// What a schedule does wrong: a pass that is missing, repeated, doubled by halves or out of range, a backward pass
// before its forward pass, a weight half before its input half, micro-batches that reach a stage in another order than
// they left the one before, or an order in which stages wait for one another for ever. Empty when sound.
[[nodiscard]] std::vector<ScheduleMistake> check_schedule(const Schedule& schedule);

// The most passes of micro-batches through a chunk that have begun and whose gradients of weights are still to come.
[[nodiscard]] std::int64_t activations_in_flight(std::span<const Slot> slots);

[[nodiscard]] std::vector<Slot> gpipe_slots(const ScheduleShape& shape, std::int64_t stage);
[[nodiscard]] std::vector<Slot> one_f_one_b_slots(const ScheduleShape& shape, std::int64_t stage);
[[nodiscard]] std::vector<Slot> interleaved_slots(const ScheduleShape& shape, std::int64_t stage);
// The k-th pass of one direction, the same sequence on every stage, and how many forward passes a stage is ahead.
[[nodiscard]] Slot interleaved_turn(const ScheduleShape& shape, Pass pass, std::int64_t k);
[[nodiscard]] std::int64_t interleaved_warm_up(const ScheduleShape& shape, std::int64_t stage);
[[nodiscard]] std::vector<Slot> combined_slots(const ScheduleShape& shape, std::int64_t stage);
[[nodiscard]] std::vector<Slot> breadth_first_slots(const ScheduleShape& shape, std::int64_t stage);
[[nodiscard]] std::vector<Slot> zb_h1_slots(const ScheduleShape& shape, std::int64_t stage);
[[nodiscard]] std::vector<Slot> zb_h2_slots(const ScheduleShape& shape, std::int64_t stage);
[[nodiscard]] std::vector<Slot> zb_v_slots(const ScheduleShape& shape, std::int64_t stage);
[[nodiscard]] std::vector<Slot> dualpipe_slots(const ScheduleShape& shape, std::int64_t stage);
[[nodiscard]] std::vector<Slot> dualpipe_v_slots(const ScheduleShape& shape, std::int64_t stage);

}  // namespace orrery
