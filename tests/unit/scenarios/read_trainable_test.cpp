// `trainable`, `frozen`, `lora`, `distillation`, and the model's shared and low-rank layers.
#include <doctest/doctest.h>

#include "support.hpp"

namespace orrery {

namespace {

using namespace scenario_tests;

Scenario loaded(const std::string& model, const std::string& training) {
  auto scenario =
      load(kCluster + "model: " + model + "\ntraining: {sequence_length: 1024, global_batch: 64" + training + "}\n");
  CAPTURE(errors(scenario));
  REQUIRE(scenario.ok());
  return std::move(scenario).value();
}

TrainableSpec trainable(const std::string& training) { return loaded("small", training).training.trainable; }

}  // namespace

TEST_CASE("everything is trained unless it is said otherwise") {
  CHECK(trainable("") == TrainableSpec{});
  CHECK(trainable(", trainable: all") == TrainableSpec{});
  CHECK(trainable(", trainable: ~, frozen: ~, lora: ~") == TrainableSpec{});
}

TEST_CASE("parts that are trained, less what is frozen") {
  const TrainableSpec attention = trainable(", trainable: attention");
  for (const Part part : {Part::embedding, Part::mlp, Part::norms, Part::head}) CHECK_FALSE(attention.parts.has(part));
  CHECK(attention.parts.has(Part::attention));
  const TrainableSpec both = trainable(", frozen: [norms, layers 0-3, layer 7], trainable: [attention, norms]");
  CHECK(both.parts == attention.parts);
  CHECK(both.frozen_layers == std::vector<LayerRange>{{0, 3}, {7, 7}});
  const TrainableSpec rest = trainable(", frozen: mlp");
  CHECK(rest.parts.has(Part::embedding));
  CHECK_FALSE(rest.parts.has(Part::mlp));
}

TEST_CASE("beside adapters nothing is trained but what is named") {
  const TrainableSpec adapters = trainable(", lora: {rank: 8, targets: [q, mlp], dropout: 5 %, base: nf4}");
  CHECK(adapters.parts == TrainedParts::none());
  CHECK(adapters.lora.rank == 8);
  CHECK(adapters.lora.dropout == 0.05);
  CHECK(adapters.lora.nf4);
  CHECK(adapters.lora.targets.has(Target::q));
  CHECK_FALSE(adapters.lora.targets.has(Target::k));
  CHECK(adapters.lora.targets.has(Target::down));
  CHECK(trainable(", trainable: norms, lora: {rank: 8, targets: attention}").parts.has(Part::norms));
}

TEST_CASE("a teacher is a model like any other") {
  const TrainingSpec training = loaded("small", ", distillation: {teacher: {base: small, layers: 24}}").training;
  CHECK(training.distills());
  CHECK(training.teacher.layers == 24);
  CHECK_FALSE(loaded("small", "").training.distills());
}

TEST_CASE("shared and low-rank layers are part of the model") {
  const ModelSpec model = loaded("{base: small, layer_groups: 3, low_rank: {rank: 16, targets: [up, down]}}", "").model;
  CHECK(model.layer_groups == 3);
  CHECK(model.low_rank == 16);
  CHECK(model.rank_of(Target::up) == 16);
  CHECK(model.rank_of(Target::q) == 0);
}

}  // namespace orrery
