#include "workloads/schedules/schedule.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>

using namespace orrery;

namespace {

// "F0.1" is the forward pass of micro-batch 0 on chunk 1; the chunk is left out where there is one.
std::string text(const std::vector<Slot>& slots, bool chunks) {
  std::string out;
  for (const Slot& s : slots) {
    if (!out.empty()) out += ' ';
    out += fmt::format("{}{}", s.direction == Direction::forward ? 'F' : 'B', s.micro_batch);
    if (chunks) out += fmt::format(".{}", s.chunk);
  }
  return out;
}

std::vector<std::vector<Slot>> all_stages(const ScheduleRow& row, const ScheduleShape& shape) {
  std::vector<std::vector<Slot>> slots;
  for (std::int64_t s = 0; s < shape.stages; ++s) slots.push_back(row.slots(shape, s));
  return slots;
}

}  // namespace

TEST_CASE("1F1B warms up for p - s - 1 passes, alternates, and drains") {
  const ScheduleShape shape{4, 5, 1};
  CHECK(text(one_f_one_b_slots(shape, 0), false) == "F0 F1 F2 F3 B0 F4 B1 B2 B3 B4");
  CHECK(text(one_f_one_b_slots(shape, 2), false) == "F0 F1 B0 F2 B1 F3 B2 F4 B3 B4");
  CHECK(text(one_f_one_b_slots(shape, 3), false) == "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4");
}

TEST_CASE("1F1B with fewer micro-batches than stages never looks ahead further than there are") {
  CHECK(text(one_f_one_b_slots({4, 2, 1}, 0), false) == "F0 F1 B0 B1");
}

TEST_CASE("GPipe turns round after the last forward pass") {
  CHECK(text(gpipe_slots({2, 3, 1}, 0), false) == "F0 F1 F2 B2 B1 B0");
}

TEST_CASE("interleaved 1F1B follows Megatron's order") {
  // p = 2, v = 2, 4 micro-batches. Forward order: (0,1) on chunk 0, (0,1) on chunk 1, (2,3) on chunk 0, (2,3) on 1.
  // Backward order: the same groups from chunk 1 to chunk 0. Stage 0 warms up for 2 (2 - 0 - 1) + (2 - 1) 2 = 4.
  const ScheduleShape shape{2, 4, 2};
  CHECK(text(interleaved_slots(shape, 0), true) ==
        "F0.0 F1.0 F0.1 F1.1 F2.0 B0.1 F3.0 B1.1 F2.1 B0.0 F3.1 B1.0 B2.1 B3.1 B2.0 B3.0");
  // Stage 1: 2 (2 - 1 - 1) + 2 = 2.
  CHECK(text(interleaved_slots(shape, 1), true) ==
        "F0.0 F1.0 F0.1 B0.1 F1.1 B1.1 F2.0 B0.0 F3.0 B1.0 F2.1 B2.1 F3.1 B3.1 B2.0 B3.0");
}

TEST_CASE("activations in flight: GPipe holds all, 1F1B p - s, interleaved its warm-up and one") {
  for (std::int64_t s = 0; s < 4; ++s) {
    CHECK(activations_in_flight(gpipe_slots({4, 16, 1}, s)) == 16);
    CHECK(activations_in_flight(one_f_one_b_slots({4, 16, 1}, s)) == 4 - s);
    CHECK(activations_in_flight(interleaved_slots({4, 16, 2}, s)) == 2 * (4 - s - 1) + 4 + 1);
  }
}

TEST_CASE("every row of the table makes sound schedules") {
  for (const RegistryRow& public_row : schedule_rows()) {
    const ScheduleRow* row = find_schedule(public_row.name);
    REQUIRE(row != nullptr);
    for (const std::int64_t stages : {1, 2, 3, 4, 8}) {
      for (const std::int64_t micro_batches : {1, 2, 4, 6, 8, 24}) {
        for (const std::int64_t chunks : {1, 2, 3}) {
          if (!row->chunked && chunks > 1) continue;
          if (row->whole_rounds && micro_batches % stages != 0) continue;
          const ScheduleShape shape{stages, micro_batches, chunks};
          const std::vector<std::string> mistakes = check_schedule(shape, all_stages(*row, shape));
          CHECK_MESSAGE(mistakes.empty(), row->row.name, " ", stages, " ", micro_batches, " ", chunks, ": ",
                        mistakes.front());
        }
      }
    }
  }
}

TEST_CASE("the checker finds what is missing, early, foreign, or stuck") {
  const ScheduleShape one{1, 1, 1};
  const Slot forward{Direction::forward, 0, 0};
  const Slot backward{Direction::backward, 0, 0};
  const auto mistakes = [](const ScheduleShape& shape, const std::vector<std::vector<Slot>>& slots) {
    return check_schedule(shape, slots).size();
  };
  CHECK(mistakes(one, {{forward, backward}}) == 0);
  CHECK(mistakes(one, {{forward}}) == 1);                                        // no backward pass
  CHECK(mistakes(one, {{backward, forward}}) == 1);                              // too early
  CHECK(mistakes(one, {{forward, backward, {Direction::forward, 7, 0}}}) == 1);  // no such micro-batch
  CHECK(mistakes(one, {}) == 1);                                                 // no such stage
  // Two micro-batches on two stages: stage 0 insists on the backward pass of 0 before it sends 1, which is fine; stage
  // 1 insists on 1 first, which never comes.
  const ScheduleShape two{2, 2, 1};
  const Slot f0 = forward;
  const Slot b0 = backward;
  const Slot f1{Direction::forward, 1, 0};
  const Slot b1{Direction::backward, 1, 0};
  CHECK(mistakes(two, {{f0, b0, f1, b1}, {f0, b0, f1, b1}}) == 0);
  CHECK(mistakes(two, {{f0, b0, f1, b1}, {f1, b1, f0, b0}}) == 2);
}
