#include <array>

#include "workloads/schedules/schedule.hpp"
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

constexpr std::array kPlainOptions{kScatterGather, kOverlap};
constexpr std::array kInterleavedOptions{kVirtualStages, kScatterGather};

constexpr std::array kRows{
    ScheduleRow{{"1f1b", "one forward, one backward, after a warm-up (PipeDream-flush)", kPlainOptions},
                one_f_one_b_slots},
    ScheduleRow{{"interleaved-1f1b", "1F1B over several model chunks per stage; transfers overlap compute",
                 kInterleavedOptions},
                interleaved_slots,
                true,
                true},
    ScheduleRow{{"gpipe", "all forward passes, then all backward passes", kPlainOptions}, gpipe_slots},
};

constexpr auto kPublicRows = public_rows(kRows);

}  // namespace

std::span<const RegistryRow> schedule_rows() { return kPublicRows; }

const ScheduleRow* find_schedule(std::string_view name) { return find_in(kRows, name); }

}  // namespace orrery
