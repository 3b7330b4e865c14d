// Sequence-length curriculum: the schedule's sums, and the plan at each length.
#include "sim/study/curriculum.hpp"

#include <doctest/doctest.h>

#include <string>

#include "sim/study/simulate.hpp"

using namespace orrery;

namespace {

const std::string kBase =
    "cluster: {node: dgx-a100-40gb, nodes: 1}\n"
    "model: {layers: 2, hidden: 512, heads: 8, vocabulary: 1024, positions: 1024}\n"
    "parallelism: {tensor: 2, sequence_parallel: true}\n";

Result<Simulation> run(const std::string& training) {
  const Result<Scenario> scenario = load_scenario_text(
      kBase + "training: {global_batch: 32, tokens: 1e9, " + training + "}\n", "test.yaml", for_running({}));
  if (!scenario) return scenario.problems();
  return simulate(*scenario);
}

}  // namespace

TEST_CASE("steps, time and tokens are means over the schedule") {
  // A quarter of the steps with 100 tokens and 1 s, half with 200 and 2 s, the rest with 400 and 5 s: 225 tokens and
  // 2.5 s a step; 9,000 tokens are 40 steps, 100 s, on 36 GPUs 1 GPU-hour.
  Summary last;
  last.cluster.gpus = 36;
  last.step.time_s = 5;
  last.step.tokens = 400;
  last.training = Summary::Training{.steps = 23, .tokens = 9'000, .time_s = 115, .ideal_time_s = {}, .gpu_hours = 1.15};
  Summary first = last;
  first.step.time_s = 1;
  first.step.tokens = 100;
  Summary second = last;
  second.step.time_s = 2;
  second.step.tokens = 200;
  add_curriculum(last, {{0.25, 1}, {0.75, 2}, {1, 4}}, {first, second});
  CHECK(last.training->steps == 40);
  CHECK(last.training->time_s == doctest::Approx(100));
  CHECK(last.training->gpu_hours == doctest::Approx(1));
  CHECK(last.remarks.size() == 4);
}

TEST_CASE("the step of each part is that of a run with its length") {
  const Result<Simulation> whole =
      run("sequence_length: 1024, sequence_curriculum: [{until: 25 %, sequence_length: 256}, {until: 1, "
          "sequence_length: 1024}]");
  REQUIRE_MESSAGE(whole.ok(), to_string(whole.problems()));
  const Result<Simulation> early = run("sequence_length: 256");
  const Result<Simulation> late = run("sequence_length: 1024");
  REQUIRE(early.ok());
  REQUIRE(late.ok());
  CHECK(whole->run.fingerprint == late->run.fingerprint);
  const double mean = 0.25 * early->summary.step.time_s + 0.75 * late->summary.step.time_s;
  REQUIRE(whole->summary.training.has_value());
  CHECK(whole->summary.training->time_s == doctest::Approx(mean * static_cast<double>(whole->summary.training->steps)));
  CHECK(4 * early->summary.step.tokens == late->summary.step.tokens);
}

TEST_CASE("schedules that go back, stop early or have an impossible length are refused") {
  const auto refused = [](const std::string& stages) {
    const Result<Simulation> simulation = run("sequence_length: 1024, sequence_curriculum: " + stages);
    return !simulation.ok() && simulation.problems()[0].key == "training.sequence_curriculum";
  };
  CHECK(refused(
      "[{until: 0.5, sequence_length: 256}, {until: 0.25, sequence_length: 512}, {until: 1, sequence_length: 1024}]"));
  CHECK(refused("[{until: 0.5, sequence_length: 256}]"));
  CHECK(refused("[{until: 0.5, sequence_length: 256}, {until: 1, sequence_length: 512}]"));
  // Two tensor ranks split the sequence.
  CHECK(refused("[{until: 0.5, sequence_length: 255}, {until: 1, sequence_length: 1024}]"));
}
