#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <tuple>

#include "tests/unit/workloads/plans.hpp"
#include "workloads/build.hpp"
#include "workloads/size.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

const Problem* find(const Problems& problems, std::string_view key) {
  const auto found = std::find_if(problems.begin(), problems.end(), [&](const Problem& p) { return p.key == key; });
  return found == problems.end() ? nullptr : &*found;
}

Problem only(const Problems& problems) {
  REQUIRE_MESSAGE(problems.size() == 1, to_string(problems));
  return problems.front();
}

}  // namespace

TEST_CASE("a tensor degree must divide the heads; the note names the nearest that do") {
  const Problem p = only(check_plan(gpt(96, 12288, 96), training(2048, 20), parallel(5), 20));
  CHECK(p.key == "parallelism.tensor");
  CHECK(p.message == "tensor degree 5 does not divide 96 attention heads");
  CHECK(p.note == "nearest valid: 4, 6");
}

TEST_CASE("key-value heads limit the tensor degree") {
  const Problem p = only(check_plan(llama(4, 4096, 32, 8, 14336), training(2048, 16), parallel(16), 16));
  CHECK(p.message == "tensor degree 16 does not divide 8 key-value heads");
  CHECK(p.note == "nearest valid: 8");
}

TEST_CASE("layers are split evenly over stages and chunks") {
  const Problem p = only(check_plan(gpt(96, 12288, 96), training(2048, 5), parallel(1, 5), 5));
  CHECK(p.key == "parallelism.pipeline");
  CHECK(p.note == "nearest valid: 4, 6");
  ParallelismSpec plan = parallel(1, 8);
  plan.schedule = {"interleaved-1f1b", {{"virtual_stages", std::int64_t{5}}}};
  const Problem q = only(check_plan(gpt(96, 12288, 96), training(2048, 8), plan, 8));
  CHECK(q.key == "parallelism.schedule.virtual_stages");
  CHECK(q.note == "nearest valid: 4, 6");
}

TEST_CASE("interleaving needs whole rounds of micro-batches") {
  ParallelismSpec plan = parallel(1, 4);
  plan.schedule.kind = "interleaved-1f1b";
  const Problem p = only(check_plan(gpt(8, 64, 4), training(128, 6), plan, 4));
  CHECK(p.key == "training.global_batch");
  CHECK(p.note == "nearest valid: 4, 8");
}

TEST_CASE("the batch must be whole micro-batches of whole replicas") {
  const Problem p = only(check_plan(gpt(8, 64, 4), training(128, 10, 2), parallel(1), 4));
  CHECK(p.key == "training.global_batch");
  CHECK(p.note == "nearest valid: 8, 16");
}

TEST_CASE("degrees must multiply to the number of GPUs; the note says what data degree would") {
  ParallelismSpec plan = parallel(2, 2);
  plan.data = 3;
  const Problem p = only(check_plan(gpt(8, 64, 4), training(128, 16), plan, 16));
  CHECK(p.key == "parallelism.data");
  CHECK(p.note == "nearest valid: 4");
  CHECK(only(check_plan(gpt(8, 64, 4), training(128, 16), parallel(2, 2), 18)).note == "use 16 or 20 GPUs");
  CHECK(only(check_plan(gpt(8, 64, 4), training(128, 16), parallel(4, 2), 4)).note == "at least 8 GPUs are needed");
}

TEST_CASE("unknown kinds and options come with the nearest known one") {
  ParallelismSpec plan = parallel(1);
  plan.schedule.kind = "1f1c";
  plan.sharding.options["bucke"] = std::int64_t{1};
  TrainingSpec t = training(128, 1);
  t.optimizer.kind = "adam";
  const Problems problems = check_plan(gpt(8, 64, 4), t, plan, 1);
  REQUIRE(problems.size() == 3);
  CHECK(find(problems, "parallelism.schedule.kind")->note == "did you mean 1f1b?");
  CHECK(find(problems, "parallelism.sharding.bucke")->note == "did you mean bucket?");
  CHECK(find(problems, "training.optimizer.kind")->note == "did you mean adamw?");
}

TEST_CASE("options have types and ranges") {
  ParallelismSpec plan = parallel(1);
  plan.sharding.options["bucket"] = true;
  TrainingSpec t = training(128, 1);
  t.optimizer = {"sgd", {{"momentum", 1.5}}};
  const Problems problems = check_plan(gpt(8, 64, 4), t, plan, 1);
  CHECK(find(problems, "parallelism.sharding.bucket") != nullptr);
  CHECK(find(problems, "training.optimizer.momentum")->note == "must lie between 0 and 1");
}

TEST_CASE("all problems are shown at once, and a build with problems returns them") {
  ParallelismSpec plan = parallel(3, 5);
  plan.data = 2;
  TrainingSpec t = training(4096, 7);
  const ModelSpec model = gpt(8, 64, 4);
  const Problems problems = check_plan(model, t, plan, 45);
  CHECK(find(problems, "parallelism.tensor") != nullptr);
  CHECK(find(problems, "parallelism.pipeline") != nullptr);
  CHECK(find(problems, "parallelism.data") != nullptr);
  CHECK(find(problems, "training.global_batch") != nullptr);
  CHECK(find(problems, "training.sequence_length")->note == "at most 2048");
  CHECK(build_workload(model, t, plan, 45).problems().size() == problems.size());
}

TEST_CASE("senseless numbers are refused before anything divides by them") {
  ParallelismSpec plan = parallel(0, -1);
  TrainingSpec t = training(0, 0, 0);
  CHECK(check_plan(ModelSpec{}, t, plan, 0).size() > 8);
}

TEST_CASE("the estimate of a step's tasks is right within a factor of three") {
  struct Case {
    std::int64_t tensor, pipeline, ranks, batch;
    bool sequence_parallel;
    std::int64_t virtual_stages;
  };
  for (const Case& c : {Case{1, 1, 1, 16, false, 1}, Case{1, 1, 8, 64, false, 1}, Case{4, 1, 4, 32, false, 1},
                        Case{4, 1, 4, 32, true, 1}, Case{1, 4, 4, 32, false, 1}, Case{2, 4, 16, 64, true, 1},
                        Case{1, 4, 4, 32, false, 6}, Case{4, 4, 16, 32, true, 2}}) {
    CAPTURE(c.tensor);
    CAPTURE(c.pipeline);
    ParallelismSpec plan = parallel(c.tensor, c.pipeline, c.sequence_parallel);
    if (c.virtual_stages > 1) plan.schedule = {"interleaved-1f1b", {{"virtual_stages", c.virtual_stages}}};
    const ModelSpec model = gpt(24, 1024, 16);
    const TrainingSpec step = training(1024, c.batch);
    const Result<Workload> built = build_workload(model, step, plan, c.ranks);
    REQUIRE_MESSAGE(built.ok(), to_string(built.problems()));
    double tasks = 0;
    for (const Program& program : built->programs) tasks += static_cast<double>(program.tasks().size());
    const StepSize size = estimate_size(model, step, plan, c.virtual_stages, c.ranks);
    CHECK(size.tasks / tasks > 1.0 / 3);
    CHECK(size.tasks / tasks < 3.0);
    CHECK(size.played == doctest::Approx(size.tasks * static_cast<double>(c.ranks) / static_cast<double>(c.pipeline)));
  }
}

TEST_CASE("what no machine could simulate is refused before any of it is built, with the key to change") {
  const ModelSpec model = gpt(24, 1024, 16);
  for (const auto& [layers, batch, ranks] :
       {std::tuple{24, 100'000'000, 1}, std::tuple{10'000, 1'000'000, 8}, std::tuple{24, 300'000'000, 1000}}) {
    ModelSpec deep = model;
    deep.layers = layers;
    const Problem p = only(check_plan(deep, training(1024, batch), parallel(1), ranks));
    CHECK(p.key == "training.global_batch");
    CHECK(p.message.find("too long to simulate: about ") != std::string::npos);
    CHECK(p.note.find("raise training.micro_batch") != std::string::npos);
    // The advice helps.
    CHECK(check_plan(model, training(1024, batch, batch / ranks), parallel(1), ranks).empty());
  }
  CHECK(only(check_plan(model, training(1024, 8'000'000), parallel(1), 8'000'000)).key == "cluster");
  CHECK(check_plan(model, training(1024, kRanksMost), parallel(1), kRanksMost).empty());
}

TEST_CASE("state in too many pieces is refused, whichever option cuts it") {
  const ModelSpec model = llama(2, 4096, 32, 32, 11008);
  for (const Choice& choice :
       {Choice{"zero1", {{"allgather_bucket_size", std::int64_t{1}}}},
        Choice{"bf16-optimizer", {{"allgather_bucket_size", std::int64_t{100}}}},
        Choice{"zero3", {{"offload_optimizer", std::string("cpu")}, {"sub_group_size", std::int64_t{1}}}}}) {
    CAPTURE(choice.kind);
    ParallelismSpec plan = parallel(1);
    plan.sharding = choice;
    const Problems problems = check_plan(model, training(64, 8), plan, 8);
    REQUIRE(problems.size() == 1);
    CHECK(problems[0].key == "parallelism.sharding");
    CHECK(problems[0].message.find("pieces") != std::string::npos);
    plan.sharding.options.erase("allgather_bucket_size");
    plan.sharding.options.erase("sub_group_size");
    CHECK(check_plan(model, training(64, 8), plan, 8).empty());
  }
}
