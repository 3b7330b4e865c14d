// fp8 and sparse products: what they compute, move and keep, against bf16.
#include "workloads/fp8.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "tests/unit/workloads/plans.hpp"
#include "workloads/build.hpp"
#include "workloads/layer.hpp"
#include "workloads/operators/products.hpp"
#include "workloads/operators/tensor_overlap.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

TrainingSpec in_fp8(const Choice& recipe = {"delayed", {}}) {
  TrainingSpec t = training(64, 4);
  t.precision = PrecisionRecipe::fp8;
  t.fp8 = recipe;
  t.framework.fused_kernels = true;
  return t;
}

Workload built(const TrainingSpec& recipe, const ParallelismSpec& plan, std::int64_t ranks,
               const ModelSpec& model = llama(2, 128, 4, 2, 256, 512)) {
  Result<Workload> workload = build_workload(model, recipe, plan, ranks);
  REQUIRE_MESSAGE(workload.ok(), to_string(workload.problems()));
  return std::move(workload).value();
}

const Kernel& kernel(const Workload& workload, const std::string& name) {
  const auto found =
      std::find_if(workload.kernels.begin(), workload.kernels.end(), [&](const Kernel& k) { return k.name == name; });
  REQUIRE_MESSAGE(found != workload.kernels.end(), name);
  return *found;
}

std::int64_t resident(const Workload& workload, MemoryTag tag) {
  std::int64_t bytes = 0;
  for (const MemoryOperation& m : workload.programs[0].resident_memory()) bytes += m.tag == tag ? m.bytes.count() : 0;
  return bytes;
}

std::int64_t launches(const Workload& workload, const std::string& name) {
  std::int64_t count = 0;
  for (const Task& task : workload.programs[0].tasks()) {
    if (task.kind != TaskKind::kernels) continue;
    for (const KernelId id : workload.programs[0].sequences()[task.payload]) {
      count += workload.kernels[id.index()].name == name ? 1 : 0;
    }
  }
  return count;
}

std::int64_t reductions(const Workload& workload, const std::string& label) {
  std::int64_t count = 0;
  for (const Task& task : workload.programs[0].tasks()) {
    count += task.kind == TaskKind::collective && workload.programs[0].label(task) == label ? 1 : 0;
  }
  return count;
}

bool refused(const ModelSpec& model, const TrainingSpec& recipe, const ParallelismSpec& plan, const std::string& key) {
  const Problems problems = check_plan(model, recipe, plan, 4);
  return std::any_of(problems.begin(), problems.end(), [&](const Problem& p) { return p.key == key; });
}

}  // namespace

TEST_CASE("the products of a layer's linear operators run in fp8, attention and head do not") {
  const Workload w = built(in_fp8(), parallel(1), 1);
  for (const char* name : {"qkv", "attention_output", "mlp_gate_up", "mlp_down"}) {
    for (const char* pass : {".forward", ".input_gradient", ".weight_gradient"}) {
      CHECK(kernel(w, std::string(name) + pass).precision == Precision::fp8);
    }
  }
  CHECK(kernel(w, "logits.forward").precision == Precision::bf16);
  CHECK(kernel(w, "attention.forward").precision == Precision::bf16);
  // [64 tokens, 128] x [128, 128]: operands of a byte, results of two.
  CHECK(kernel(w, "attention_output.forward").bytes.count() == 64 * 128 + 128 * 128 + 2 * 64 * 128);
  // Quantised: two bytes read, one written both ways.
  CHECK(kernel(w, "attention_output.input_quantize").bytes.count() == 4 * 64 * 128);
}

TEST_CASE("model and hardware FLOPs are those of bf16") {
  TrainingSpec bf16 = in_fp8();
  bf16.precision = PrecisionRecipe::bf16;
  const Workload a = built(in_fp8(), parallel(1), 1);
  const Workload b = built(bf16, parallel(1), 1);
  CHECK(a.model_flops.count() == b.model_flops.count());
  double products[2] = {0, 0};
  for (const Kernel& k : a.kernels) products[0] += k.kind == KernelKind::gemm ? k.flops.count() : 0;
  for (const Kernel& k : b.kernels) products[1] += k.kind == KernelKind::gemm ? k.flops.count() : 0;
  CHECK(products[0] == products[1]);
}

TEST_CASE("cached weights take a byte an element and way, and are quantised once a step") {
  // Two layers of qkv 128 x 256, output 128 x 128, gate and up 128 x 512, down 256 x 128: 147,456 elements each; the
  // history of five tensors of an operator, four operators a layer: 5 x 1,024 x 4 bytes.
  constexpr std::int64_t kElements = 2 * (128 * 256 + 128 * 128 + 128 * 512 + 256 * 128);
  constexpr std::int64_t kHistory = 2 * 4 * 5 * 1'024 * 4;
  TrainingSpec bf16 = in_fp8();
  bf16.precision = PrecisionRecipe::bf16;
  const std::int64_t whole = resident(built(bf16, parallel(1), 1), MemoryTag::weights);
  const Workload both = built(in_fp8(), parallel(1), 1);
  CHECK(resident(both, MemoryTag::weights) == whole + 2 * kElements + kHistory);
  CHECK(launches(both, "qkv.weight_quantize") == 2);
  const Workload one = built(in_fp8({"delayed", {{"transposes", false}}}), parallel(1), 1);
  CHECK(resident(one, MemoryTag::weights) == whole + kElements + kHistory);
  // Blocks of 128 x 128 have a scale each, both ways.
  const Workload block = built(in_fp8({"block", {}}), parallel(1), 1);
  CHECK(resident(block, MemoryTag::weights) == whole + 2 * kElements + 2 * 4 * kElements / (128 * 128));
  // Not cached: quantised with each of four micro-batches.
  const Workload anew = built(in_fp8({"delayed", {{"cache_weights", false}}}), parallel(1), 1);
  CHECK(resident(anew, MemoryTag::weights) == whole + kHistory);
  CHECK(launches(anew, "qkv.weight_quantize") == 8);
}

TEST_CASE("delayed scaling reduces largest values after each pass, over those it is told to") {
  ParallelismSpec plan = parallel(2);
  plan.data = 2;
  CHECK(reductions(built(in_fp8(), plan, 4), "reduce largest values") == 2 * 2);  // two micro-batches, both ways
  const auto over = [&](const char* group, std::int64_t tensor, std::int64_t ranks) {
    ParallelismSpec p = parallel(tensor);
    return reductions(built(in_fp8({"delayed", {{"reduce_amax", std::string(group)}}}), p, ranks),
                      "reduce largest values");
  };
  CHECK(over("none", 2, 4) == 0);
  CHECK(over("tensor", 2, 4) == 4);
  CHECK(over("tensor", 1, 4) == 0);
  CHECK(over("stage", 1, 1) == 0);
  CHECK(reductions(built(in_fp8({"block", {}}), plan, 4), "reduce largest values") == 0);
}

TEST_CASE("with sequence parallelism operands are gathered in fp8") {
  ParallelismSpec plan = parallel(2, 1, true);
  const auto gathered = [&](const TrainingSpec& recipe) {
    const Workload w = built(recipe, plan, 2);
    std::int64_t bytes = 0;
    for (const Task& task : w.programs[0].tasks()) {
      const bool gather =
          task.kind == TaskKind::collective && w.programs[0].label(task) == "gather gradient" && task.layer >= 0;
      if (gather) bytes += w.programs[0].collective(task).bytes.count();
    }
    return bytes;
  };
  TrainingSpec bf16 = in_fp8();
  bf16.precision = PrecisionRecipe::bf16;
  CHECK(2 * gathered(in_fp8()) == gathered(bf16));
  // A scale of four bytes for 128 elements.
  CHECK(128 * 2 * gathered(in_fp8({"block", {}})) == 132 * gathered(bf16));
}

TEST_CASE("user buffers gather in fp8 and scatter in 16 bits, and the gathered gradient is transposed whole") {
  ParallelismSpec plan = parallel(2, 1, true);
  const TrainingSpec fp8 = in_fp8();
  TrainingSpec bf16 = fp8;
  bf16.precision = PrecisionRecipe::bf16;
  const Workload plain = built(fp8, plan, 2);
  plan.tp_comm_overlap = true;
  const auto moved = [&](const Workload& w, TaskKind kind, CollectiveOp op) {
    const Program& program = w.programs[0];
    std::int64_t bytes = 0;
    for (const Task& task : program.tasks()) {
      if (task.kind != kind || task.layer < 0) continue;
      if (kind == TaskKind::send) bytes += program.transfer(task).bytes.count();
      if (kind == TaskKind::collective && program.collective(task).op == op) {
        bytes += program.collective(task).bytes.count();
      }
    }
    return bytes;
  };
  const Workload low = built(fp8, plan, 2);
  const Workload high = built(bf16, plan, 2);
  const auto none = CollectiveOp::all_reduce;
  CHECK(2 * moved(low, TaskKind::send, none) == moved(high, TaskKind::send, none));
  CHECK(2 * moved(low, TaskKind::collective, CollectiveOp::all_gather) ==
        moved(high, TaskKind::collective, CollectiveOp::all_gather));
  CHECK(moved(low, TaskKind::collective, CollectiveOp::reduce_scatter) ==
        moved(high, TaskKind::collective, CollectiveOp::reduce_scatter));
  // Of two ranks, each ring step sends half of what the gather brings together.
  CHECK(2 * moved(low, TaskKind::send, none) + moved(low, TaskKind::collective, CollectiveOp::all_gather) ==
        moved(plain, TaskKind::collective, CollectiveOp::all_gather));
  // Products in fp8, of half of the rows; what is quantised and transposed is as much as without overlap.
  CHECK(kernel(low, "mlp_down.input_gradient").precision == Precision::fp8);
  CHECK(2 * kernel(low, "mlp_down.input_gradient").m == kernel(plain, "mlp_down.input_gradient").m);
  CHECK(low.hardware_flops == plain.hardware_flops);
  for (const char* name :
       {"mlp_down.gradient_quantize", "mlp_down.gradient_transpose", "qkv.input_transpose", "qkv.input_quantize"}) {
    CHECK(launches(low, name) == launches(plain, name));
    CHECK(kernel(low, name) == kernel(plain, name));
  }
}

TEST_CASE("user buffers in fp8: six of a byte, and four of 16 bits; pipelined input gradients need 16 bits too") {
  OperatorShape shape;
  shape.model = llama(1, 128, 4, 2, 256, 512);
  shape.sequence = 64;
  shape.micro_batch = 1;
  shape.overlap.bulk = true;
  CHECK(user_buffers(shape) == Bytes(10 * 64 * 128 * 2));
  shape.fp8 = fp8_shape(in_fp8());
  CHECK(user_buffers(shape) == Bytes((6 + 4 * 2) * 64 * 128));
  shape.overlap.bulk = false;
  CHECK(user_buffers(shape) == Bytes((4 + 6 * 2) * 64 * 128));
}

TEST_CASE("fp8 keeps inputs of linear operators in a byte, and attention's output beside its copy") {
  // Kept of a Llama layer in bf16: norms' inputs, operands of products, attention, activation. In fp8 the four inputs
  // take one byte an element: 128 (qkv) + 128 (output) + 128 (gate and up) + 256 (down) of 64 tokens; attention's
  // output, 128, is then kept by attention itself.
  OperatorShape shape;
  shape.model = llama(1, 128, 4, 2, 256, 512);
  shape.sequence = 64;
  shape.micro_batch = 1;
  shape.vocabulary = 512;
  KernelPool pool;
  const Block bf16 = transformer_layer(pool, shape, Recompute::none, false);
  shape.fp8 = fp8_shape(in_fp8());
  const Block fp8 = transformer_layer(pool, shape, Recompute::none, false);
  CHECK(bf16.saved.count() - fp8.saved.count() == 64 * (128 + 128 + 128 + 256) - 64 * 128 * 2);
}

TEST_CASE("current scaling reads a tensor twice, and reduces nothing") {
  ParallelismSpec plan = parallel(1);
  plan.data = 2;
  const Workload w = built(in_fp8({"current", {}}), plan, 2);
  // Two bytes twice, and one written both ways; a weight's, of 128 x 128, too.
  CHECK(kernel(w, "attention_output.input_quantize").bytes.count() == 6 * 64 * 128);
  CHECK(kernel(w, "attention_output.weight_quantize").bytes.count() == 6 * 128 * 128);
  CHECK(reductions(w, "reduce largest values") == 0);
}

TEST_CASE("weights that are gathered are quantised for each pass, and not kept") {
  constexpr std::int64_t kMicroBatches = 4;
  for (const char* kind : {"fsdp", "zero3"}) {
    CAPTURE(kind);
    ParallelismSpec plan = parallel(1);
    plan.sharding = {kind, {}};
    const Workload w = built(in_fp8({"current", {}}), plan, 1);
    CHECK(launches(w, "qkv.weight_quantize") == 2 * kMicroBatches * 2);                // layers, forward and backward
    CHECK(kernel(w, "qkv.weight_quantize").bytes.count() == (2 * 2 + 1) * 128 * 256);  // 16 bits read twice
    CHECK(kernel(w, "qkv.forward").precision == Precision::fp8);
  }
  // In fp8 already: transposed for the backward pass, where products need that.
  ParallelismSpec plan = parallel(1);
  plan.sharding = {"fsdp", {{"float8_all_gather", true}}};
  const Workload hopper = built(in_fp8({"current", {}}), plan, 1);
  CHECK(launches(hopper, "qkv.weight_quantize") == 0);
  CHECK(launches(hopper, "qkv.weight_transpose") == 2 * kMicroBatches);
  const Workload blackwell = built(in_fp8({"current", {{"transposes", false}}}), plan, 1);
  CHECK(launches(blackwell, "qkv.weight_transpose") == 0);
  CHECK(launches(blackwell, "qkv.weight_quantize") == 0);
}

TEST_CASE("of a frozen matrix nothing is quantised for its gradient") {
  TrainingSpec recipe = in_fp8();
  const Workload full = built(recipe, parallel(1), 1);
  recipe.trainable.parts = TrainedParts::none();
  recipe.trainable.parts.set(Part::norms, true);
  const Workload frozen = built(recipe, parallel(1), 1);
  for (const char* name : {"attention_output.input_quantize", "mlp_down.gradient_quantize"}) {
    // One way instead of two: a byte less of the four that an element moves.
    CHECK(3 * kernel(full, name).bytes.count() == 4 * kernel(frozen, name).bytes.count());
  }
  CHECK(launches(frozen, "mlp_down.weight_gradient") == 0);
  CHECK(launches(frozen, "mlp_down.input_gradient") == launches(full, "mlp_down.input_gradient"));
  // An adapter works in 16 bits, and reads the input that the norm has left.
  recipe.trainable.parts = TrainedParts::none();
  recipe.trainable.lora.rank = 4;
  recipe.trainable.lora.targets.add(Target::o);
  const Workload adapted = built(recipe, parallel(1), 1);
  CHECK(kernel(adapted, "attention_output_lora_a.forward").precision == Precision::bf16);
  CHECK(kernel(adapted, "attention_output.forward").precision == Precision::fp8);
}

TEST_CASE("what is not simulated with fp8 is refused") {
  const ModelSpec model = llama(2, 128, 4, 2, 256, 512);
  TrainingSpec bf16 = in_fp8({"block", {}});
  bf16.precision = PrecisionRecipe::bf16;
  CHECK(refused(model, bf16, parallel(1), "training.fp8"));
  CHECK(refused(llama(2, 136, 4, 2, 256, 512), in_fp8(), parallel(1), "training.precision"));
  ParallelismSpec overlapped = parallel(2, 1, true);
  overlapped.tp_comm_overlap = true;
  CHECK(check_plan(model, in_fp8(), overlapped, 2).empty());
  CHECK(refused(model, in_fp8({"block", {}}), overlapped, "parallelism.tp_comm_overlap"));
  // A quarter of 160 is no multiple of 16.
  const ModelSpec narrow = llama(2, 160, 10, 10, 256, 512);
  CHECK(check_plan(narrow, in_fp8(), parallel(2, 1, true), 2).empty());
  CHECK(refused(narrow, in_fp8(), overlapped, "training.precision"));
  // 64 tokens on 16 ranks are 4 each.
  ParallelismSpec wide = overlapped;
  wide.tensor = 16;
  CHECK(refused(llama(2, 256, 16, 16, 256, 512), in_fp8(), wide, "training.sequence_length"));
  TrainingSpec ragged = in_fp8();
  ragged.sequence_length = 63;
  CHECK(refused(model, ragged, parallel(1), "training.sequence_length"));
}

TEST_CASE("sparse products do half of the work, of weights alone, and pack weights at 9/16 both ways") {
  TrainingSpec recipe = in_fp8();
  recipe.precision = PrecisionRecipe::bf16;
  const Workload dense = built(recipe, parallel(1), 1);
  recipe.sparsity = {"2:4", {}};
  const Workload sparse = built(recipe, parallel(1), 1);
  const auto flops = [](const Workload& w, const char* name) { return kernel(w, name).flops.count(); };
  for (const char* name : {"mlp_down.forward", "mlp_down.input_gradient", "mlp_gate_up.forward"}) {
    CHECK(2 * flops(sparse, name) == flops(dense, name));
  }
  for (const char* name : {"mlp_down.weight_gradient", "qkv.forward", "logits.forward"}) {
    CHECK(flops(sparse, name) == flops(dense, name));
  }
  // 256 / 1.6: as long as a dense product of that depth.
  CHECK(kernel(sparse, "mlp_down.forward").k == 160);
  // Read once, written twice at 9/16: 2 (1 + 2 x 9/16) bytes an element.
  CHECK(kernel(sparse, "mlp_down.sparsify").bytes.count() == 256 * 128 * 17 / 4);
  // An operand of 9/16 of 2 bytes.
  CHECK(kernel(dense, "mlp_down.forward").bytes.count() - kernel(sparse, "mlp_down.forward").bytes.count() ==
        256 * 128 * 2 * 7 / 16);
  recipe.sparsity = {"2:4", {{"parts", std::string("linear")}}};
  CHECK(2 * flops(built(recipe, parallel(1), 1), "qkv.forward") == flops(dense, "qkv.forward"));
  recipe.precision = PrecisionRecipe::fp8;
  CHECK(refused(llama(2, 128, 4, 2, 256, 512), recipe, parallel(1), "training.sparsity"));
}
