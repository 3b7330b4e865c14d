// Training a part of a model in whole runs on hardware without overheads. Every run is also run folded, and must say
// the same (run_line).
#include "tests/unit/study/whole_line.hpp"
#include "tests/unit/workloads/trainables.hpp"

using namespace orrery;
using namespace orrery::test;
using orrery::testing::lora;
using orrery::testing::only;
using orrery::testing::targets;

namespace {

// Work that is nearly all matrix products, whose bytes are what they take here.
double step_seconds(const TrainingSpec& training, const ParallelismSpec& parallelism, std::int64_t ranks,
                    double network = 1e15) {
  auto workload = build_workload(line_model(4), training, parallelism, ranks);
  if (!workload) FAIL(first_message(workload.problems()));
  const ClusterSpec cluster = line_cluster(1, static_cast<int>(ranks), network, network);
  return seconds(run_line(cluster, *workload, ideal_traffic()).step_time);
}

TrainingSpec with(TrainingSpec training, const TrainableSpec& trainable) {
  training.trainable = trainable;
  return training;
}

}  // namespace

TEST_CASE("a step is shorter the less is trained") {
  const TrainingSpec full = line_training(1024, 4);
  const ParallelismSpec p = degrees(1, 1, 2);
  const double all = step_seconds(full, p, 2);
  TrainableSpec upper = only({Part::attention, Part::mlp});
  upper.frozen_layers = {{0, 1}};
  const double some = step_seconds(with(full, only({Part::attention, Part::mlp})), p, 2);
  const double half = step_seconds(with(full, upper), p, 2);
  const double adapters = step_seconds(with(full, lora(8, targets({Target::q, Target::v}))), p, 2);
  const double head = step_seconds(with(full, only({Part::head})), p, 2);
  CHECK(some < all);
  CHECK(half < some);
  CHECK(adapters < some);
  CHECK(head < half);
}

// With the head alone, no layer runs backward: what is left of an additional layer is its forward pass, the same that
// it has when a layer above is trained.
TEST_CASE("layers below the lowest trained weight cost their forward pass") {
  const TrainingSpec head_only = with(line_training(1024, 2), only({Part::head}));
  const auto seconds_of = [&](std::int64_t layers) {
    auto workload = build_workload(line_model(layers), head_only, degrees(1, 1, 1), 1);
    if (!workload) FAIL(first_message(workload.problems()));
    return seconds(run_line(line_cluster(1, 1, 1e15, 1e15), *workload, ideal_traffic()).step_time);
  };
  const double four = seconds_of(4);
  const double eight = seconds_of(8);
  const double twelve = seconds_of(12);
  CHECK(twelve - eight == doctest::Approx(eight - four).epsilon(1e-6));
  auto workload = build_workload(line_model(4), head_only, degrees(1, 1, 1), 1);
  for (const Task& task : workload->programs[0].tasks()) {
    if (task.phase == Phase::backward) CHECK(task.layer < 0);
  }
}

TEST_CASE("frozen weights are not reduced, so that a slow network costs less") {
  const TrainingSpec full = line_training(128, 4);
  const ParallelismSpec p = degrees(1, 1, 4);
  const double slow = 1e6;
  const double all = step_seconds(full, p, 4, slow);
  const double adapters = step_seconds(with(full, lora(2, targets({Target::q}))), p, 4, slow);
  // Parameters: 4 x 12 x 256^2 against 4 x 2 x 512.
  CHECK(all > 50 * adapters);
}

TEST_CASE("folded runs are the same whatever is trained, and whoever teaches") {
  std::size_t turn = 0;
  for (const auto& each : orrery::testing::trainables()) {
    CAPTURE(each.name);
    ParallelismSpec p = degrees(turn % 2 == 0 ? 1 : 2, turn % 3 == 0 ? 2 : 1, 2);
    p.sequence_parallel = turn % 4 == 1;
    const char* shardings[] = {"none", "distributed-optimizer", "fsdp"};
    p.sharding.kind = shardings[turn % 3];
    ++turn;
    TrainableSpec spec = each.spec;
    spec.lora.targets.remove(Target::gate);  // line_model has none
    CHECK(step_seconds(with(line_training(64, 8), spec), p, p.tensor * p.pipeline * 2, 1e10) > 0);
  }
  for (const char* sharding : {"none", "zero3", "fsdp"}) {
    CAPTURE(sharding);
    ParallelismSpec p = degrees(2, 1, 2);
    p.sharding.kind = sharding;
    TrainingSpec taught = line_training(64, 4);
    const double alone = step_seconds(taught, p, 4, 1e10);
    taught.teacher = line_model(6, 512);
    CHECK(step_seconds(taught, p, 4, 1e10) > alone);
  }
}
