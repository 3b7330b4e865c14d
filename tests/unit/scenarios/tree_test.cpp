#include <doctest/doctest.h>

#include "support.hpp"
#include "tests/support/temporary_folder.hpp"

namespace orrery {

namespace {

using namespace scenario_tests;
using test::TemporaryFolder;

Scenario loaded(const std::string& path) {
  auto scenario = load_scenario(path, {{}, kCatalog});
  CAPTURE(errors(scenario));
  REQUIRE(scenario.ok());
  return std::move(scenario).value();
}

}  // namespace

TEST_CASE("an included file lies beneath: maps merge key by key, other values are replaced") {
  const TemporaryFolder folder;
  folder.write("parts/base.yaml", kBase + "name: base\nparallelism: {tensor: 4, pipeline: 2}\n");
  const std::string top = folder.write("top.yaml", "include: parts/base.yaml\nname: top\nparallelism: {tensor: 2}\n");
  const Scenario scenario = loaded(top);
  CHECK(scenario.name == "top");
  CHECK(scenario.parallelism.tensor == 2);
  CHECK(scenario.parallelism.pipeline == 2);
}

TEST_CASE("a later file of a list goes over an earlier one, and includes nest") {
  const TemporaryFolder folder;
  folder.write("a.yaml", kBase + "name: a\nsimulation: {seed: 1}\n");
  folder.write("b.yaml", "include: c.yaml\nname: b\n");
  folder.write("c.yaml", "simulation: {seed: 7}\nname: c\n");
  const Scenario scenario = loaded(folder.write("top.yaml", "include: [a.yaml, b.yaml]\n"));
  CHECK(scenario.name == "b");
  CHECK(scenario.simulation.seed == 7);
}

TEST_CASE("paths start at the file that they stand in") {
  const TemporaryFolder folder;
  folder.write("sub/config.json",
               "{\"model_type\": \"gpt2\", \"n_layer\": 4, \"n_embd\": 256, \"n_head\": 4, \"vocab_size\": 1000}");
  folder.write("sub/model.yaml", "model: ./config.json\n");
  CHECK(loaded(folder.write("top.yaml", "include: sub/model.yaml\n" + kCluster + kTraining)).model.layers == 4);
}

TEST_CASE("a problem in an included file stands in that file") {
  const TemporaryFolder folder;
  const std::string part = folder.write("part.yaml", "parallelism:\n  tensor: two\n");
  const auto scenario = load_scenario(folder.write("top.yaml", "include: part.yaml\n" + kBase), {{}, kCatalog});
  REQUIRE(scenario.problems().size() == 1);
  CHECK(scenario.problems().front().where == SourceLocation{part, 2, 11});
}

TEST_CASE("an override sets, replaces and makes keys") {
  const auto scenario = load(kBase, {{"parallelism.tensor", "2"},
                                     {"training.global_batch", "128"},
                                     {"parallelism.sharding.kind", "distributed-optimizer"},
                                     {"name", "\"5\""}});
  CAPTURE(errors(scenario));
  REQUIRE(scenario.ok());
  CHECK(scenario->parallelism.tensor == 2);
  CHECK(scenario->training.global_batch == 128);
  CHECK(scenario->parallelism.sharding.kind == "distributed-optimizer");
  CHECK(scenario->name == "5");
}

TEST_CASE("an override of a later place wins, and may reach into a list and below a name") {
  const auto scenario = load(kBase + "variation: {slow: [{gpu: 1, compute: 0.9}, {gpu: 2, compute: 0.8}]}\n",
                             {{"variation.slow[1].compute", "0.5"},
                              {"variation.slow.0.gpu", "3"},
                              {"cluster.node.gpu.memory", "64 GiB"},
                              {"model.layers", "6"},
                              {"model.layers", "8"}});
  CAPTURE(errors(scenario));
  REQUIRE(scenario.ok());
  CHECK(scenario->variation.slow[1].compute == 0.5);
  CHECK(scenario->variation.slow[0].gpu == 3);
  CHECK(scenario->cluster.groups[0].node.gpu.memory == Bytes(std::int64_t{64} << 30));
  CHECK(scenario->cluster.groups[0].node.gpu.name == "gadget");
  CHECK(scenario->model.layers == 8);
  CHECK(scenario->model.hidden == 768);
}

TEST_CASE("overrides make the maps and lists that are not there, item after item") {
  const auto scenario = load(kBase, {{"variation.slow[0].gpu", "3"},
                                     {"variation.slow[0].compute", "0.9"},
                                     {"variation.slow.1", "{link: node0.nic0, bandwidth: 0.5}"},
                                     {"parallelism.schedule.kind", "gpipe"}});
  CAPTURE(errors(scenario));
  REQUIRE(scenario.ok());
  REQUIRE(scenario->variation.slow.size() == 2);
  CHECK(scenario->variation.slow[0].gpu == 3);
  CHECK(scenario->variation.slow[0].compute == 0.9);
  CHECK(scenario->variation.slow[1].link == "node0.nic0");
  CHECK(scenario->parallelism.schedule.kind == "gpipe");
  CHECK(errors(load(kBase, {{"variation.slow[1].gpu", "3"}})) ==
        "--set variation.slow[1].gpu=3: error: variation.slow has no item \"1\"\n"
        "  note: it is a list of 0, counted from 0; [0] adds to it");
}

TEST_CASE("an override's value may be a map, and null takes a key away") {
  const auto scenario = load(kBase + "parallelism: {tensor: 8}\n",
                             {{"parallelism", "{pipeline: 2, schedule: {kind: interleaved-1f1b, virtual_stages: 3}}"},
                              {"training.dropout", "10 %"},
                              {"parallelism.tensor", "~"}});
  CAPTURE(errors(scenario));
  REQUIRE(scenario.ok());
  CHECK(scenario->parallelism.tensor == 1);
  CHECK(scenario->parallelism.pipeline == 2);
  CHECK(std::get<std::int64_t>(scenario->parallelism.schedule.options.at("virtual_stages")) == 3);
  CHECK(scenario->training.dropout == doctest::Approx(0.1));
}

TEST_CASE("a problem of an override names the option") {
  const auto scenario = load(kBase, {{"training.global_batch", "many"}});
  REQUIRE(scenario.problems().size() == 1);
  CHECK(scenario.problems().front().where == SourceLocation{"--set training.global_batch=many", 0, 0});
}

TEST_CASE("a problem of a variant stands at its line of the file") {
  const std::string text = kBase + "compare:\n  wide: {parallelism.tensor: 3}\n";
  const auto scenario = load(text);
  REQUIRE_MESSAGE(scenario.ok(), errors(scenario));
  REQUIRE(scenario->compare.variants.size() == 1);
  const auto variant = load(kBase, scenario->compare.variants[0].set);
  CHECK_MESSAGE(
      errors(variant).find("test.yaml:5:10: error: 16 GPUs cannot be split into replicas of 3") != std::string::npos,
      errors(variant));
}

}  // namespace orrery
