#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/workloads/plans.hpp"
#include "workloads/build.hpp"

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

TEST_CASE("context and expert parallelism are refused, not ignored") {
  ParallelismSpec plan = parallel(1);
  plan.context = 2;
  plan.expert = 4;
  const Problems problems = check_plan(gpt(8, 64, 4), training(128, 2), plan, 2);
  CHECK(find(problems, "parallelism.context") != nullptr);
  CHECK(find(problems, "parallelism.expert") != nullptr);
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
