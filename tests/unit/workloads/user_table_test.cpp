// A user's own schedule: read as PyTorch writes it, refused with the place of each mistake.
#include "workloads/schedules/user_table.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <map>
#include <string>

#include "tests/unit/workloads/plans.hpp"
#include "tests/unit/workloads/untimed.hpp"
#include "workloads/build.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

Result<Schedule> read(const std::string& text, std::int64_t stages, std::int64_t micro_batches) {
  return read_user_table({"my.csv", text}, stages, micro_batches);
}

std::string first_problem(const Result<Schedule>& result) {
  return result.ok() ? std::string() : to_string(result.problems().front());
}

// A schedule as the CSV that would be read as it.
std::string csv_of(const Schedule& schedule) {
  std::string text;
  for (std::size_t s = 0; s < schedule.slots.size(); ++s) {
    std::string row;
    bool paired = false;
    for (const Slot& slot : schedule.slots[s]) {
      const std::int64_t v = schedule.placement.at(static_cast<std::int64_t>(s), slot.chunk).index;
      row +=
          fmt::format("{}{}{}{}{}{}",
                      row.empty() ? ""
                      : paired    ? ";"
                                  : ",",
                      slot.paired ? "(" : "", v, letter_of(slot.pass), slot.micro_batch, paired ? ")OVERLAP_F_B" : "");
      paired = slot.paired;
    }
    text += row + "\n";
  }
  return text;
}

}  // namespace

TEST_CASE("cells name virtual stage, pass and micro-batch; blanks are idle time; a pair is its two passes") {
  const auto schedule = read("0F0,0F1, ,,0B0,0I1,0W1\r\n,1F0,\"1B0\",(1F1;1B1)OVERLAP_F_B\n\n", 2, 2);
  REQUIRE_MESSAGE(schedule.ok(), first_problem(schedule));
  CHECK(schedule->shape.chunks == 1);
  CHECK(schedule->slots[0] == std::vector<Slot>{{Pass::forward, 0, 0},
                                                {Pass::forward, 1, 0},
                                                {Pass::backward, 0, 0},
                                                {Pass::backward_input, 1, 0},
                                                {Pass::backward_weight, 1, 0}});
  CHECK(schedule->slots[1].size() == 4);
  CHECK(schedule->slots[1][2] == Slot{Pass::forward, 1, 0, true});
}

TEST_CASE("a table of any schedule of one copy of the model reads back as that schedule") {
  for (const RegistryRow& row : schedule_rows()) {
    const ScheduleRow& schedule = *find_schedule(row.name);
    if (schedule.slots == nullptr || schedule.placement == ChunkPlacement::bidirectional) continue;
    CAPTURE(row.name);
    const Schedule made = make_schedule({std::string(row.name), {}}, 4, 8).value();
    const auto back = read(csv_of(made), 4, 8);
    REQUIRE_MESSAGE(back.ok(), first_problem(back));
    CHECK(back->slots == made.slots);
    for (std::int64_t s = 0; s < 4; ++s) {
      for (std::int64_t c = 0; c < made.shape.chunks; ++c) CHECK(back->placement.at(s, c) == made.placement.at(s, c));
    }
  }
}

TEST_CASE("what is wrong with a table is said with row and column") {
  const std::map<std::string, std::string> wrong{
      {"0F0,0X0\n1F0,1B0\n", "my.csv:1:5: error: '0X0' is no pass of a micro-batch"},
      {"0F0,0SEND_F0\n1F0,1B0\n", "my.csv:1:5: error: '0SEND_F0' is no pass"},
      {"0F0,0B\n1F0,1B0\n", "my.csv:1:5: error: '0B' is no pass"},
      {"0F0,0B0\n", "1 rows for 2 pipeline stages"},
      {"0F0,0B0\n1F0,0B0\n", "my.csv:2:5: error: virtual stage 0 is in the rows of stages 0 and 1"},
      {"0F0,0B0\n2F0,2B0\n", "virtual stage 1 is missing"},
      {"0F0,0B0,2F0,2B0\n1F0,1B0\n", "my.csv:2:1: error: stage 1 holds 1 virtual stages, stage 0 2"},
      {"0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n", "the table has 2 micro-batches, the step 1"},
      {"0F0,,0B0,0B0\n1F0,1B0\n", "my.csv:1:1: error: stage 0: micro-batch 0 of chunk 0 runs 1 times forward, 2"},
      {"0B0,0F0\n1F0,1B0\n", "my.csv:1:1: error: stage 0: backward of micro-batch 0 of chunk 0 comes before"},
      {"0F0\n1F0,1B0\n", "my.csv:1:1: error: stage 0 runs 1 passes, of 1 micro-batches through"},
      {"", "0 rows for 2 pipeline stages"},
  };
  for (const auto& row : wrong) {
    const auto& text = row.first;
    const auto& message = row.second;
    CAPTURE(text);
    const std::string found = first_problem(read(text, 2, 1));
    CHECK_MESSAGE(found.find(message) != std::string::npos, found);
  }
  const std::string stuck = first_problem(read("0F0,0B0,0F1,0B1\n1F1,1B1,1F0,1B0\n", 2, 2));
  CHECK_MESSAGE(stuck.find("my.csv:1:5: error: stage 0 waits for ever at its slot 1 (B0") != std::string::npos, stuck);
}

TEST_CASE("a step of a table is that of the schedule that it spells out, on stages in any order") {
  const ModelSpec model = gpt(8, 64, 4, 512, 128);
  ParallelismSpec named = parallel(1, 4);
  named.schedule = {"zb-v", {}};
  const Workload w = build_workload(model, training(32, 8), named, 4).value();
  ParallelismSpec own = parallel(1, 4);
  own.schedule = {"table", {{"file", FileText{"my.csv", csv_of(make_schedule(named.schedule, 4, 8).value())}}}};
  const Workload same = build_workload(model, training(32, 8), own, 4).value();
  REQUIRE(w.programs.size() == same.programs.size());
  for (std::size_t s = 0; s < w.programs.size(); ++s) {
    CHECK(w.programs[s].tasks().size() == same.programs[s].tasks().size());
  }
  // Stage 0 holds the end of the model, stage 1 its beginning: tied tables are summed over both.
  own = parallel(1, 2);
  own.schedule = {"table", {{"file", FileText{"my.csv", "1F0,1B0,1F1,1B1\n0F0,0F1,0B0,0B1\n"}}}};
  const auto turned = build_workload(model, training(32, 2), own, 2);
  REQUIRE_MESSAGE(turned.ok(), to_string(turned.problems()));
  CHECK(UntimedRun(*turned).deadlock() == "");
  CHECK(inconsistencies(*turned).empty());
}
