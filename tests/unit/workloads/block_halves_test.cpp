// The backward pass by halves: the same work as the whole, and memory that lives exactly as long as it is needed.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "tests/unit/workloads/plans.hpp"
#include "workloads/layer.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

struct Case {
  std::string name;
  OperatorShape shape;
  Recompute recompute = Recompute::none;
};

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (int turn = 0; turn < 96; ++turn) {
    Case c;
    c.name = std::to_string(turn);
    c.shape.model = turn % 2 == 0 ? gpt(1, 256, 4, 512) : llama(1, 256, 4, 2, 384, 512);
    c.shape.sequence = 64;
    c.shape.micro_batch = 2;
    c.shape.tensor = turn / 2 % 2 == 0 ? 1 : 2;
    c.shape.sequence_parallel = turn / 4 % 2 == 1;
    c.shape.vocabulary = 512;
    c.shape.autocast = turn / 8 % 2 == 1;
    c.shape.storage = storage_format(PrecisionRecipe::bf16, c.shape.autocast);
    c.shape.fused = turn / 16 % 2 == 0;
    c.shape.fp8 = {.on = turn % 7 < 3, .transposes = turn % 2 == 0, .caches_weights = turn % 4 < 2};
    c.shape.attention = turn % 5 < 2 ? AttentionKind::plain : AttentionKind::flash;
    c.shape.dropout = turn % 3 == 0 ? 0.1 : 0;
    c.shape.tensor_group = GroupKindId(std::size_t{0});
    c.recompute = static_cast<Recompute>(turn / 32);
    cases.push_back(c);
  }
  return cases;
}

std::vector<Block> blocks(KernelPool& pool, const Case& c) {
  std::vector<Block> all;
  all.push_back(embedding_block(pool, c.shape));
  all.push_back(transformer_layer(pool, c.shape, c.recompute));
  all.push_back(head_block(pool, c.shape, true));
  return all;
}

// What is launched, how often: kernels by id, collectives by operation and bytes, gradients by parameter.
using Launched = std::map<std::tuple<int, std::int64_t, std::int64_t>, int>;

void count(Launched& launched, const std::vector<Step>& steps) {
  for (const Step& step : steps) {
    if (step.kind == Step::Kind::kernel) ++launched[{0, step.kernel.value(), 0}];
    if (step.kind == Step::Kind::collective) {
      ++launched[{1, static_cast<std::int64_t>(step.call.op), step.call.bytes.count()}];
    }
    for (const ParameterIndex index : step.gradients) ++launched[{2, index, 0}];
  }
}

std::map<MemoryTag, std::int64_t> held(const std::vector<Step>& steps) {
  std::map<MemoryTag, std::int64_t> sum;
  for (const Step& step : steps) {
    for (const MemoryOperation& operation : step.memory) sum[operation.tag] += operation.bytes.count();
  }
  return sum;
}

// Allocated at most while `passes` run one after the other, and that no tag is ever freed beyond what is there.
void check_balanced(const std::vector<const std::vector<Step>*>& passes) {
  std::map<MemoryTag, std::int64_t> now;
  bool below_nothing = false;
  for (const auto* steps : passes) {
    for (const Step& step : *steps) {
      for (const MemoryOperation& operation : step.memory) {
        now[operation.tag] += operation.bytes.count();
        below_nothing = below_nothing || now[operation.tag] < 0;
      }
    }
  }
  CHECK_FALSE(below_nothing);
  for (const auto& held : now) CHECK_MESSAGE(held.second == 0, name_of(held.first));
}

}  // namespace

TEST_CASE("the halves launch what the whole backward pass launches, and complete every gradient once") {
  for (const Case& c : all_cases()) {
    CAPTURE(c.name);
    KernelPool pool;
    for (const Block& block : blocks(pool, c)) {
      CAPTURE(block.name);
      Launched whole;
      Launched halves;
      count(whole, block.backward);
      count(halves, block.backward_input);
      count(halves, block.backward_weight);
      CHECK(whole == halves);
      for (std::size_t i = 0; i < block.parameters.size(); ++i) CHECK(halves[{2, static_cast<int>(i), 0}] == 1);
    }
  }
}

TEST_CASE("memory is back where it began after the whole and after both halves, and is never freed twice") {
  for (const Case& c : all_cases()) {
    CAPTURE(c.name);
    KernelPool pool;
    for (const Block& block : blocks(pool, c)) {
      CAPTURE(block.name);
      check_balanced({&block.forward, &block.backward});
      check_balanced({&block.forward, &block.backward_input, &block.backward_weight});
    }
  }
}

TEST_CASE("between the halves a layer keeps 32 s b h bytes: inputs and output gradients of its products") {
  // Qi et al. 2024, Table 1 (M_W). Inputs of the four products: h, h, h and 4 h elements a token; gradients of their
  // outputs: 3 h, h, 4 h and h. Two bytes each.
  OperatorShape shape;
  shape.model = gpt(1, 512, 8);
  shape.sequence = 128;
  shape.micro_batch = 2;
  shape.vocabulary = shape.model.vocabulary;
  shape.storage = storage_format(PrecisionRecipe::fp16, false);
  shape.dropout = 0.1;
  const std::int64_t sbh = 128 * 2 * 512;
  for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
    KernelPool pool;
    const Block layer = transformer_layer(pool, shape, recompute);
    std::int64_t kept = 0;
    for (const auto* steps : {&layer.forward, &layer.backward_input}) {
      for (const auto& [tag, bytes] : held(*steps)) kept += bytes;
    }
    CHECK(kept == 32 * sbh);
  }
}

TEST_CASE("the weight half waits for nothing but the sequence that it gathers; recomputation is in the input half") {
  OperatorShape shape;
  shape.model = gpt(1, 512, 8);
  shape.sequence = 128;
  shape.micro_batch = 1;
  shape.tensor = 2;
  shape.sequence_parallel = true;
  shape.vocabulary = shape.model.vocabulary;
  shape.storage = storage_format(PrecisionRecipe::bf16, false);
  shape.tensor_group = GroupKindId(std::size_t{0});
  KernelPool pool;
  const Block layer = transformer_layer(pool, shape, Recompute::full);
  const auto collectives = [](const std::vector<Step>& steps, CollectiveOp op) {
    return std::count_if(steps.begin(), steps.end(),
                         [&](const Step& s) { return s.kind == Step::Kind::collective && s.call.op == op; });
  };
  // Two column-parallel products gather their input, and scatter its gradient.
  CHECK(collectives(layer.backward_weight, CollectiveOp::all_gather) == 2);
  CHECK(collectives(layer.backward_weight, CollectiveOp::reduce_scatter) == 0);
  for (const Step& step : layer.backward_weight) CHECK(step.phase == Phase::weight_gradient);
}
