// A scenario from file to figures: what the loader takes, the run takes too.
#include "sim/study/simulate.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace orrery;

namespace {

const std::string kTwoNodes =
    "cluster: {node: dgx-a100-40gb, nodes: 2}\n"
    "model: {layers: 2, hidden: 512, heads: 8, vocabulary: 1024, positions: 256}\n"
    "training: {sequence_length: 256, global_batch: 32}\n"
    "collectives: {algorithm: ring}\n";

Result<Simulation> run(const std::string& more) {
  const Result<Scenario> scenario = load_scenario_text(kTwoNodes + more, "test.yaml", for_running({}));
  if (!scenario) return scenario.problems();
  return simulate(*scenario);
}

Duration step_time(const std::string& more) {
  const Result<Simulation> simulation = run(more);
  CAPTURE(to_string(simulation.problems()));
  REQUIRE(simulation.ok());
  return simulation->run.step_time;
}

}  // namespace

TEST_CASE("a slow device slows all of its links, as if each of them were named") {
  // A NIC's links: out of the node and into it. Its partners on other nodes are as fast as before.
  const Duration as_built = step_time("");
  const Duration device = step_time("variation: {slow: [{link: node0.nic0, bandwidth: 0.1}]}\n");
  const Duration links = step_time(
      "variation: {slow: [{link: node0.nic0->switch, bandwidth: 0.1}, {link: switch->node0.nic0, bandwidth: 0.1}]}\n");
  CHECK(device > as_built);
  CHECK(device == links);
}

TEST_CASE("every kind of part that the loader finds can be slowed down") {
  for (const char* name : {"node0.nic0", "node1.gpu3", "node0.nvswitch", "node0.gpu0->nvswitch", "switch"}) {
    CAPTURE(name);
    const Result<Simulation> simulation =
        run(std::string("variation: {slow: [{link: \"") + name + "\", bandwidth: 0.5}]}\n");
    CHECK_MESSAGE(simulation.ok(), to_string(simulation.problems()));
  }
}

TEST_CASE("a slow factor of one changes nothing") {
  CHECK(step_time("variation: {slow: [{gpu: 15, compute: 1}, {link: node0.nic0, bandwidth: 1}]}\n") == step_time(""));
}

TEST_CASE("a run tells how far it has come, and is the same run") {
  const Result<Scenario> scenario =
      load_scenario_text(kTwoNodes, "test.yaml", for_running({{{"training.global_batch", "32000"}}, ""}));
  REQUIRE_MESSAGE(scenario.ok(), to_string(scenario.problems()));
  Instant last{};
  std::int64_t told = 0;
  const Result<Simulation> watched = simulate(*scenario, {.progress = [&](Instant now, std::int64_t events) {
    CHECK(now >= last);
    last = now;
    CHECK(events == ++told * std::int64_t{kProgressEvents});
  }});
  const Result<Simulation> alone = simulate(*scenario);
  REQUIRE(watched.ok());
  REQUIRE(alone.ok());
  CHECK(told == watched->run.events / std::int64_t{kProgressEvents});
  CHECK(told > 0);
  CHECK(watched->run.fingerprint == alone->run.fingerprint);
}
