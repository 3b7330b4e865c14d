// The kernel counts that the launch costs in workloads/frameworks are derived with. When operators gain or lose
// kernels, those files must be derived anew: a per-layer host time is what was measured.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tests/unit/workloads/catalog.hpp"
#include "tests/unit/workloads/plans.hpp"
#include "workloads/layer.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

double launches_per_layer(const ModelSpec& model, bool fused, AttentionKind attention, double dropout,
                          Recompute recompute = Recompute::none) {
  OperatorShape shape;
  shape.model = model;
  shape.sequence = 128;
  shape.micro_batch = 1;
  shape.vocabulary = model.vocabulary;
  shape.storage = storage_format(PrecisionRecipe::bf16, false);
  shape.fused = fused;
  shape.attention = attention;
  shape.dropout = dropout;
  KernelPool pool;
  const Block block = transformer_layer(pool, shape, recompute);
  const auto is_kernel = [](const Step& s) { return s.kind == Step::Kind::kernel; };
  return static_cast<double>(std::count_if(block.forward.begin(), block.forward.end(), is_kernel) +
                             std::count_if(block.backward.begin(), block.backward.end(), is_kernel));
}

double launch_us(const std::string& framework) {
  const auto values = flat_yaml(std::string(ORRERY_SOURCE_DIR) + "/workloads/frameworks/" + framework + ".yaml");
  const std::string& launch = values.at("launch");
  REQUIRE(launch.ends_with(" us"));
  return std::stod(launch);
}

}  // namespace

TEST_CASE("a layer's launches add up to the measured host time per layer and micro-batch") {
  // The measured times, in us, are those that the files name.
  CHECK(launch_us("megatron-deepspeed") *
            launches_per_layer(gpt(1, 1024, 8), true, AttentionKind::plain, 0.1, Recompute::full) ==
        doctest::Approx(3300).epsilon(0.01));
  CHECK(launch_us("megatron-lm") * launches_per_layer(llama(1, 1024, 8, 8, 4096), true, AttentionKind::flash, 0) ==
        doctest::Approx(3100).epsilon(0.01));
  CHECK(launch_us("torchtitan") * launches_per_layer(llama(1, 1024, 8, 8, 4096), false, AttentionKind::flash, 0) ==
        doctest::Approx(1700).epsilon(0.01));
  ModelSpec mpt = gpt(1, 1024, 8);
  mpt.attention_bias = mpt.mlp_bias = mpt.norm_bias = false;
  mpt.position = PositionKind::alibi;
  CHECK(launch_us("llm-foundry") * launches_per_layer(mpt, false, AttentionKind::flash, 0) ==
        doctest::Approx(1500).epsilon(0.01));
}
