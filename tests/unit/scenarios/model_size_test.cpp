#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "support.hpp"
#include "workloads/model.hpp"

namespace orrery {

namespace {

using namespace scenario_tests;

Result<Scenario> sized(const std::string& model) { return load(kCluster + "model: " + model + "\n" + kTraining); }

}  // namespace

TEST_CASE("a model by size has about that many parameters and a shape like GPT-3's family") {
  for (const double target : {5e7, 1e8, 5e8, 7.6e8, 1e9, 2.7e9, 7e9, 1.3e10, 7e10, 1e11, 1.75e11, 1e12}) {
    const auto scenario = sized("{parameters: " + std::to_string(static_cast<std::int64_t>(target)) + "}");
    CAPTURE(target);
    CAPTURE(errors(scenario));
    REQUIRE(scenario.ok());
    const ModelSpec& model = scenario->model;
    CHECK(std::abs(static_cast<double>(parameters(model)) / target - 1) < 0.05);
    CHECK(model.heads * model.head_dim == model.hidden);
    const double ratio = static_cast<double>(model.hidden) / static_cast<double>(model.layers);
    CHECK(ratio > 64 / 1.51);
    CHECK(ratio < 128 * 1.51);
    CHECK(scenario->remarks.size() == 1);
  }
}

TEST_CASE("a very small model, mostly embedding, leaves the family's shape rather than the size") {
  for (const std::string target : {"1e7", "3e7"}) {
    CAPTURE(target);
    const auto scenario = sized("{parameters: " + target + "}");
    CAPTURE(errors(scenario));
    REQUIRE(scenario.ok());
    CHECK(std::abs(static_cast<double>(parameters(scenario->model)) / std::stod(target) - 1) < 0.1);
  }
}

TEST_CASE("sizes given beside the number of parameters are kept") {
  const auto scenario = sized("{parameters: 1e11, layers: 80, vocabulary: 32000}");
  CAPTURE(errors(scenario));
  REQUIRE(scenario.ok());
  CHECK(scenario->model.layers == 80);
  CHECK(scenario->model.vocabulary == 32000);
  CHECK(std::abs(static_cast<double>(parameters(scenario->model)) / 1e11 - 1) < 0.05);
}

TEST_CASE("a model by size has the positions that its training needs, and its family's at least") {
  for (const auto& [sequence, positions] : {std::pair{1024, 2048}, {2048, 2048}, {4096, 4096}}) {
    const auto scenario = load(fmt::format(
        "{}model: {{parameters: 5e8}}\ntraining: {{sequence_length: {}, global_batch: 64}}\n", kCluster, sequence));
    CAPTURE(errors(scenario));
    REQUIRE(scenario.ok());
    CHECK(scenario->model.positions == positions);
    CHECK(std::abs(static_cast<double>(parameters(scenario->model)) / 5e8 - 1) < 0.1);
  }
}

TEST_CASE("sizes that leave no shape near the target are refused") {
  CHECK_FALSE(sized("{parameters: 1e9, layers: 1, hidden: 64}").ok());
  CHECK_FALSE(sized("{parameters: 1e5, vocabulary: 1e6}").ok());
}

}  // namespace orrery
