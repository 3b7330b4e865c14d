// What is trained and what is not: weights, FLOPs, bytes, and whether programs still hold together.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <string>

#include "tests/unit/workloads/plans.hpp"
#include "tests/unit/workloads/shardings.hpp"
#include "tests/unit/workloads/trainables.hpp"
#include "tests/unit/workloads/untimed.hpp"
#include "tests/unit/workloads/work.hpp"
#include "workloads/build.hpp"
#include "workloads/flops.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

std::int64_t resident(const Workload& w, MemoryTag tag) {
  std::int64_t sum = 0;
  for (const MemoryOperation& m : w.programs[0].resident_memory()) sum += m.tag == tag ? m.bytes.count() : 0;
  return sum;
}

// Plain attention, whose products are matrix products over the whole square, as model FLOPs count them.
TrainingSpec plain_training(const TrainableSpec& trainable, std::int64_t sequences = 2) {
  TrainingSpec t = training(32, sequences);
  t.attention = AttentionKind::plain;
  t.trainable = trainable;
  return t;
}

Workload built(const ModelSpec& model, const TrainingSpec& training, const ParallelismSpec& parallelism,
               std::int64_t ranks) {
  Result<Workload> w = build_workload(model, training, parallelism, ranks);
  REQUIRE_MESSAGE(w.ok(), to_string(w.problems()));
  return std::move(w).value();
}

bool has_kernel(const Workload& w, const std::string& part) {
  bool found = false;
  for_each_kernel(w, w.programs[0], [&](const Kernel& k) { found = found || k.name.find(part) != std::string::npos; });
  return found;
}

const ModelSpec kSmall = llama(4, 64, 4, 2, 96, 512);

}  // namespace

// Llama 7B (hidden 4096, 32 layers, 32 heads, MLP 11008). PEFT prints 4,194,304 trainable parameters for rank 8 beside
// queries and values: 32 layers x 2 x 8 x (4096 + 4096); and 39,976,960 for rank 16 beside all linear layers:
// 32 x 16 x (4 x 8192 + 3 x 15104).
TEST_CASE("adapters have the parameters that PEFT prints") {
  const ModelSpec m = llama(32, 4096, 32, 32, 11008);
  CHECK(trained_parameters(m, lora(8, targets({Target::q, Target::v}))) == 4'194'304);
  CHECK(trained_parameters(m, lora(16, all_linear())) == 39'976'960);
}

// A layer of kSmall: attention 64 x (64 + 2 x 32) + 64 x 64 = 12,288; MLP 3 x 64 x 96 = 18,432; norms 2 x 64.
TEST_CASE("trained parameters are those of the parts that are named") {
  CHECK(trained_parameters(kSmall, {}) == parameters(kSmall));
  CHECK(trained_parameters(kSmall, only({Part::attention})) == 4 * 12'288);
  CHECK(trained_parameters(kSmall, only({Part::mlp})) == 4 * 18'432);
  CHECK(trained_parameters(kSmall, only({Part::norms})) == 4 * 128 + 64);
  CHECK(trained_parameters(kSmall, only({Part::head})) == 512 * 64);
  TrainableSpec upper;
  upper.frozen_layers = {{0, 2}};
  CHECK(trained_parameters(kSmall, upper) == 2 * 512 * 64 + 12'288 + 18'432 + 128 + 64);
}

TEST_CASE("matrix products are those that model FLOPs count, whatever is trained") {
  for (const NamedTrainable& each : trainables()) {
    CAPTURE(each.name);
    const Workload w = built(kSmall, plain_training(each.spec), parallel(1), 1);
    CHECK(flops_of(w, KernelKind::gemm) == doctest::Approx(w.model_flops.count()).epsilon(1e-12));
  }
}

// A frozen layer behind a trained embedding makes gradients of inputs only: forward and backward are two units where
// three are usual. Attention's own products have no weights.
TEST_CASE("the backward pass of frozen layers is half as long") {
  const std::int64_t tokens = 32;
  const double layers = 2.0 * 4 * (12'288 + 18'432) * tokens;
  const double head = 2.0 * 512 * 64 * tokens;
  const double attention = model_flops(kSmall, tokens, 1).count() - 3 * (layers + head);
  TrainableSpec frozen = only({Part::embedding});
  CHECK(model_flops(kSmall, tokens, 1, frozen).count() == doctest::Approx(2 * (layers + head) + attention));
  // The head alone: forward, and one product for its weight.
  CHECK(model_flops(kSmall, tokens, 1, only({Part::head})).count() ==
        doctest::Approx(layers + attention / 3 + 2 * head));
  // Attention alone: nothing for the weights of the MLP and the head; the first layer's queries, keys and values need
  // no gradient of their input.
  const double attention_matrices = 2.0 * 4 * 12'288 * tokens;
  const double first = 2.0 * 64 * 128 * tokens;
  CHECK(model_flops(kSmall, tokens, 1, only({Part::attention})).count() ==
        doctest::Approx(2 * (layers + head) + attention + attention_matrices - first));
}

TEST_CASE("frozen weights have neither gradient nor optimizer state, whoever shards them") {
  const std::int64_t n = 4;
  const TrainableSpec spec = only({Part::attention});
  const std::int64_t p = parameters(kSmall);
  const std::int64_t trained = trained_parameters(kSmall, spec);  // tensors are multiples of 4
  const auto state = [&](const Choice& sharding, MemoryTag tag) {
    ParallelismSpec plan = parallel(1);
    plan.sharding = sharding;
    return resident(built(kSmall, plain_training(spec, n), plan, n), tag);
  };
  struct Row {
    Choice sharding;
    std::int64_t weights, gradients, optimizer;
  };
  const std::int64_t frozen = p - trained;
  const Row rows[] = {
      {{"none", {}}, 2 * p, 4 * trained, 12 * trained},
      {{"distributed-optimizer", {}}, 2 * p, 4 * trained, 12 * trained / n},
      {{"zero1", {}}, 2 * p, 2 * trained, 12 * trained / n},
      {{"zero2", {}}, 2 * p, 2 * trained / n, 12 * trained / n},
      {{"zero3", {}}, 2 * p / n, 2 * trained / n, 12 * trained / n},
      {{"fsdp", {}}, (4 * trained + 2 * frozen) / n, 4 * trained / n, 8 * trained / n},
  };
  for (const Row& row : rows) {
    CAPTURE(row.sharding.kind);
    CHECK(state(row.sharding, MemoryTag::weights) == row.weights);
    CHECK(state(row.sharding, MemoryTag::gradients) == row.gradients);
    CHECK(state(row.sharding, MemoryTag::optimizer_state) == row.optimizer);
  }
}

TEST_CASE("only gradients of what is trained are reduced") {
  for (const NamedTrainable& each : trainables()) {
    CAPTURE(each.name);
    const Workload w = built(kSmall, plain_training(each.spec, 4), parallel(1), 2);
    CHECK(collective_bytes(w, 0, CollectiveOp::all_reduce, Phase::gradient_reduction) ==
          4 * trained_parameters(kSmall, each.spec));
  }
}

TEST_CASE("below the lowest trained weight nothing runs backward, and no gradients are sent") {
  const TrainingSpec t = plain_training(only({Part::head}), 4);
  const Workload w = built(kSmall, t, parallel(1, 4), 4);
  for (std::size_t rank = 0; rank < 4; ++rank) {
    CHECK(sent_by(w, rank, Phase::backward) == 0);
    CHECK((sent_by(w, rank, Phase::forward) > 0) == (rank < 3));
  }
  TrainableSpec upper;
  upper.parts.set(Part::embedding, false);
  upper.frozen_layers = {{0, 1}};
  const Workload half = built(kSmall, plain_training(upper, 4), parallel(1, 4), 4);
  CHECK(sent_by(half, 3, Phase::backward) > 0);
  CHECK(sent_by(half, 2, Phase::backward) == 0);
}

// Fused attention of a frozen layer keeps what it reads backward: queries, keys, values, its output, and the softmax
// statistics; the activation keeps gate and up; norms their input and a number a row. Inputs of products are not kept:
// the two norms' outputs and the activation's.
TEST_CASE("what only gradients of weights read is not kept") {
  const auto peak = [](const TrainableSpec& spec) {
    TrainingSpec t = training(32, 1);
    t.framework.fused_kernels = true;
    t.trainable = spec;
    const Workload w = built(kSmall, t, parallel(1), 1);
    std::int64_t now = 0;
    std::int64_t most = 0;
    for (const Task& task : w.programs[0].tasks()) {
      for (const MemoryOperation& m : w.programs[0].memory(task)) {
        if (m.tag == MemoryTag::activations) now += m.bytes.count();
        most = std::max(most, now);
      }
    }
    return most;
  };
  const std::int64_t tokens = 32;
  const std::int64_t inputs = tokens * 2 * (64 + 64 + 96) * 4 + tokens * 2 * 64;  // of four layers, and of the head
  CHECK(peak({}) - peak(only({Part::embedding})) == inputs);
}

TEST_CASE("adapters take less than training in full, and more than what they stand beside") {
  const TrainingSpec full = plain_training({});
  const Workload whole = built(kSmall, full, parallel(1), 1);
  const Workload adapted = built(kSmall, plain_training(lora(4, all_linear())), parallel(1), 1);
  const Workload frozen = built(kSmall, plain_training(only({Part::embedding})), parallel(1), 1);
  CHECK(adapted.hardware_flops < whole.hardware_flops);
  CHECK(frozen.model_flops < adapted.model_flops);
  CHECK(has_kernel(adapted, "query_lora_a.forward"));
  CHECK(has_kernel(adapted, "mlp_down_lora_b.weight_gradient"));
  CHECK_FALSE(has_kernel(adapted, "mlp_down.weight_gradient"));
  CHECK_FALSE(has_kernel(frozen, "logits.weight_gradient"));
}

// Beside a column-parallel matrix A is whole and B is split, beside a row-parallel one the reverse; so over t ranks
// the whole halves are there t times.
TEST_CASE("adapters are split over tensor ranks as PEFT splits them") {
  const std::int64_t r = 4;
  const TrainableSpec spec = lora(r, targets({Target::q, Target::o}));
  const std::int64_t t = 2;
  for (const bool sequence_parallel : {false, true}) {
    const Workload w = built(kSmall, plain_training(spec), parallel(t, 1, sequence_parallel), t);
    const std::int64_t whole = 4 * r * (64 + 64);      // A of q, B of o, in four layers
    const std::int64_t split = 4 * r * (64 + 64) / t;  // B of q, A of o
    CHECK(resident(w, MemoryTag::optimizer_state) == 12 * (whole + split));
  }
}

TEST_CASE("4-bit matrices take a quarter and are made whole before each product") {
  TrainableSpec spec = lora(4, all_linear());
  const Workload half = built(kSmall, plain_training(spec), parallel(1), 1);
  spec.lora.nf4 = true;
  const Workload quarter = built(kSmall, plain_training(spec), parallel(1), 1);
  const std::int64_t matrices = 4 * (12'288 + 18'432);
  const double saved = static_cast<double>(matrices) * (2 - 0.5 - 1.0 / 64 - 4.0 / (64 * 256));
  CHECK(static_cast<double>(resident(half, MemoryTag::weights) - resident(quarter, MemoryTag::weights)) ==
        doctest::Approx(saved).epsilon(0.001));
  CHECK(has_kernel(quarter, "mlp_down.dequantize"));
  CHECK_FALSE(has_kernel(quarter, "logits.dequantize"));
  CHECK(quarter.model_flops == half.model_flops);
}
