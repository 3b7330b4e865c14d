// State by stage: the papers' formulas, for every row.
#include <doctest/doctest.h>

#include <array>
#include <string>

#include "tests/unit/workloads/plans.hpp"
#include "tests/unit/workloads/shardings.hpp"
#include "workloads/build.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

struct State {
  std::int64_t weights = 0;
  std::int64_t gradients = 0;
  std::int64_t optimizer = 0;

  [[nodiscard]] std::int64_t all() const { return weights + gradients + optimizer; }
};

State state_of(const Choice& choice, std::int64_t ranks, const std::string& optimizer = "adamw") {
  ParallelismSpec plan = parallel(1);
  plan.sharding = choice;
  TrainingSpec recipe = training(32, ranks);
  recipe.optimizer = {optimizer, {}};
  const Result<Workload> w = build_workload(gpt(4, 64, 4, 512, 128), recipe, plan, ranks);
  REQUIRE_MESSAGE(w.ok(), to_string(w.problems()));
  State state;
  for (const MemoryOperation& m : w->programs[0].resident_memory()) {
    if (m.tag == MemoryTag::weights) state.weights += m.bytes.count();
    if (m.tag == MemoryTag::gradients) state.gradients += m.bytes.count();
    if (m.tag == MemoryTag::optimizer_state) state.optimizer += m.bytes.count();
  }
  return state;
}

constexpr std::int64_t kParameters = 4 * 49'984 + 41'088;  // multiples of 4, tensor by tensor

}  // namespace

// Rajbhandari et al. 2020, mixed precision with Adam: 2 P of weights, 2 P of gradients, 12 P of optimizer state, of
// which each stage splits one more.
TEST_CASE("state takes 2 P + 2 P + 12 P bytes, split by stage") {
  const std::int64_t n = 4;
  const std::int64_t p = kParameters;
  const State one = state_of({"zero1", {}}, n);
  CHECK(one.weights == 2 * p);
  CHECK(one.gradients == 2 * p);
  CHECK(one.optimizer == 12 * p / n);
  const State two = state_of({"zero2", {}}, n);
  CHECK(two.weights == 2 * p);
  CHECK(two.gradients == 2 * p / n);
  CHECK(two.optimizer == 12 * p / n);
  const State three = state_of({"zero3", {}}, n);
  CHECK(three.weights == 2 * p / n);
  CHECK(three.gradients == 2 * p / n);
  CHECK(three.optimizer == 12 * p / n);
  // PyTorch keeps weights and gradients in fp32, and the weights are the master copy: 4 + 4 + 8.
  for (const std::int64_t version : {1, 2}) {
    const State fsdp = state_of({"fsdp", {{"version", version}}}, n);
    CHECK(fsdp.all() == 16 * p / n);
    CHECK(fsdp.weights == 4 * p / n);
    const State hybrid = state_of(
        {"fsdp", {{"version", version}, {"strategy", std::string("hybrid-shard")}, {"shard_size", std::int64_t{2}}}},
        n);
    CHECK(hybrid.all() == 16 * p / 2);
  }
  CHECK(state_of({"fsdp", {{"version", std::int64_t{1}}, {"strategy", std::string("no-shard")}}}, n).all() == 16 * p);
  CHECK(state_of({"zero3", {{"mics_shard_size", std::int64_t{2}}}}, n).all() == 16 * p / 2);
  // Megatron-LM, fp32 gradients: 6 + 12 / n; DDP: 18.
  CHECK(state_of({"distributed-optimizer", {}}, n).all() == 6 * p + 12 * p / n);
  CHECK(state_of({"none", {}}, n).all() == 18 * p);
  // DeepSpeed's bf16 optimizer: sums in fp32 beside bf16 gradients, neither split.
  const State sums = state_of({"bf16-optimizer", {}}, n);
  CHECK(sums.gradients == 6 * p);
  CHECK(sums.all() == 8 * p + 12 * p / n);
}

TEST_CASE("no way of sharding holds less than all state split over all ranks, nor more than a replica") {
  for (const Choice& choice : sharding_choices()) {
    CAPTURE(testing::name_of(choice));
    const State state = state_of(choice, 4);
    CHECK(state.all() >= 16 * kParameters / 4);
    CHECK(state.all() <= 18 * kParameters);
  }
  for (const RegistryRow& row : sharding_rows()) {
    CHECK(state_of({std::string(row.name), {}}, 1).all() >= 16 * kParameters);
  }
}

// Adafactor: a layer of the GPT above has matrices of 64 columns [192, 64], [64, 64], [256, 64] and one [64, 256],
// whose rows and columns are 256 + 128 + 320 + 320 = 1,024 numbers, and 192 + 64 + 256 + 64 + 4 x 64 = 832 biases and
// norm weights; the tables [512, 64] and [128, 64] have 576 + 192, the last norm 128. Flat buffers keep it all.
TEST_CASE("Adafactor's second moment is rows and columns where tensors keep their shapes") {
  constexpr std::int64_t kFactors = 4 * (1'024 + 832) + 576 + 192 + 128;
  constexpr std::int64_t kMaster = 4 * kParameters;
  CHECK(state_of({"none", {}}, 4, "adafactor").optimizer == kMaster + 4 * kFactors);
  for (const char* flat : {"zero1", "zero2", "zero3", "distributed-optimizer"}) {
    CAPTURE(flat);
    CHECK(state_of({flat, {}}, 4, "adafactor").optimizer == (kMaster + 4 * kParameters) / 4);
  }
  const auto fsdp = [](std::int64_t version) {
    return state_of({"fsdp", {{"version", version}}}, 4, "adafactor").optimizer;
  };
  CHECK(fsdp(1) == kParameters);  // 4 bytes, over 4 ranks
  // By rows over 4 ranks: a matrix keeps a quarter of its rows and all its columns. (Rows: 576 and 448 of columns.)
  CHECK(fsdp(2) == 4 * (4 * (576 / 4 + 448 + 832 / 4) + (512 + 128) / 4 + 2 * 64 + 128 / 4));
}

// 8-bit AdamW: of a layer, the four matrices have 49,152 elements and 192 blocks; the rest and the tables stay in fp32.
TEST_CASE("8-bit AdamW keeps matrices in 8 bits and what is small in 32") {
  constexpr std::int64_t kMatrices = 4 * 49'152;
  constexpr std::int64_t kRest = kParameters - kMatrices;
  CHECK(state_of({"none", {}}, 4, "adamw-8bit").optimizer ==
        4 * kParameters + 2 * kMatrices + 8 * kMatrices / 256 + 2'048 + 8 * kRest);
  // One flat piece a rank: all of it in 8 bits.
  constexpr std::int64_t kOwn = kParameters / 4;
  CHECK(state_of({"zero1", {}}, 4, "adamw-8bit").optimizer == 4 * kOwn + 2 * kOwn + 8 * divide_up(kOwn, 256) + 2'048);
}
