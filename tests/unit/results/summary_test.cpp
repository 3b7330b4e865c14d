#include "sim/results/summary.hpp"

#include <doctest/doctest.h>

#include "tests/unit/results/made_run.hpp"

using namespace orrery;

TEST_CASE("throughput and utilisation follow from tokens, FLOPs and the step time") {
  const Summary s = summarize(made::run(), made::workload(), made::facts());
  // 8192 tokens in 0.1 s on 4 GPUs.
  CHECK(s.step.time_s == doctest::Approx(0.1));
  CHECK(s.step.tokens_per_s == doctest::Approx(81920));
  CHECK(s.step.tokens_per_s_per_gpu == doctest::Approx(20480));
  // 6e9 x 8192 = 49.152e12 FLOPs in 0.1 s on 4 GPUs: 122.88 TFLOP/s each, of 200 at peak.
  CHECK(s.step.model_tflops_per_gpu == doctest::Approx(122.88));
  CHECK(s.step.mfu.value() == doctest::Approx(0.6144));
  CHECK(s.step.hardware_tflops_per_gpu == doctest::Approx(163.84));
  CHECK(s.step.hfu.value() == doctest::Approx(0.8192));
}

TEST_CASE("the breakdown is the mean over GPUs and adds up to the step time") {
  const Summary s = summarize(made::run(), made::workload(), made::facts());
  CHECK(s.breakdown.compute_s == doctest::Approx(0.070));
  CHECK(s.breakdown.exposed_communication_s.at("tensor") == doctest::Approx(0.015));
  CHECK(s.breakdown.exposed_communication_s.at("data") == doctest::Approx(0.0025));
  CHECK(s.breakdown.bubble_s == doctest::Approx(0.0075));
  CHECK(s.breakdown.waiting_s == doctest::Approx(0.002));
  CHECK(s.breakdown.data_stall_s == doctest::Approx(0.003));
  CHECK(s.breakdown.other_s == doctest::Approx(0.002));
  const double sum = s.breakdown.compute_s + s.breakdown.exposed_total_s() + s.breakdown.bubble_s +
                     s.breakdown.data_stall_s + s.breakdown.other_s;
  CHECK(sum == doctest::Approx(s.step.time_s).epsilon(1e-12));
}

TEST_CASE("classes count as often as they have members") {
  RunResult run = made::run();
  run.ranks[0].multiplicity = 3;
  run.ranks[1].multiplicity = 1;
  const Summary s = summarize(run, made::workload(), made::facts());
  // (3 x 60 + 80) / 4
  CHECK(s.breakdown.compute_s == doctest::Approx(0.065));

  // The same ranks one by one give the same figures.
  RunResult unfolded = made::run();
  unfolded.ranks = {run.ranks[0], run.ranks[0], run.ranks[0], run.ranks[1]};
  for (RankResult& rank : unfolded.ranks) rank.multiplicity = 1;
  RunFacts facts = made::facts();
  facts.memory_limits.assign(4, Bytes(1));
  CHECK(summarize(unfolded, made::workload(), facts).breakdown.compute_s == s.breakdown.compute_s);
}

TEST_CASE("memory is that of the rank with the least room") {
  RunFacts facts = made::facts();
  const Summary s = summarize(made::run(), made::workload(), facts);
  CHECK(s.memory.rank == 0);
  CHECK(s.memory.fits.value());
  CHECK(s.memory.task == "activations");
  REQUIRE(s.memory.by_tag.size() == 2);
  CHECK(s.memory.by_tag[0].first == "activations");  // the largest first

  // On a smaller GPU the second stage's 25 GiB are the tighter ones.
  facts.memory_limits[1] = Bytes(std::int64_t{24} << 30);
  const Summary mixed = summarize(made::run(), made::workload(), facts);
  CHECK(mixed.memory.rank == 2);
  CHECK_FALSE(mixed.memory.fits.value());
  CHECK(mixed.memory.task.empty());
}

TEST_CASE("what is unknown is absent") {
  RunFacts facts = made::facts();
  facts.peak = FlopsPerSecond(0);
  facts.memory_limits.clear();
  facts.tokens = 0;
  const Summary s = summarize(made::run(), made::workload(), facts);
  CHECK_FALSE(s.step.mfu.has_value());
  CHECK_FALSE(s.step.hfu.has_value());
  CHECK_FALSE(s.cluster.peak_tflops_per_gpu.has_value());
  CHECK_FALSE(s.memory.limit_bytes.has_value());
  CHECK_FALSE(s.memory.fits.has_value());
  CHECK_FALSE(s.training.has_value());
  CHECK(s.memory.rank == 0);  // that needs most
}

TEST_CASE("the whole training is whole steps") {
  const Summary s = summarize(made::run(), made::workload(), made::facts());
  REQUIRE(s.training.has_value());
  // 20e9 / 8192 = 2441406.25 steps, the last of which is a step too.
  CHECK(s.training->steps == 2'441'407);
  CHECK(s.training->time_s == doctest::Approx(244140.7));
  CHECK(s.training->gpu_hours == doctest::Approx(244140.7 * 4 / 3600));
  // 8 x 1e9 x 20e9 / 800e12 = 200,000 s
  CHECK(s.training->ideal_time_s.value() == doctest::Approx(200000));
  CHECK(s.training->ideal_operations == 8);
  // The plotted line is made of the summary's own facts: 800e12 over 4 GPUs.
  CHECK(s.training->tokens == 20e9);
  CHECK(s.cluster.peak_tflops_per_gpu.value() == doctest::Approx(200));
}

TEST_CASE("the ideal time of GPT-3 on 1,024 A100 is that of the Megatron paper") {
  // Narayanan et al. 2021, section 5.1: 300e9 tokens, 175e9 parameters, 1,024 GPUs at 140 TFLOP/s: 34 days.
  const double at_140 = ideal_training_time_s(175e9, 300e9, FlopsPerSecond(1024 * 140e12), true);
  CHECK(at_140 / 86400 == doctest::Approx(34).epsilon(0.01));
  const double without = ideal_training_time_s(175e9, 300e9, FlopsPerSecond(1024 * 140e12), false);
  CHECK(without / at_140 == doctest::Approx(0.75));
}

TEST_CASE("the bare formula gives the times that people quote") {
  // 8 x 1e8 x 1e9 / (10 x 50e12) = 1,600 s; 8 x 1e11 x 1e11 / (100 x 200e12) = 4e6 s = 46.3 days.
  CHECK(ideal_training_time_s(1e8, 1e9, FlopsPerSecond(10 * 50e12), true) == doctest::Approx(1600));
  CHECK(ideal_training_time_s(1e11, 1e11, FlopsPerSecond(100 * 200e12), true) / 86400 ==
        doctest::Approx(46.3).epsilon(0.001));
}
