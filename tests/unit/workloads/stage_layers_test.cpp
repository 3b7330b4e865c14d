// Layers dealt out to virtual stages, as Megatron-LM's options have it.
#include "workloads/stage_layers.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace orrery;

namespace {

using Layers = std::vector<std::int64_t>;

Layers dealt(std::int64_t layers, const ParallelismSpec& p, const StageGrid& grid) {
  const auto result = stage_layers(layers, p, grid);
  REQUIRE_MESSAGE(result.ok(), to_string(result.problems()));
  return *result;
}

std::string problem(std::int64_t layers, const ParallelismSpec& p, const StageGrid& grid) {
  const auto result = stage_layers(layers, p, grid);
  return result.ok() ? std::string() : result.problems().front().key + ": " + result.problems().front().message;
}

}  // namespace

TEST_CASE("embedding and head count as layers where the plan says so") {
  ParallelismSpec p;
  p.account_for_embedding = p.account_for_loss = true;
  CHECK(dealt(6, p, {4, 1, 4, true}) == Layers{1, 2, 2, 1});
  CHECK(dealt(14, p, {4, 2, 8, true}) == Layers{1, 2, 2, 2, 2, 2, 2, 1});
  CHECK(dealt(2, p, {4, 1, 4, true}) == Layers{0, 1, 1, 0});
  p.account_for_embedding = false;
  CHECK(dealt(7, p, {4, 1, 4, true}) == Layers{2, 2, 2, 1});
  CHECK(problem(8, p, {4, 1, 4, true}) ==
        "parallelism.pipeline: 9 layers, head counted, cannot be split evenly over 4 stages");
}

TEST_CASE("the ends have numbers of their own, and the others share the rest") {
  ParallelismSpec p;
  p.first_stage_layers = 2;
  p.last_stage_layers = 4;
  CHECK(dealt(12, p, {4, 1, 4, true}) == Layers{2, 3, 3, 4});
  CHECK(dealt(12, p, {5, 1, 5, true}) == Layers{2, 2, 2, 2, 4});
  CHECK(dealt(14, p, {4, 2, 8, true}) == Layers{1, 2, 2, 2, 1, 2, 2, 2});
  CHECK(dealt(6, p, {2, 1, 2, true}) == Layers{2, 4});
  p.last_stage_layers = 0;
  CHECK(dealt(11, p, {4, 1, 4, true}) == Layers{2, 3, 3, 3});
  CHECK(problem(12, p, {4, 1, 4, true}) ==
        "parallelism.decoder_first_pipeline_num_layers: 10 layers between the ends cannot be split evenly over 3 "
        "stages");
  CHECK(problem(12, p, {4, 2, 8, false}) ==
        "parallelism.decoder_first_pipeline_num_layers: the schedule's first and last stage are not the ends of the "
        "model alone");
  p.first_stage_layers = 3;
  CHECK(problem(15, p, {4, 2, 8, true}).find("3 layers cannot be split evenly into 2 chunks") != std::string::npos);
}

TEST_CASE("one way of dealing out excludes the others") {
  ParallelismSpec p;
  p.account_for_loss = true;
  p.last_stage_layers = 2;
  CHECK(problem(8, p, {4, 1, 4, true}).find("leaves nothing to account for") != std::string::npos);
  p.stage_layers = {2, 2, 2, 2};
  CHECK(problem(8, p, {4, 1, 4, true}) == "parallelism.stage_layers: stage_layers says how all layers are dealt out");
}
