// What one layer computes, keeps and sends, against published formulas and sums by hand.
#include "workloads/layer.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tests/unit/workloads/plans.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

OperatorShape shape_of(const ModelSpec& model, std::int64_t sequence, std::int64_t micro_batch, std::int64_t tensor,
                       bool sequence_parallel) {
  OperatorShape shape;
  shape.model = model;
  shape.sequence = sequence;
  shape.micro_batch = micro_batch;
  shape.tensor = tensor;
  shape.sequence_parallel = sequence_parallel;
  shape.vocabulary = model.vocabulary;
  shape.storage = storage_format(PrecisionRecipe::fp16, false);
  shape.attention = AttentionKind::plain;
  shape.dropout = 0.1;
  shape.tensor_group = GroupKindId(std::size_t{0});
  return shape;
}

std::int64_t saved(const OperatorShape& shape, Recompute recompute) {
  KernelPool pool;
  return transformer_layer(pool, shape, recompute).saved.count();
}

double gemm_flops(const KernelPool& pool, const std::vector<Step>& steps) {
  double sum = 0;
  for (const Step& step : steps) {
    if (step.kind == Step::Kind::kernel && pool[step.kernel].kind == KernelKind::gemm) {
      sum += pool[step.kernel].flops.count();
    }
  }
  return sum;
}

std::int64_t collectives(const std::vector<Step>& steps, CollectiveOp op) {
  return std::count_if(steps.begin(), steps.end(),
                       [&](const Step& s) { return s.kind == Step::Kind::collective && s.call.op == op; });
}

std::int64_t kernels(const Block& block) {
  const auto count = [](const std::vector<Step>& steps) {
    return std::count_if(steps.begin(), steps.end(), [](const Step& s) { return s.kind == Step::Kind::kernel; });
  };
  return count(block.forward) + count(block.backward);
}

constexpr std::int64_t kSequence = 2048;
constexpr std::int64_t kMicroBatch = 4;
constexpr std::int64_t kHidden = 4096;
constexpr std::int64_t kHeads = 32;
constexpr std::int64_t kSbh = kSequence * kMicroBatch * kHidden;
constexpr std::int64_t kScores = 5 * kHeads * kSequence * kSequence * kMicroBatch;  // 5 a s^2 b
// Mean and deviation of each row of two LayerNorms in fp32, which the published formulas leave out.
constexpr std::int64_t kStatistics = 2 * 8 * kSequence * kMicroBatch;

}  // namespace

TEST_CASE("a layer keeps s b h (34 + 5 a s / h) bytes") {  // Korthikanti et al. 2022, equation 1
  CHECK(saved(shape_of(gpt(1, kHidden, kHeads), kSequence, kMicroBatch, 1, false), Recompute::none) ==
        34 * kSbh + kScores + kStatistics);
}

TEST_CASE("tensor parallelism splits 24 of the 34 and the scores; sequence parallelism splits all") {
  // Equations 2 and 4: s b h (10 + 24/t + 5 a s / h t), and s b h / t (34 + 5 a s / h).
  const ModelSpec model = gpt(1, kHidden, kHeads);
  for (const std::int64_t t : {2, 4, 8}) {
    CHECK(saved(shape_of(model, kSequence, kMicroBatch, t, false), Recompute::none) ==
          10 * kSbh + (24 * kSbh + kScores) / t + kStatistics);
    CHECK(saved(shape_of(model, kSequence, kMicroBatch, t, true), Recompute::none) ==
          (34 * kSbh + kScores + kStatistics) / t);
  }
}

TEST_CASE("recomputation keeps 34 s b h (selective) or the layer's input (full)") {
  const ModelSpec model = gpt(1, kHidden, kHeads);
  CHECK(saved(shape_of(model, kSequence, kMicroBatch, 1, false), Recompute::selective) == 34 * kSbh + kStatistics);
  CHECK(saved(shape_of(model, kSequence, kMicroBatch, 1, false), Recompute::full) == 2 * kSbh);
  CHECK(saved(shape_of(model, kSequence, kMicroBatch, 8, true), Recompute::full) == 2 * kSbh / 8);
}

TEST_CASE("a layer's products are 24 B s h^2 + 4 B s^2 h forward, twice that backward, and once more recomputed") {
  const ModelSpec model = gpt(1, kHidden, kHeads);
  const double b = kMicroBatch;
  const double s = kSequence;
  const double h = kHidden;
  const double attention = 4 * b * s * s * h;
  const double forward = 24 * b * s * h * h + attention;
  for (const std::int64_t t : {1, 2, 8}) {
    const OperatorShape shape = shape_of(model, kSequence, kMicroBatch, t, t > 2);
    KernelPool pool;
    const Block none = transformer_layer(pool, shape, Recompute::none);
    const Block selective = transformer_layer(pool, shape, Recompute::selective);
    const Block full = transformer_layer(pool, shape, Recompute::full);
    const auto whole = static_cast<double>(t);
    CHECK(gemm_flops(pool, none.forward) * whole == forward);
    CHECK(gemm_flops(pool, none.backward) * whole == 2 * forward);
    CHECK(gemm_flops(pool, selective.backward) * whole == 2 * forward + attention);
    CHECK(gemm_flops(pool, full.backward) * whole == 3 * forward);
  }
}

TEST_CASE("grouped queries and a gated MLP cost what their matrices have") {
  // Llama-like: q 64 x 16, k and v 2 heads, output; three matrices of 64 x 96.
  const ModelSpec model = llama(1, 64, 4, 2, 96);
  OperatorShape shape = shape_of(model, 32, 1, 1, false);
  shape.attention = AttentionKind::flash;
  KernelPool pool;
  const Block block = transformer_layer(pool, shape, Recompute::none);
  const double matrices = 64 * (64 + 2 * 32) + 64 * 64 + 3 * 64 * 96;
  CHECK(gemm_flops(pool, block.forward) == 2 * 32 * matrices);
  // The causal half of two products forward (2 s^2 h), and of five backward.
  double attention = 0;
  double attention_backward = 0;
  for (const Step& step : block.forward) {
    if (step.kind == Step::Kind::kernel && pool[step.kernel].kind == KernelKind::attention_forward) {
      attention += pool[step.kernel].flops.count();
    }
  }
  for (const Step& step : block.backward) {
    if (step.kind == Step::Kind::kernel && pool[step.kernel].kind == KernelKind::attention_backward) {
      attention_backward += pool[step.kernel].flops.count();
    }
  }
  CHECK(attention == 2.0 * 32 * 32 * 64);
  CHECK(attention_backward == 5.0 * 32 * 32 * 64);
}

TEST_CASE("tensor parallelism all-reduces twice forward and twice backward") {
  const OperatorShape shape = shape_of(gpt(1, kHidden, kHeads), kSequence, kMicroBatch, 4, false);
  KernelPool pool;
  const Block block = transformer_layer(pool, shape, Recompute::none);
  CHECK(collectives(block.forward, CollectiveOp::all_reduce) == 2);
  CHECK(collectives(block.backward, CollectiveOp::all_reduce) == 2);
  for (const Step& step : block.forward) {
    if (step.kind == Step::Kind::collective) CHECK(step.call.bytes.count() == 2 * kSbh);
  }
  // Twice more when the forward pass runs again.
  CHECK(collectives(transformer_layer(pool, shape, Recompute::full).backward, CollectiveOp::all_reduce) == 4);
}

TEST_CASE("sequence parallelism gathers and scatters twice forward; backward gathers inputs once more") {
  const OperatorShape shape = shape_of(gpt(1, kHidden, kHeads), kSequence, kMicroBatch, 4, true);
  KernelPool pool;
  const Block block = transformer_layer(pool, shape, Recompute::none);
  CHECK(collectives(block.forward, CollectiveOp::all_gather) == 2);
  CHECK(collectives(block.forward, CollectiveOp::reduce_scatter) == 2);
  CHECK(collectives(block.backward, CollectiveOp::all_gather) == 4);
  CHECK(collectives(block.backward, CollectiveOp::reduce_scatter) == 2);
  CHECK(collectives(block.backward, CollectiveOp::all_reduce) == 0);
}

TEST_CASE("the input gradient's all-reduce runs beside the weight gradient's product") {
  const OperatorShape shape = shape_of(gpt(1, kHidden, kHeads), kSequence, kMicroBatch, 4, false);
  KernelPool pool;
  const Block block = transformer_layer(pool, shape, Recompute::none);
  const auto call = std::find_if(block.backward.begin(), block.backward.end(),
                                 [](const Step& s) { return s.kind == Step::Kind::collective; });
  REQUIRE(call != block.backward.end());
  CHECK(call->asynchronous);
  CHECK(pool[(call - 1)->kernel].name == "mlp_up.input_gradient");
  CHECK(pool[(call + 1)->kernel].name == "mlp_up.weight_gradient");
  const auto wait = std::find_if(call, block.backward.end(), [](const Step& s) { return s.kind == Step::Kind::wait; });
  CHECK(wait - call == 3);  // the weight's gradient, the bias's, then the wait
}

TEST_CASE("every parameter's gradient is announced once, and ranks together hold the whole layer") {
  for (const ModelSpec& model : {gpt(1, 64, 4, 512), llama(1, 64, 4, 2, 96, 512)}) {
    for (const std::int64_t t : {1, 2}) {
      for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
        for (const bool fused : {false, true}) {
          OperatorShape shape = shape_of(model, 32, 1, t, t > 1);
          shape.fused = fused;
          KernelPool pool;
          std::int64_t elements = 0;
          for (const Block& block : {embedding_block(pool, shape), transformer_layer(pool, shape, recompute),
                                     head_block(pool, shape, !model.tied_embeddings)}) {
            std::vector<int> announced(block.parameters.size(), 0);
            for (const Step& step : block.backward) {
              for (const ParameterIndex i : step.gradients) ++announced[static_cast<std::size_t>(i)];
            }
            CHECK(std::all_of(announced.begin(), announced.end(), [](int n) { return n == 1; }));
            for (const ParameterTensor& p : block.parameters) elements += p.sharded ? p.elements * t : p.elements;
          }
          CHECK(elements == parameters(model));
        }
      }
    }
  }
}

TEST_CASE("without fusion a layer launches more kernels and moves more bytes, for the same products") {
  for (const ModelSpec& model : {gpt(1, 64, 4, 512), llama(1, 64, 4, 2, 96, 512)}) {
    OperatorShape shape = shape_of(model, 32, 1, 1, false);
    KernelPool pool;
    const Block fused = transformer_layer(pool, shape, Recompute::none);
    shape.fused = false;
    const Block unfused = transformer_layer(pool, shape, Recompute::none);
    const auto bytes = [&](const Block& block) {
      std::int64_t sum = 0;
      for (const auto* steps : {&block.forward, &block.backward}) {
        for (const Step& s : *steps) sum += s.kind == Step::Kind::kernel ? pool[s.kernel].bytes.count() : 0;
      }
      return sum;
    };
    CHECK(kernels(unfused) > kernels(fused));
    CHECK(bytes(unfused) > bytes(fused));
    CHECK(gemm_flops(pool, unfused.forward) == gemm_flops(pool, fused.forward));
  }
}

TEST_CASE("softmax is one kernel where Megatron's takes the shape, and otherwise in fp32 between casts") {
  // Two heads a rank: a micro-batch of two makes four rows of heads, which the kernel takes; one makes two.
  OperatorShape four = shape_of(gpt(1, 128, 4), 64, 2, 2, false);
  OperatorShape two = shape_of(gpt(1, 128, 4), 64, 1, 2, false);
  KernelPool pool;
  const std::int64_t fused = kernels(transformer_layer(pool, four, Recompute::none));
  CHECK(kernels(transformer_layer(pool, two, Recompute::none)) == fused + 4 + 4);  // cast, scale, mask, cast; both ways
  two.sequence = four.sequence = 8192;                                             // longer than its 4,096
  CHECK(kernels(transformer_layer(pool, four, Recompute::none)) ==
        kernels(transformer_layer(pool, two, Recompute::none)));
  // Where nothing is fused, softmax stays in the compute format.
  four.fused = false;
  const Block plain = transformer_layer(pool, four, Recompute::none);
  for (const Step& step : plain.forward) {
    if (step.kind == Step::Kind::kernel) CHECK(pool[step.kernel].name != "attention.cast");
  }
}

TEST_CASE("losses keep and make what their library does of the logits") {
  // 64 tokens, 512 words: 32,768 logits.
  constexpr std::int64_t kLogits = 64 * 512;
  OperatorShape shape = shape_of(gpt(1, 128, 4, 512, 64), 64, 1, 1, false);
  struct Sums {
    std::int64_t saved = 0;
    std::int64_t forward = 0;  // of the logits' copies, while the pass runs
    std::int64_t backward = 0;
    std::int64_t bytes = 0;  // of memory traffic
  };
  const auto of = [&](LossKind kind) {
    shape.loss = kind;
    KernelPool pool;
    const Block head = head_block(pool, shape, true);
    Sums sums;
    const auto add = [&](const std::vector<Step>& steps, std::int64_t& most) {
      std::int64_t held = 0;
      for (const Step& step : steps) {
        for (const MemoryOperation& m : step.memory) {
          if (m.tag == MemoryTag::logits) held += m.bytes.count();
          most = std::max(most, held);
        }
        if (step.kind != Step::Kind::kernel) continue;
        const Kernel& kernel = pool[step.kernel];
        if (kernel.kind == KernelKind::cross_entropy) sums.bytes += kernel.bytes.count();
      }
      return held;
    };
    sums.saved = add(head.forward, sums.forward);
    add(head.backward, sums.backward);
    return sums;
  };
  const Sums megatron = of(LossKind::vocab_parallel);
  CHECK(megatron.saved == 4 * kLogits);
  CHECK(megatron.forward == (2 + 4) * kLogits);
  CHECK(megatron.backward == 2 * kLogits);
  CHECK(megatron.bytes == 40 * kLogits);
  const Sums pytorch = of(LossKind::pytorch);
  CHECK(pytorch.saved == 4 * kLogits);
  CHECK(pytorch.forward == (2 + 4 + 4) * kLogits);
  CHECK(pytorch.backward == (4 + 4 + 2) * kLogits);
  CHECK(pytorch.bytes == 44 * kLogits);
  const Sums in_place = of(LossKind::in_place);
  CHECK(in_place.saved == 2 * kLogits);
  CHECK(in_place.forward == 2 * kLogits);
  CHECK(in_place.backward == 0);
  CHECK(in_place.bytes == 6 * kLogits);
}
