#include "workloads/schedules/schedule.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <cstdlib>
#include <string>
#include <utility>

using namespace orrery;

namespace {

// "F0.1" is the forward pass of micro-batch 0 on chunk 1; the chunk is left out where there is one.
std::string text(const std::vector<Slot>& slots, bool chunks) {
  std::string out;
  for (const Slot& s : slots) {
    if (!out.empty()) out += ' ';
    out += fmt::format("{}{}", letter_of(s.pass), s.micro_batch);
    if (chunks) out += fmt::format(".{}", s.chunk);
  }
  return out;
}

// A looped schedule of one chunk per stage from its slots.
Schedule plain(std::int64_t micro_batches, std::vector<std::vector<Slot>> slots) {
  Schedule schedule;
  schedule.shape = {static_cast<std::int64_t>(slots.size()), micro_batches, 1};
  schedule.placement = PipelinePlacement(ChunkPlacement::looped, schedule.shape.stages, 1);
  schedule.slots = std::move(slots);
  return schedule;
}

Choice choice_of(std::string_view name, std::int64_t chunks) {
  Choice choice{std::string(name), {}};
  if (find_schedule(name)->chunks == 0) choice.options["virtual_stages"] = chunks;
  return choice;
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

TEST_CASE("zero-bubble schedules run ahead and lag behind by their stage") {
  // p = 3, 4 micro-batches. ZB-H1: p - s - 1 ahead, weight halves s behind; ZB-H2: twice both.
  const ScheduleShape shape{3, 4, 1};
  CHECK(text(zb_h1_slots(shape, 0), false) == "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  CHECK(text(zb_h1_slots(shape, 2), false) == "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
  CHECK(text(zb_h2_slots(shape, 1), false) == "F0 F1 F2 I0 F3 I1 I2 W0 I3 W1 W2 W3");
}

TEST_CASE("DualPipe's stages s and p - 1 - s run the same passes, of micro-batches from the two ends") {
  const ScheduleShape shape{4, 8, 2};
  for (const std::int64_t s : {0, 1}) {
    const std::vector<Slot> one = dualpipe_slots(shape, s);
    const std::vector<Slot> other = dualpipe_slots(shape, 3 - s);
    REQUIRE(one.size() == other.size());
    for (std::size_t i = 0; i < one.size(); ++i) {
      CHECK(one[i].pass == other[i].pass);
      CHECK(one[i].chunk == other[i].chunk);
      CHECK(std::abs(one[i].micro_batch - other[i].micro_batch) == 4);
    }
  }
}

TEST_CASE("placements: loops begin again at the first stage, a V comes back, two copies mirror one another") {
  const PipelinePlacement looped(ChunkPlacement::looped, 3, 2);
  const PipelinePlacement v(ChunkPlacement::v_shaped, 3, 2);
  const PipelinePlacement two(ChunkPlacement::bidirectional, 4, 2);
  CHECK(looped.place_of({3, 0}) == ChunkPlace{0, 1});
  CHECK(v.place_of({3, 0}) == ChunkPlace{2, 1});
  CHECK(v.place_of({5, 0}) == ChunkPlace{0, 1});
  CHECK(v.ends_meet());
  CHECK_FALSE(looped.ends_meet());
  CHECK(two.virtual_stages() == 4);
  for (std::int64_t s = 0; s < 4; ++s) {
    CHECK(two.place_of({s, 0}).stage == s);
    CHECK(two.place_of({s, 1}).stage == 3 - s);
    CHECK(two.at(s, 0).index == two.at(3 - s, 0).index);
    CHECK(two.at(s, 0).copy != two.at(3 - s, 0).copy);
  }
}

TEST_CASE("every row of the table makes sound schedules") {
  for (const RegistryRow& public_row : schedule_rows()) {
    const ScheduleRow* row = find_schedule(public_row.name);
    REQUIRE(row != nullptr);
    if (row->slots == nullptr) continue;
    for (const std::int64_t stages : {1, 2, 3, 4, 8}) {
      for (const std::int64_t micro_batches : {1, 2, 4, 6, 8, 16, 24}) {
        for (const std::int64_t chunks : {1, 2, 3}) {
          if (!fits(*row, stages, micro_batches)) continue;
          if (row->chunks > 0 && chunks > 1) continue;
          const auto made = make_schedule(choice_of(public_row.name, chunks), stages, micro_batches);
          REQUIRE(made.ok());
          CHECK(has_halves(*made) == row->halves);
          const std::vector<ScheduleMistake> mistakes = check_schedule(*made);
          CHECK_MESSAGE(mistakes.empty(), public_row.name, " ", stages, " ", micro_batches, " ", chunks, ": ",
                        mistakes.front().text);
        }
      }
    }
  }
}

TEST_CASE("the checker finds what is missing, early, doubled, foreign, out of order, or stuck") {
  const Slot forward{Pass::forward, 0, 0};
  const Slot backward{Pass::backward, 0, 0};
  const Slot input{Pass::backward_input, 0, 0};
  const Slot weight{Pass::backward_weight, 0, 0};
  const auto mistakes = [](std::int64_t micro_batches, const std::vector<std::vector<Slot>>& slots) {
    return check_schedule(plain(micro_batches, slots)).size();
  };
  CHECK(mistakes(1, {{forward, backward}}) == 0);
  CHECK(mistakes(1, {{forward, input, weight}}) == 0);
  CHECK(mistakes(1, {{forward}}) == 1);                                   // no backward pass
  CHECK(mistakes(1, {{backward, forward}}) == 1);                         // too early
  CHECK(mistakes(1, {{forward, input}}) == 1);                            // half of it
  CHECK(mistakes(1, {{forward, weight, input}}) == 1);                    // the wrong half first
  CHECK(mistakes(1, {{forward, backward, input, weight}}) == 1);          // whole and by halves
  CHECK(mistakes(1, {{forward, backward, {Pass::forward, 7, 0}}}) == 1);  // no such micro-batch
  CHECK(mistakes(1, {{forward, backward, {Pass::forward, 0, 1}}}) == 1);  // no such chunk
  const Slot f0 = forward;
  const Slot b0 = backward;
  const Slot f1{Pass::forward, 1, 0};
  const Slot b1{Pass::backward, 1, 0};
  CHECK(mistakes(2, {{f0, b0, f1, b1}, {f0, b0, f1, b1}}) == 0);
  CHECK(mistakes(2, {{f0, f1, b0, b1}, {f1, f0, b0, b1}}) == 1);  // 1 overtakes 0 on the way
  // Stage 0 insists on the backward pass of 0 before it sends 1, which is fine; stage 1 insists on 1 first, which
  // never comes: 0 waits at its second slot, 1 at its first.
  const std::vector<ScheduleMistake> stuck = check_schedule(plain(2, {{f0, b0, f1, b1}, {f1, b1, f0, b0}}));
  REQUIRE(stuck.size() == 2);
  CHECK(stuck[0].text == "stage 0 waits for ever at its slot 1 (B0 of chunk 0) for slot 3 of stage 1");
  CHECK(stuck[1].text == "stage 1 waits for ever at its slot 0 (F1 of chunk 0) for slot 2 of stage 0");
  CHECK(stuck[1].stage == 1);
  CHECK(stuck[1].slot == 0);
}
