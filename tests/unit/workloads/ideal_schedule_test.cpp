// What schedules are worth on paper: bubbles and activations of the papers, from the tables of slots played with equal
// stages and transfers that take no time.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "workloads/schedules/ideal.hpp"

using namespace orrery;

namespace {

struct Plan {
  std::int64_t stages;
  std::int64_t micro_batches;
  std::int64_t chunks = 1;
};

Schedule made(const std::string& kind, const Plan& plan) {
  Choice choice{kind, {}};
  if (find_schedule(kind)->chunks == 0) choice.options["virtual_stages"] = plan.chunks;
  auto schedule = make_schedule(choice, plan.stages, plan.micro_batches);
  REQUIRE(schedule.ok());
  return std::move(schedule).value();
}

// How long the stage that computes least idles in the step. All compute alike, but for passes that run beside others:
// the middle of DualPipe has one such pair less.
std::int64_t longest_bubble(const Schedule& schedule, const PassTimes& times) {
  const IdealRun run = play_ideally(schedule, times);
  std::int64_t least = run.busy(0);
  for (std::size_t s = 1; s < schedule.slots.size(); ++s) least = std::min(least, run.busy(s));
  return run.step() - least;
}

std::int64_t bubble(const Schedule& schedule, const PassTimes& times = {}) {
  const IdealRun run = play_ideally(schedule, times);
  for (std::size_t s = 1; s < schedule.slots.size(); ++s) CHECK(run.busy(s) == run.busy(0));
  return run.step() - run.busy(0);
}

std::int64_t most_in_flight(const Schedule& schedule) {
  std::int64_t most = 0;
  for (const std::vector<Slot>& slots : schedule.slots) most = std::max(most, activations_in_flight(slots));
  return most;
}

constexpr PassTimes kUneven{.forward = 10, .backward = 21, .backward_input = 12, .backward_weight = 9};

}  // namespace

TEST_CASE("GPipe and 1F1B idle for (p - 1)(F + B), a share of (p - 1) / (m + p - 1) of the step") {
  for (const Plan& plan : {Plan{2, 2}, Plan{4, 4}, Plan{4, 16}, Plan{8, 32}, Plan{3, 7}}) {
    for (const char* kind : {"gpipe", "1f1b"}) {
      CHECK(bubble(made(kind, plan)) == (plan.stages - 1) * 3);
      CHECK(bubble(made(kind, plan), kUneven) == (plan.stages - 1) * 31);
    }
    CHECK(most_in_flight(made("gpipe", plan)) == plan.micro_batches);
    for (std::int64_t s = 0; s < plan.stages; ++s) {
      const Schedule schedule = made("1f1b", plan);
      CHECK(activations_in_flight(schedule.slots[static_cast<std::size_t>(s)]) ==
            std::min(plan.stages - s, plan.micro_batches));
    }
  }
}

TEST_CASE("over v chunks the bubble is (p - 1)(F + B) of one chunk: (p - 1) / (v m + p - 1) of the step") {
  for (const Plan& plan : {Plan{2, 2, 2}, Plan{4, 8, 2}, Plan{4, 16, 4}, Plan{8, 32, 3}}) {
    for (const char* kind : {"interleaved-1f1b", "looped-bfs"}) {
      CHECK(bubble(made(kind, plan)) == (plan.stages - 1) * 3);
      CHECK(bubble(made(kind, plan), kUneven) == (plan.stages - 1) * 31);
    }
    CHECK(most_in_flight(made("looped-bfs", plan)) == plan.micro_batches * plan.chunks);
  }
}

TEST_CASE("ZB-H1 idles for (p - 1)(F + B - W), a third of 1F1B, and holds p micro-batches") {
  // Qi et al. 2024, Table 1: T_F, T_B (input half), T_W equal.
  for (const Plan& plan : {Plan{2, 4}, Plan{4, 8}, Plan{4, 16}, Plan{8, 32}}) {
    const Schedule schedule = made("zb-h1", plan);
    CHECK(bubble(schedule) == plan.stages - 1);
    CHECK(3 * bubble(schedule) == bubble(made("1f1b", plan)));
    for (const std::vector<Slot>& slots : schedule.slots) CHECK(activations_in_flight(slots) == plan.stages);
  }
}

TEST_CASE("in ZB-H2 no stage idles between its first pass and its last, and 2 p - 1 micro-batches are held") {
  // Stage s begins s passes after stage 0 and ends as much later, so that the step as a whole takes p - 1 passes more.
  for (const Plan& plan : {Plan{2, 4}, Plan{4, 8}, Plan{4, 16}, Plan{8, 32}}) {
    const Schedule schedule = made("zb-h2", plan);
    const IdealRun run = play_ideally(schedule);
    for (std::size_t s = 0; s < schedule.slots.size(); ++s) {
      CHECK(run.idle_within(s) == 0);
      CHECK(run.times[s].front().begin == static_cast<std::int64_t>(s));
      CHECK(activations_in_flight(schedule.slots[s]) == 2 * plan.stages - 1);
    }
    CHECK(bubble(schedule) == plan.stages - 1);
  }
}

TEST_CASE("in ZB-V no stage idles between its first pass and its last, and p micro-batches are held") {
  for (const Plan& plan : {Plan{2, 4}, Plan{4, 8}, Plan{4, 16}, Plan{8, 32}}) {
    const Schedule schedule = made("zb-v", plan);
    const IdealRun run = play_ideally(schedule);
    for (std::size_t s = 0; s < schedule.slots.size(); ++s) CHECK(run.idle_within(s) == 0);
    CHECK(bubble(schedule) == plan.stages - 1);          // passes of a chunk: half a stage
    CHECK(most_in_flight(schedule) == 2 * plan.stages);  // of chunks
  }
}

TEST_CASE("DualPipe idles for (p / 2 - 1)(F&B + B - 3 W) and holds p + 1 micro-batches") {
  // deepseek-ai/DualPipe, README: B whole, F&B two passes that begin and end together. DualPipeV has a pipeline of p
  // stages where DualPipe has one of p / 2 for each direction.
  for (const Plan& plan : {Plan{2, 4}, Plan{4, 8}, Plan{4, 20}, Plan{8, 20}, Plan{8, 32}}) {
    for (const PassTimes& t : {PassTimes{1, 2, 1, 1, 3}, PassTimes{10, 20, 10, 10, 25}}) {
      const std::int64_t each = t.pair + t.backward - 3 * t.backward_weight;
      const Schedule schedule = made("dualpipe", plan);
      CHECK(longest_bubble(schedule, t) == (plan.stages / 2 - 1) * each);
      CHECK(most_in_flight(schedule) == plan.stages + 1);
      const Schedule folded = made("dualpipe-v", plan);
      CHECK(longest_bubble(folded, t) == (plan.stages - 1) * each);
      CHECK(most_in_flight(folded) == 2 * plan.stages + 1);
    }
    // One after the other, with F handed on before B begins: as the simulator runs them.
    CHECK(bubble(made("dualpipe", plan)) == plan.stages / 2 - 1);
    CHECK(bubble(made("dualpipe-v", plan)) == plan.stages - 1);
  }
}
