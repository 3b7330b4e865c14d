// Differences between runs that are made by hand: each cause on the figures that show it, the sum, and the words.
#include "sim/results/difference.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

using namespace orrery;
using namespace orrery::literals;

namespace {

// A run of one stage: compute of `compute` and a gather of which the path has `exposed`.
struct Run {
  Summary summary;
  StepProfile profile;

  static WorkKind gather() {
    return {Work::communication, Phase::parameter_gather, Phase::forward, "data", "all_gather", "fetch"};
  }
  static WorkKind forward() { return {Work::compute, Phase::forward, Phase::forward, "", "", "block"}; }

  Run(Duration compute, Duration exposed, double gather_busy_s, double gather_bytes, double gathers) {
    profile[forward()] = {.path = compute, .busy_s = to_seconds(compute), .count = 1, .flops = 5e12, .kernels = 10};
    profile[gather()] = {.path = exposed, .busy_s = gather_busy_s, .count = gathers, .bytes = gather_bytes};
    finish("x100", "bf16");
  }
  // Of the figures in the profile.
  void finish(const std::string& gpu, const std::string& precision) {
    Duration step{};
    for (const auto& [kind, share] : profile) step += share.path;
    summary.step.time_s = to_seconds(step);
    summary.step.tokens = 1000;
    summary.cluster.gpu = gpu;
    summary.plan.precision = precision;
    summary.breakdown.compute_s = profile[forward()].busy_s;
    summary.breakdown.exposed_communication_s = {{"data", to_seconds(profile[gather()].path)}};
    summary.memory.peak_bytes = 20ll << 30;
    summary.memory.by_tag = {{"activations", 12ll << 30}, {"weights", 8ll << 30}};
  }
};

Explanation between(const Run& base, const Run& variant) {
  return explain({"one", &base.summary, &base.profile}, {"two", &variant.summary, &variant.profile});
}

double sum_of(const Explanation& explanation) {
  double sum = 0;
  for (const Difference& difference : explanation.differences) sum += difference.seconds();
  return sum;
}

}  // namespace

TEST_CASE("waits for communication differ by traffic, pieces, rate or overlap") {
  // One: 4 GB in 8 gathers of 60 ms in all, 10 ms of it exposed.
  const Run one(100_ms, 10_ms, 0.060, 4e9, 8);
  struct Case {
    Run two;
    Cause cause;
    const char* words;
  };
  const Case cases[] = {
      // Twice the bytes take twice the time, and 60 ms more of it cannot be hidden.
      {Run(100_ms, 70_ms, 0.120, 8e9, 8), Cause::traffic,
       "8.00 GB instead of 4.00 GB a GPU, which take 120 ms instead of 60.0 ms"},
      // The same bytes in 800 gathers.
      {Run(100_ms, 70_ms, 0.120, 4e9, 800), Cause::pieces, "4.00 GB a GPU in 800 instead of 8 operations"},
      // The same, and all takes twice as long.
      {Run(100_ms, 70_ms, 0.120, 4e9, 8), Cause::rate, "4.00 GB a GPU, which take 120 ms instead of 60.0 ms"},
      // The same in the same time: 50 ms of 60 were hidden, none are.
      {Run(100_ms, 60_ms, 0.060, 4e9, 8), Cause::overlap,
       "4.00 GB a GPU, two hides 0 s of their 60.0 ms behind compute, one 50.0 ms of 60.0 ms"},
      // Fewer bytes and yet longer waits: not the bytes.
      {Run(100_ms, 40_ms, 0.040, 3e9, 8), Cause::overlap, "two hides 0 s of their 40.0 ms"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.words);
    const Explanation explanation = between(one, c.two);
    REQUIRE(explanation.differences.size() == 1);
    CHECK(explanation.differences[0].cause == c.cause);
    CHECK(explanation.differences[0].subject == "data all-gather \"fetch\" in the forward pass");
    CHECK_MESSAGE(explanation.text.find(c.words) != std::string::npos, explanation.text);
    CHECK(sum_of(explanation) == doctest::Approx(explanation.variant_s - explanation.base_s).epsilon(1e-12));
    // The other way round the same, with the opposite sign.
    const Explanation back = between(c.two, one);
    CHECK(back.differences[0].cause == c.cause);
    CHECK(back.differences[0].seconds() == doctest::Approx(-explanation.differences[0].seconds()));
  }
}

TEST_CASE("compute differs by work, machine, kernels or rate") {
  const Run one(100_ms, 10_ms, 0.060, 4e9, 8);
  const auto cause_of = [&](const auto& change) {
    Run two(120_ms, 10_ms, 0.060, 4e9, 8);
    change(two);
    const Explanation explanation = between(one, two);
    REQUIRE(explanation.differences.size() == 1);
    CHECK(explanation.differences[0].seconds() == doctest::Approx(0.020));
    CHECK(explanation.differences[0].phase == "forward");
    return explanation.differences[0].cause;
  };
  CHECK(cause_of([](Run&) {}) == Cause::rate);
  CHECK(cause_of([](Run& two) { two.profile[Run::forward()].flops = 6e12; }) == Cause::work);
  CHECK(cause_of([](Run& two) { two.profile[Run::forward()].bytes = 1e9; }) == Cause::work);
  CHECK(cause_of([](Run& two) { two.profile[Run::forward()].kernels = 20; }) == Cause::pieces);
  CHECK(cause_of([](Run& two) { two.summary.cluster.gpu = "y100"; }) == Cause::machine);
  CHECK(cause_of([](Run& two) { two.summary.plan.precision = "fp32"; }) == Cause::machine);
}

TEST_CASE("work that only one of the runs has is told as such") {
  const Run one(100_ms, 10_ms, 0.060, 4e9, 8);
  Run two(100_ms, 10_ms, 0.060, 4e9, 8);
  two.profile[{Work::compute, Phase::recompute, Phase::recompute, "", "", "block"}] = {
      .path = 30_ms, .busy_s = 0.030, .count = 1, .flops = 1e12, .kernels = 10};
  two.finish("x100", "bf16");
  const Explanation explanation = between(one, two);
  REQUIRE(explanation.differences.size() == 1);
  CHECK(explanation.differences[0].cause == Cause::variant_only);
  CHECK_MESSAGE(explanation.text ==
                    "two takes 30.0 ms (27.3 %) longer than one: 140 ms a step instead of 110 ms. "
                    "+30.0 ms: more compute (recomputation): one has no such work.",
                explanation.text);
  CHECK(between(two, one).differences[0].cause == Cause::base_only);
}

TEST_CASE("what the path has of kernels beyond one GPU's share is bubble in a pipeline, waiting elsewhere") {
  const Run one(100_ms, 10_ms, 0.060, 4e9, 8);
  Run two(130_ms, 10_ms, 0.060, 4e9, 8);
  two.profile[Run::forward()].busy_s = 0.100;
  CHECK(between(one, two).differences.at(0).cause == Cause::imbalance);
  two.summary.plan.pipeline = 4;
  const Explanation explanation = between(one, two);
  REQUIRE(explanation.differences.size() == 1);
  CHECK(explanation.differences[0].cause == Cause::bubble);
  CHECK(explanation.differences[0].seconds() == doctest::Approx(0.030));
}

TEST_CASE("memory is told by the tags that differ, and runs that are the same are told to be") {
  const Run one(100_ms, 10_ms, 0.060, 4e9, 8);
  Run two = one;
  two.summary.memory.by_tag = {{"activations", 15ll << 30}, {"weights", 6ll << 30}, {"logits", 1ll << 30}};
  two.summary.memory.peak_bytes = 22ll << 30;
  const Explanation explanation = between(one, two);
  CHECK(explanation.differences.empty());
  CHECK_MESSAGE(explanation.text ==
                    "two takes as long as one: 110 ms a step. Its peak memory is 2.00 GiB (10.0 %) higher, 22.0 GiB "
                    "instead of 20.0 GiB: activations +3.00 GiB, weights -2.00 GiB, logits +1.00 GiB.",
                explanation.text);
  Run three = one;
  three.summary.fingerprint = two.summary.fingerprint = "0123";
  Run four = three;
  CHECK(between(three, four).text == "two is the same step as one, to the picosecond: 110 ms.");
}

TEST_CASE("traffic is told by the kinds that differ, and in whole where each differs by little") {
  Run one(100_ms, 10_ms, 0.060, 4e9, 8);
  Run two = one;
  one.summary.communication.bytes = two.summary.communication.bytes = 0;
  for (int kind = 0; kind < 300; ++kind) {
    const std::string name = "kind" + std::to_string(kind);
    one.summary.communication.by_kind[name].bytes = 1'000'000;
    two.summary.communication.by_kind[name].bytes = 1'010'000;
    one.summary.communication.bytes += 1'000'000;
    two.summary.communication.bytes += 1'010'000;
  }
  two.profile[Run::gather()].path = 12_ms;  // so that they are not the same
  two.finish("x100", "bf16");
  CHECK(between(one, two).text.find("It sends 303 MB instead of 300 MB a step.") != std::string::npos);
  two.summary.communication.by_kind["more"].bytes = 97'000'000;
  two.summary.communication.bytes += 97'000'000;
  CHECK(between(one, two).text.find("It sends 400 MB instead of 300 MB a step (more +97.0 MB).") != std::string::npos);
}
