#include <array>

#include "sim/base/check.hpp"
#include "workloads/options.hpp"
#include "workloads/schedules/schedule.hpp"
#include "workloads/schedules/user_table.hpp"
#include "workloads/table.hpp"

namespace orrery {

namespace {

constexpr OptionDoc kScatterGather{"scatter_gather",
                                   "boolean",
                                   "false",
                                   0,
                                   0,
                                   "send 1/tensor of an activation per tensor rank and gather it on arrival "
                                   "(Narayanan et al. 2021, section 4.1)"};
constexpr OptionDoc kOverlap{
    "overlap_transfers", "boolean", "false", 0, 0, "post receives ahead, and go on while sends are under way"};
constexpr OptionDoc kVirtualStages{"virtual_stages", "integer", "2", 1, 1024, "model chunks that each stage holds"};

constexpr OptionDoc kExperts{kOverlapExperts,
                             "boolean",
                             "false",
                             0,
                             0,
                             "a forward pass runs beside the backward pass of another micro-batch, so that rows of one "
                             "travel to experts while the other computes (Megatron-LM)"};

constexpr std::array kPlainOptions{kScatterGather, kOverlap};
constexpr std::array kOneByOneOptions{kScatterGather, kOverlap, kExperts};
constexpr std::array kChunkedOptions{kVirtualStages, kScatterGather};
constexpr std::array kInterleavedOptions{kVirtualStages, kScatterGather, kExperts};

constexpr std::array kTransferOptions{kScatterGather};
constexpr std::array kPairOptions{
    kScatterGather,
    OptionDoc{"overlap_pairs", "boolean", "true", 0, 0,
              "a forward and a backward pass take turns, so that rows of one travel while the other computes"}};
constexpr std::array kTableOptions{
    OptionDoc{"file", "file", "", 0, 0,
              "CSV: a row per stage, a cell per slot, such as 0F3, 0B3, or by halves 0I3 and 0W3: virtual stage, pass, "
              "micro-batch"},
    kScatterGather};

constexpr std::array kRows{
    ScheduleRow{.row = {"1f1b", "one forward, one backward, after a warm-up (PipeDream-flush)", kOneByOneOptions},
                .slots = one_f_one_b_slots,
                .combined = combined_slots},
    ScheduleRow{.row = {"interleaved-1f1b", "1F1B over several model chunks per stage; transfers overlap compute",
                        kInterleavedOptions},
                .slots = interleaved_slots,
                .chunks = 0,
                .overlaps_transfers = true,
                .whole_rounds = true,
                .combined = combined_slots},
    ScheduleRow{.row = {"gpipe", "all forward passes, then all backward passes", kPlainOptions}, .slots = gpipe_slots},
    ScheduleRow{.row = {"looped-bfs", "breadth first: GPipe over several model chunks per stage", kChunkedOptions},
                .slots = breadth_first_slots,
                .chunks = 0,
                .overlaps_transfers = true},
    ScheduleRow{.row = {"zb-h1", "zero bubble with 1F1B's memory: a third of its bubble", kTransferOptions},
                .slots = zb_h1_slots,
                .overlaps_transfers = true,
                .halves = true},
    ScheduleRow{
        .row = {"zb-h2", "zero bubble with nearly twice 1F1B's memory: stages idle only at the ends", kTransferOptions},
        .slots = zb_h2_slots,
        .overlaps_transfers = true,
        .halves = true},
    ScheduleRow{
        .row = {"zb-v", "zero bubble over two chunks per stage, placed as a V, with 1F1B's memory", kTransferOptions},
        .slots = zb_v_slots,
        .placement = ChunkPlacement::v_shaped,
        .chunks = 2,
        .overlaps_transfers = true,
        .halves = true},
    ScheduleRow{
        .row = {"dualpipe", "micro-batches from both ends, over two copies of the model (DeepSeek-V3)", kPairOptions},
        .slots = dualpipe_slots,
        .placement = ChunkPlacement::bidirectional,
        .chunks = 2,
        .overlaps_transfers = true,
        .even = true,
        .rounds_least = 2,
        .halves = true,
        .pairs = true},
    ScheduleRow{
        .row = {"dualpipe-v", "DualPipe folded: one copy of the model, two chunks per stage as a V", kPairOptions},
        .slots = dualpipe_v_slots,
        .placement = ChunkPlacement::v_shaped,
        .chunks = 2,
        .overlaps_transfers = true,
        .rounds_least = 2,
        .halves = true,
        .pairs = true},
    ScheduleRow{.row = {"table", "a user's own, from a CSV file as TorchTitan and PyTorch take it", kTableOptions},
                .overlaps_transfers = true},
};

constexpr auto kPublicRows = public_rows(kRows);

}  // namespace

std::span<const RegistryRow> schedule_rows() { return kPublicRows; }

const ScheduleRow* find_schedule(std::string_view name) { return find_in(kRows, name); }

bool overlaps_experts(const Choice& choice) {
  const ScheduleRow& row = *find_schedule(choice.kind);
  return row.combined != nullptr && boolean_option(choice, row.row, kOverlapExperts);
}

std::int64_t chunks_of(const Choice& choice, std::int64_t stages) {
  const ScheduleRow& row = *find_schedule(choice.kind);
  if (row.slots == nullptr) return user_table_chunks(file_option(choice, row.row, "file"), stages);
  return row.chunks > 0 ? row.chunks : integer_option(choice, row.row, "virtual_stages");
}

StageGrid stage_grid(const ScheduleRow& row, std::int64_t stages, std::int64_t chunks) {
  const bool copies = row.placement == ChunkPlacement::bidirectional;
  const std::int64_t of_copy = copies ? 1 : chunks;
  return {stages, of_copy, stages * of_copy, row.slots != nullptr && row.placement == ChunkPlacement::looped};
}

bool fits(const ScheduleRow& row, std::int64_t stages, std::int64_t micro_batches) {
  if (row.even && (stages % 2 != 0 || micro_batches % 2 != 0)) return false;
  if (row.whole_rounds && micro_batches % stages != 0) return false;
  return micro_batches >= row.rounds_least * stages;
}

Result<Schedule> make_schedule(const Choice& choice, std::int64_t stages, std::int64_t micro_batches) {
  const ScheduleRow& row = *find_schedule(choice.kind);
  if (row.slots == nullptr) {
    return read_user_table(file_option(choice, row.row, "file"), stages, micro_batches);
  }
  ORRERY_CHECK(fits(row, stages, micro_batches), "a schedule that is made fits", stages, micro_batches);
  Schedule schedule;
  schedule.shape = {stages, micro_batches, chunks_of(choice, stages)};
  schedule.placement = PipelinePlacement(row.placement, stages, schedule.shape.chunks);
  const bool combined = overlaps_experts(choice);
  schedule.overlaps_transfers =
      row.overlaps_transfers || combined || boolean_option(choice, row.row, "overlap_transfers");
  schedule.overlaps_pairs = combined || (row.pairs && boolean_option(choice, row.row, "overlap_pairs"));
  schedule.streams_per_chunk = row.placement != ChunkPlacement::looped;
  for (std::int64_t s = 0; s < stages; ++s)
    schedule.slots.push_back((combined ? row.combined : row.slots)(schedule.shape, s));
  return schedule;
}

}  // namespace orrery
