// Whole steps of image models: FLOPs, replicas and shardings, tensor and pipeline parallelism, what is refused.
#include <doctest/doctest.h>
#include <fmt/core.h>

#include <map>
#include <string>

#include "tests/unit/workloads/plans.hpp"
#include "tests/unit/workloads/played_ledger.hpp"
#include "tests/unit/workloads/shardings.hpp"
#include "tests/unit/workloads/untimed.hpp"
#include "tests/unit/workloads/work.hpp"
#include "workloads/build.hpp"
#include "workloads/flops.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

TrainingSpec image_training(const ModelSpec& model, std::int64_t global_batch, std::int64_t micro_batch) {
  return training(tokens_per_image(model), global_batch, micro_batch);
}

Workload built(const ModelSpec& model, const TrainingSpec& t, const ParallelismSpec& p, std::int64_t ranks) {
  Result<Workload> result = build_workload(model, t, p, ranks);
  REQUIRE_MESSAGE(result.ok(), to_string(result.problems()));
  return std::move(result).value();
}

}  // namespace

TEST_CASE("a step of an image model computes three forward passes, less the first layer's input gradient") {
  const ModelSpec net = resnet({2, 1, 3}, 16);
  // Recomputation repeats the bottlenecks: everything but the stem and the classes.
  const double stem = 2.0 * static_cast<double>(stem_convolution(net).multiply_adds());
  const double forward = forward_flops(net, 1).count();
  const double classes = 2.0 * static_cast<double>(final_channels(net) * net.classes);
  TrainingSpec t = image_training(net, 16, 2);
  CHECK(flops_of(built(net, t, {}, 4), KernelKind::gemm) == 16 * (3 * forward - stem));
  t.recompute = Recompute::full;
  CHECK(flops_of(built(net, t, {}, 4), KernelKind::gemm) == 16 * (4 * forward - 2 * stem - classes));

  // Of a vit, attention is counted apart; tensor-parallel ranks all do the patches and the classes.
  const ModelSpec image = vit(4, 64, 4);
  const double s = 17;
  const double attention = 4 * s * s * 64 * 4;
  const double patches = 2.0 * 16 * 64 * 3 * 64;
  const double head = 2.0 * 64 * 40;
  const double whole = forward_flops(image, 17).count();
  t = image_training(image, 8, 1);
  CHECK(flops_of(built(image, t, parallel(1), 4), KernelKind::gemm) == 8 * (3 * (whole - attention) - patches));
  CHECK(flops_of(built(image, t, parallel(2, 2), 4), KernelKind::gemm) ==
        8 * (3 * (whole - attention) - patches + 2 * patches + 3 * head));
}

TEST_CASE("a step of an image model has no tokens to count, and three forward passes of FLOPs an image") {
  const ModelSpec image = vit(2, 64, 4);
  const Workload w = built(image, image_training(image, 24, 3), {}, 4);
  CHECK(w.tokens_per_step == 0);
  CHECK(w.model_flops.count() == 3 * 24 * forward_flops(image, 17).count());
}

TEST_CASE("images and labels are copied to the GPU once") {
  // 3 x 32^2 fp32 values, and a 64-bit label.
  const ModelSpec net = resnet({1, 1}, 8);
  const Workload w = built(net, image_training(net, 8, 2), {}, 2);
  std::int64_t bytes = 0;
  for (const Task& task : w.programs[0].tasks()) {
    if (task.kind == TaskKind::copy && w.programs[0].copy(task).direction == CopyDirection::host_to_device) {
      bytes += w.programs[0].copy(task).bytes.count();
    }
  }
  CHECK(bytes == 4 * (4 * 3 * 32 * 32 + 8));
}

TEST_CASE("every way of sharding works with image models") {
  std::map<std::string, int> count;
  std::size_t turn = 0;
  for (const Choice& choice : sharding_choices()) {
    for (const int setting : {0, 1, 2, 3}) {
      const bool convolutions = setting < 2;
      ModelSpec model = convolutions ? resnet({2, 1, 2}, 8) : vit(4, 64, 4);
      if (turn % 3 == 0) model.class_token = false;
      const ParallelismSpec degrees = setting == 2 ? parallel(2, 2) : parallel(1);
      const std::int64_t data = setting == 1 ? 1 : 4;
      TrainingSpec t = image_training(model, 4 * data, 2);
      t.recompute = turn % 3 == 1 ? Recompute::full : Recompute::none;
      t.precision = turn % 5 == 0 ? PrecisionRecipe::fp16 : turn % 7 == 0 ? PrecisionRecipe::fp32 : t.precision;
      t.framework.fused_kernels = turn % 2 == 0;
      t.framework.autocast = turn % 11 < 5;
      t.dropout = convolutions ? 0 : 0.1;
      ParallelismSpec plan = degrees;
      plan.sharding = choice;
      ++turn;
      CAPTURE(testing::name_of(choice));
      CAPTURE(setting);
      const std::int64_t ranks = data * degrees.tensor * degrees.pipeline;
      const Result<Workload> w = build_workload(model, t, plan, ranks);
      if (!w.ok() && only_sharding(w.problems())) continue;
      REQUIRE_MESSAGE(w.ok(), to_string(w.problems()));
      ++count[choice.kind];
      const std::vector<std::string> found = inconsistencies(*w);
      CHECK_MESSAGE(found.empty(), found.front());
      CHECK(UntimedRun(*w).deadlock() == "");
      for (const Program& program : w->programs) CHECK(play_ledger(program).fault == "");
    }
  }
  for (const RegistryRow& row : sharding_rows()) CHECK(count[std::string(row.name)] >= 3);
}

TEST_CASE("a convolution's input lives until its weights' gradients are made, halves or not") {
  for (const ModelSpec& model : {resnet({2, 2}, 8), vit(4, 64, 4)}) {
    ParallelismSpec plan = parallel(1, model.kind == ModelKind::vit ? 2 : 1);
    plan.schedule.kind = "zb-h1";
    const TrainingSpec t = image_training(model, 16, 2);
    const Workload w = built(model, t, plan, 2);
    CHECK(UntimedRun(w).deadlock() == "");
    for (const Program& program : w.programs) CHECK(play_ledger(program).fault == "");
    plan.schedule.kind = "1f1b";
    CHECK(w.hardware_flops == built(model, t, plan, 2).hardware_flops);
  }
}

TEST_CASE("what image models cannot do is refused, with the reason") {
  const auto keys = [](const ModelSpec& model, const TrainingSpec& t, const ParallelismSpec& p) {
    std::string text;
    for (const Problem& problem : check_plan(model, t, p, 8)) text += problem.key + " ";
    return text;
  };
  const ModelSpec net = resnet({2, 2}, 8);
  TrainingSpec t = image_training(net, 16, 2);
  CHECK(keys(net, t, {}) == "");
  CHECK(keys(net, t, parallel(2)) == "parallelism.tensor ");
  CHECK(keys(net, t, parallel(1, 2)) == "parallelism.pipeline ");
  t.recompute = Recompute::selective;
  t.dropout = 0.1;
  CHECK(keys(net, t, {}) == "training.recompute training.dropout ");
  const ModelSpec image = vit(4, 64, 4);
  t = image_training(image, 16, 2);
  CHECK(keys(image, t, parallel(2, 2)) == "");
  CHECK(keys(image, t, parallel(2, 1, true)).find("parallelism.sequence_parallel ") == 0);
  t.sequence_length = 2048;
  CHECK(keys(image, t, {}) == "training.sequence_length ");
  ParallelismSpec split;
  split.context = 2;
  t = image_training(image, 16, 2);
  CHECK(keys(image, t, split).find("parallelism.context ") == 0);
}
