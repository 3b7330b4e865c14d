// Megatron-LM's overlap of experts' rows with the pass of another micro-batch: its order, what it holds, what it
// refuses.
#include "workloads/experts/overlap.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/unit/workloads/plans.hpp"
#include "workloads/build.hpp"
#include "workloads/schedules/schedule.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

// "F3.1&B0.1": two passes that run beside each other, each of a micro-batch and a chunk.
std::string text(const std::vector<Slot>& slots) {
  std::string out;
  for (std::size_t i = 0; i < slots.size(); ++i) {
    if (i > 0) out += slots[i - 1].paired ? '&' : ' ';
    out += fmt::format("{}{}.{}", letter_of(slots[i].pass), slots[i].micro_batch, slots[i].chunk);
  }
  return out;
}

Choice overlapping(const std::string& kind) { return {kind, {{std::string(kOverlapExperts), true}}}; }

ModelSpec experts() {
  ModelSpec m = llama(8, 64, 4, 4, 96, 128);
  m.experts = 8;
  m.top_k = 2;
  m.expert_ffn_hidden = 32;
  return m;
}

ParallelismSpec plan(std::int64_t pipeline) {
  ParallelismSpec p = parallel(1, pipeline);
  p.expert = 2;
  p.schedule = overlapping(pipeline > 1 ? "interleaved-1f1b" : "1f1b");
  return p;
}

std::vector<std::string> refused(const TrainingSpec& t, const ParallelismSpec& p, const ModelSpec& m = experts()) {
  std::vector<std::string> keys;
  for (const Problem& problem : check_plan(m, t, p, 2 * p.pipeline)) keys.push_back(problem.key);
  return keys;
}

}  // namespace

TEST_CASE("without a pipeline the forward pass of one micro-batch runs beside the backward pass of the one before") {
  CHECK(text(combined_slots({1, 4, 1}, 0)) == "F0.0 F1.0&B0.0 F2.0&B1.0 F3.0&B2.0 B3.0");
  CHECK(text(combined_slots({1, 1, 1}, 0)) == "F0.0 B0.0");
}

TEST_CASE("interleaved, a stage is one forward pass more ahead, and pairs are of different micro-batches") {
  // p = 2, v = 2: stage 1 warms up for 2 (2 - 1 - 1) + (2 - 1) 2 + 1 = 3 passes, stage 0 for 5.
  CHECK(text(combined_slots({2, 4, 2}, 1)) ==
        "F0.0 F1.0 F0.1 F1.1&B0.1 F2.0&B1.1 F3.0&B0.0 F2.1&B1.0 F3.1&B2.1 B3.1 B2.0 B3.0");
  CHECK(text(combined_slots({2, 4, 2}, 0)) ==
        "F0.0 F1.0 F0.1 F1.1 F2.0 F3.0&B0.1 F2.1&B1.1 F3.1&B0.0 B1.0 B2.1 B3.1 B2.0 B3.0");
  for (const Slot& last : combined_slots({4, 8, 2}, 3)) CHECK(last.micro_batch < 8);
}

TEST_CASE("combined schedules are sound, and hold one pass more than interleaved ones, if there is one more") {
  for (const std::int64_t stages : {1, 2, 3, 4}) {
    for (const std::int64_t chunks : {1, 2, 3}) {
      if (stages == 1 && chunks > 1) continue;
      for (const std::int64_t rounds : {1, 2, 5}) {
        CAPTURE(fmt::format("p {} v {} rounds {}", stages, chunks, rounds));
        Choice choice = overlapping("interleaved-1f1b");
        choice.options["virtual_stages"] = chunks;
        const Schedule combined = make_schedule(choice, stages, stages * rounds).value();
        choice.options[std::string(kOverlapExperts)] = false;
        const Schedule plain = make_schedule(choice, stages, stages * rounds).value();
        CHECK(combined.overlaps_pairs);
        CHECK(!plain.overlaps_pairs);
        const auto mistakes = check_schedule(combined);
        CHECK_MESSAGE(mistakes.empty(), mistakes.front().text);
        for (std::size_t s = 0; s < combined.slots.size(); ++s) {
          const std::int64_t most = stages * rounds * chunks;
          CHECK(activations_in_flight(combined.slots[s]) == std::min(most, activations_in_flight(plain.slots[s]) + 1));
          // A pair's passes are of different micro-batches, or of different chunks.
          for (std::size_t i = 0; i + 1 < combined.slots[s].size(); ++i) {
            const Slot& a = combined.slots[s][i];
            const Slot& b = combined.slots[s][i + 1];
            if (a.paired) CHECK((a.micro_batch != b.micro_batch || a.chunk != b.chunk));
          }
        }
      }
    }
  }
}

TEST_CASE("what Megatron-LM refuses with overlapped experts is refused") {
  using Keys = std::vector<std::string>;
  const TrainingSpec t = training(32, 16);
  const std::string option = fmt::format("parallelism.schedule.{}", kOverlapExperts);
  CHECK(refused(t, plan(1)).empty());
  CHECK(refused(t, plan(2)).empty());
  ParallelismSpec p = plan(2);
  p.schedule = overlapping("1f1b");
  CHECK(refused(t, p) == Keys{option});
  p = plan(1);
  p.expert = 1;
  CHECK(refused(t, p) == Keys{option});
  CHECK(refused(t, p, llama(8, 64, 4, 4, 96, 128)) == Keys{option});
  p = plan(2);
  p.dispatch.kind = "all-gather";
  CHECK(refused(t, p) == Keys{"parallelism.dispatch"});
  p = plan(2);
  p.dispatch.options["overlap_shared_experts"] = true;
  CHECK(refused(t, p) == Keys{"parallelism.dispatch.overlap_shared_experts"});
  p = plan(2);
  p.sharding.kind = "fsdp";
  CHECK(refused(t, p) == Keys{"parallelism.sharding"});
  TrainingSpec other = t;
  other.recompute = Recompute::full;
  CHECK(refused(other, plan(2)) == Keys{"training.recompute"});
  other = t;
  other.precision = PrecisionRecipe::fp32;
  CHECK(refused(other, plan(2)) == Keys{"training.precision"});
}
