// micro_batch auto: the search, and the whole line from file to summary.
#include "sim/study/micro_batch.hpp"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "sim/study/simulate.hpp"

using namespace orrery;

namespace {

const std::string kOneNode =
    "cluster: {node: dgx-a100-40gb, nodes: 1}\n"
    "model: {layers: 4, hidden: 2048, heads: 16, vocabulary: 32000, positions: 1024}\n"
    "training: {sequence_length: 1024, global_batch: 512, micro_batch: auto}\n";

Scenario loaded(const std::string& more = "") {
  Result<Scenario> scenario = load_scenario_text(kOneNode + more, "test.yaml", for_running({}));
  REQUIRE_MESSAGE(scenario.ok(), to_string(scenario.problems()));
  return std::move(scenario).value();
}

// Memory by a table; what it was asked for.
struct Table {
  std::map<std::int64_t, std::int64_t> needs;
  std::vector<std::int64_t> asked;

  MemoryOfMicroBatch function(std::int64_t limit) {
    return [this, limit](std::int64_t micro_batch) -> Result<Summary::Memory> {
      asked.push_back(micro_batch);
      Summary::Memory memory;
      memory.peak_bytes = needs.at(micro_batch);
      memory.limit_bytes = limit;
      memory.fits = memory.peak_bytes <= limit;
      return memory;
    };
  }
};

}  // namespace

TEST_CASE("the largest micro-batch that fits is found though smaller ones may need more") {
  // 512 sequences over 8 replicas: 64 each, with divisors 1, 2, 4, ... 64. Four fits and two does not.
  Table table{{{64, 900}, {32, 500}, {16, 300}, {8, 101}, {4, 100}, {2, 120}, {1, 50}}, {}};
  const Result<MicroBatchChoice> choice = choose_micro_batch(loaded(), table.function(100));
  REQUIRE(choice.ok());
  CHECK(choice->micro_batch == 4);
  CHECK(table.asked == std::vector<std::int64_t>{64, 32, 16, 8, 4});
  CHECK(choice->why == "micro_batch auto: 4, the largest that fits; 8 needs 101 B of 100 B (1 B too much) on rank 0");
}

TEST_CASE("where everything fits, the micro-batch is the whole batch of a replica") {
  Table table{{{64, 1}}, {}};
  const Result<MicroBatchChoice> choice = choose_micro_batch(loaded(), table.function(100));
  REQUIRE(choice.ok());
  CHECK(choice->micro_batch == 64);
}

TEST_CASE("where not even one sequence fits, the problem says by how much") {
  Table table{{{64, 900}, {32, 500}, {16, 300}, {8, 201}, {4, 200}, {2, 160}, {1, 150}}, {}};
  const Result<MicroBatchChoice> choice = choose_micro_batch(loaded(), table.function(100));
  REQUIRE(!choice.ok());
  CHECK(choice.problems()[0].key == "training.micro_batch");
  CHECK(choice.problems()[0].message == "no micro-batch fits: 1 needs 150 B of 100 B (50 B too much) on rank 0");
}

TEST_CASE("only micro-batches that the schedule can do with are tried") {
  // Two stages and four replicas: 128 sequences a replica; interleaved needs micro-batches in multiples of two.
  Table table{{{64, 1}}, {}};
  const Scenario scenario =
      loaded("parallelism: {pipeline: 2, schedule: {kind: interleaved-1f1b, virtual_stages: 2}}\n");
  const Result<MicroBatchChoice> choice = choose_micro_batch(scenario, table.function(100));
  REQUIRE(choice.ok());
  CHECK(choice->micro_batch == 64);
}

TEST_CASE("a run with micro_batch auto is the run with the micro-batch that it finds, and the next does not fit") {
  const auto run = [](const std::string& micro_batch) {
    const Result<Scenario> scenario = load_scenario_text(
        kOneNode, "test.yaml",
        for_running({{{"training.micro_batch", micro_batch}, {"cluster.node.gpu.memory", "12 GB"}}, ""}));
    REQUIRE_MESSAGE(scenario.ok(), to_string(scenario.problems()));
    Result<Simulation> simulation = simulate(*scenario);
    REQUIRE_MESSAGE(simulation.ok(), to_string(simulation.problems()));
    return std::move(simulation).value();
  };
  const Simulation found = run("auto");
  const std::int64_t size = found.summary.plan.micro_batch;
  CHECK(found.summary.memory.fits == true);
  REQUIRE(!found.summary.remarks.empty());
  CHECK(found.summary.remarks.back().find("micro_batch auto: " + std::to_string(size)) == 0);
  CHECK(run(std::to_string(size)).run.fingerprint == found.run.fingerprint);
  REQUIRE(size < 64);
  CHECK(run(std::to_string(2 * size)).summary.memory.fits == false);
}
