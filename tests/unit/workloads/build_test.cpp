// Whole steps: FLOPs, transfers, memory over time, order of tasks.
#include "workloads/build.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <set>

#include "tests/unit/workloads/plans.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

Workload built(const ModelSpec& model, const TrainingSpec& training, const ParallelismSpec& parallelism,
               std::int64_t ranks) {
  Result<Workload> result = build_workload(model, training, parallelism, ranks);
  REQUIRE_MESSAGE(result.ok(), to_string(result.problems()));
  return std::move(result).value();
}

double gemm_flops(const Workload& w) {
  double sum = 0;
  for (const RoleId role : w.role_of) {
    const Program& program = w.programs[role.index()];
    for (const Task& task : program.tasks()) {
      if (task.kind != TaskKind::kernels) continue;
      for (const KernelId id : program.sequence(task)) {
        if (w.kernels[id.index()].kind == KernelKind::gemm) sum += w.kernels[id.index()].flops.count();
      }
    }
  }
  return sum;
}

std::int64_t peak(const Program& program, MemoryTag tag) {
  std::int64_t held = 0;
  std::int64_t most = 0;
  for (const Task& task : program.tasks()) {
    for (const MemoryOperation& m : program.memory(task)) {
      if (m.tag == tag) held += m.bytes.count();
      most = std::max(most, held);
    }
  }
  return most;
}

std::int64_t count(const Program& program, TaskKind kind) {
  return std::count_if(program.tasks().begin(), program.tasks().end(), [&](const Task& t) { return t.kind == kind; });
}

}  // namespace

TEST_CASE("GPT-3 175B computes 96 B s l h^2 (1 + s/6h + V/16lh) with full recomputation, 72 without") {
  // Narayanan et al. 2021, equation 3. Without recomputation the layers' part is three quarters and the logits' part is
  // the same: 72 B s l h^2 (1 + s / 6h + V / 12lh).
  const double l = 96;
  const double h = 12288;
  const double s = 2048;
  const double v = 51200;
  const double b = 64;
  TrainingSpec t = training(2048, 64);
  t.attention = AttentionKind::plain;
  t.recompute = Recompute::full;
  const ParallelismSpec plan = parallel(8, 8, true);
  CHECK(gemm_flops(built(gpt(96, 12288, 96), t, plan, 128)) ==
        doctest::Approx(96 * b * s * l * h * h * (1 + s / (6 * h) + v / (16 * l * h))).epsilon(1e-12));
  t.recompute = Recompute::none;
  const Workload w = built(gpt(96, 12288, 96), t, plan, 128);
  const double without = 72 * b * s * l * h * h * (1 + s / (6 * h) + v / (12 * l * h));
  CHECK(gemm_flops(w) == doctest::Approx(without).epsilon(1e-12));
  CHECK(w.model_flops.count() == doctest::Approx(without).epsilon(1e-12));
}

TEST_CASE("products cost the same however the work is split") {
  const ModelSpec model = gpt(8, 64, 4, 512, 128);
  TrainingSpec t = training(32, 16);
  t.attention = AttentionKind::plain;
  const double whole = gemm_flops(built(model, t, parallel(1), 1));
  for (const std::int64_t tensor : {1, 2, 4}) {
    for (const std::int64_t pipeline : {1, 2, 4, 8}) {
      for (const std::int64_t data : {1, 2, 4}) {
        CHECK(gemm_flops(built(model, t, parallel(tensor, pipeline), tensor * pipeline * data)) == whole);
      }
    }
  }
}

TEST_CASE("a pipeline stage sends and receives once per micro-batch and direction at each inner boundary") {
  const Workload w = built(gpt(8, 64, 4, 512, 128), training(32, 6), parallel(1, 4), 4);
  const std::array<std::int64_t, 4> sends{6, 12, 12, 6};
  for (std::size_t role = 0; role < 4; ++role) {
    CHECK(count(w.programs[role], TaskKind::send) == sends[role]);
    CHECK(count(w.programs[role], TaskKind::receive) == sends[role]);
  }
  for (const Task& task : w.programs[1].tasks()) {
    if (task.kind == TaskKind::send) CHECK(w.programs[1].transfer(task).bytes.count() == 2 * 32 * 64);
  }
}

TEST_CASE("virtual stages cross a boundary per chunk; sequence parallelism sends each rank's part") {
  ParallelismSpec plan = parallel(2, 2, true);
  plan.schedule = {"interleaved-1f1b", {{"virtual_stages", std::int64_t{2}}}};
  const Workload w = built(gpt(8, 64, 4, 512, 128), training(32, 6), plan, 4);
  // Four virtual stages, three boundaries. Stage 0 sends forward twice (0 -> 1, 2 -> 3) and backward once (2 -> 1).
  CHECK(count(w.programs[0], TaskKind::send) == 6 * 3);
  CHECK(count(w.programs[1], TaskKind::send) == 6 * 3);
  for (const Task& task : w.programs[0].tasks()) {
    if (task.kind == TaskKind::send) CHECK(w.programs[0].transfer(task).bytes.count() == 2 * 32 * 64 / 2);
  }
}

TEST_CASE("layers may be dealt unevenly: the same work in all, more of it where there are more layers") {
  const ModelSpec model = gpt(8, 64, 4, 512, 128);
  ParallelismSpec plan = parallel(1, 4);
  const double even = gemm_flops(built(model, training(32, 6), plan, 4));
  plan.stage_layers = {0, 3, 4, 1};
  const Workload w = built(model, training(32, 6), plan, 4);
  CHECK(gemm_flops(w) == even);
  std::vector<std::set<std::int32_t>> layers(4);
  for (std::size_t role = 0; role < 4; ++role) {
    for (const Task& task : w.programs[role].tasks()) {
      if (task.layer >= 0) layers[role].insert(task.layer);
    }
  }
  // Every layer is begun on the stage that has it (a task may go on into the layers behind it).
  for (std::size_t role = 0; role < 4; ++role) {
    const std::array<std::int32_t, 5> first{0, 0, 3, 7, 8};
    for (const std::int32_t layer : layers[role]) {
      CHECK(layer >= first[role]);
      CHECK(layer < first[role + 1]);
    }
  }
  CHECK(layers[0].empty());
  CHECK(layers[3] == std::set<std::int32_t>{7});
}

TEST_CASE("scatter-gather sends a part per tensor rank and gathers on arrival") {
  ParallelismSpec plan = parallel(2, 2);
  plan.schedule.options["scatter_gather"] = true;
  const Workload w = built(gpt(8, 64, 4, 512, 128), training(32, 6), plan, 4);
  std::int64_t gathers = 0;
  const Program& program = w.programs[1];
  for (const Task& task : program.tasks()) {
    if (task.kind == TaskKind::send) CHECK(program.transfer(task).bytes.count() == 2 * 32 * 64 / 2);
    if (task.kind == TaskKind::collective && program.label(task) == "gather transfer") ++gathers;
  }
  CHECK(gathers == 6);
}

TEST_CASE("1F1B holds the activations of p - s micro-batches, GPipe of all") {
  // Stage 1 of 4 has neither embedding nor head: two layers a stage, each keeping s b h (34 + 5 a s / h) and the
  // norms' statistics.
  const ModelSpec model = gpt(8, 64, 4, 512, 128);
  TrainingSpec t = training(32, 8);
  t.attention = AttentionKind::plain;
  t.dropout = 0.1;
  const std::int64_t layer = 34 * 32 * 64 + 5 * 4 * 32 * 32 + 16 * 32;
  ParallelismSpec plan = parallel(1, 4);
  CHECK(peak(built(model, t, plan, 4).programs[1], MemoryTag::activations) == 3 * 2 * layer);
  plan.schedule.kind = "gpipe";
  CHECK(peak(built(model, t, plan, 4).programs[1], MemoryTag::activations) == 8 * 2 * layer);
}

TEST_CASE("full recomputation holds inputs of all layers and one layer in whole") {
  const ModelSpec model = gpt(8, 64, 4, 512, 128);
  TrainingSpec t = training(32, 8);
  t.attention = AttentionKind::plain;
  t.dropout = 0.1;
  t.recompute = Recompute::full;
  const std::int64_t input = 2 * 32 * 64;
  const std::int64_t layer = 34 * 32 * 64 + 5 * 4 * 32 * 32 + 16 * 32;
  const Workload w = built(model, t, parallel(1, 4), 4);
  CHECK(peak(w.programs[1], MemoryTag::activations) == 3 * 2 * input + layer - input);
}

TEST_CASE("a gradient bucket waits for its last gradient, and the rest of the backward pass does not wait for it") {
  ParallelismSpec plan = parallel(1);
  plan.sharding.options["bucket"] = std::int64_t{64 * 1024};
  plan.sharding.options["first_bucket"] = std::int64_t{4 * 1024};
  const Workload w = built(gpt(4, 64, 4, 512, 128), training(32, 4), plan, 2);
  const Program& program = w.programs[0];
  TaskId first;
  for (std::size_t i = 0; i < program.tasks().size(); ++i) {
    const Task& task = program.tasks()[i];
    if (task.kind == TaskKind::collective && program.label(task) == "reduce gradients") {
      first = TaskId(i);
      break;
    }
  }
  REQUIRE(first.valid());
  const Task& reduction = program.tasks()[first.index()];
  CHECK(reduction.micro_batch == 1);  // the last of two
  const auto after = program.dependencies(reduction);
  REQUIRE(after.size() == 1);
  CHECK(program.tasks()[after[0].index()].phase == Phase::backward);
  CHECK(after[0].index() == first.index() - 1);
  const Task& next = program.tasks()[first.index() + 1];
  CHECK(next.phase == Phase::backward);
  CHECK(program.dependencies(next).empty());
}

TEST_CASE("fp16 looks for overflow on the host before the update; bf16 only reads the norm") {
  TrainingSpec t = training(32, 2);
  const auto blocking = [&] {
    const Workload w = built(gpt(4, 64, 4, 512, 128), t, parallel(1), 2);
    const auto tasks = w.programs[0].tasks();
    return std::count_if(tasks.begin(), tasks.end(), [](const Task& task) { return task.blocks_host; });
  };
  CHECK(blocking() == 1);
  t.precision = PrecisionRecipe::fp16;
  CHECK(blocking() == 2);
}

TEST_CASE("ranks are numbered tensor first, then data, then pipeline") {
  const Workload w = built(gpt(8, 64, 4, 512, 128), training(32, 8), parallel(2, 2), 8);  // 2 replicas
  CHECK(w.role_of[3] == RoleId(std::size_t{0}));
  CHECK(w.role_of[4] == RoleId(std::size_t{1}));
  const auto members = [&](const char* kind, std::size_t rank) {
    std::vector<std::int32_t> out;
    for (std::size_t k = 0; k < w.group_kinds.size(); ++k) {
      if (w.group_kinds[k].name != kind) continue;
      for (const RankId r : w.communicators[w.communicator_of[k][rank].index()].ranks) out.push_back(r.value());
    }
    return out;
  };
  CHECK(members("tensor", 5) == std::vector<std::int32_t>{4, 5});
  CHECK(members("data", 5) == std::vector<std::int32_t>{5, 7});
  CHECK(members("model", 5) == std::vector<std::int32_t>{0, 1, 4, 5});
  CHECK(members("embedding", 5) == std::vector<std::int32_t>{1, 5});
  CHECK(w.peer_kinds[0].of[1] == RankId(std::size_t{5}));
  CHECK_FALSE(w.peer_kinds[0].of[5].valid());
}

TEST_CASE("a vocabulary is padded to the framework's multiple times the tensor degree") {
  ModelSpec model = gpt(4, 64, 4, 50257, 128);
  TrainingSpec t = training(32, 2);
  t.framework.vocabulary_multiple = 128;
  const Workload w = built(model, t, parallel(2), 2);
  // 50,257 rounded up to a multiple of 256 is 50,432; half on each rank.
  const auto logits =
      std::find_if(w.kernels.begin(), w.kernels.end(), [](const Kernel& k) { return k.name == "logits.forward"; });
  REQUIRE(logits != w.kernels.end());
  CHECK(logits->n == 50'432 / 2);
  CHECK(w.parameters == parameters(model));
}
