// A scenario from file to figures: what the loader takes, the run takes too.
#include "sim/study/simulate.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "sim/results/quantities.hpp"
#include "sim/results/summary_text.hpp"

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

TEST_CASE("a summary says why hardly any ranks are alike, and only what can be the cause") {
  // 96 GPUs on 12 nodes; one of them is slow.
  const auto reason = [](const std::string& cluster, const std::string& more) {
    const std::string text = "cluster: {node: dgx-a100-40gb, nodes: 12" + cluster +
                             "}\n"
                             "model: {layers: 2, hidden: 512, heads: 8, vocabulary: 1024, positions: 256}\n"
                             "training: {sequence_length: 256, global_batch: 96}\n"
                             "parallelism: {tensor: 2}\n"
                             "collectives: {algorithm: ring}\n" +
                             more;
    const Result<Scenario> scenario = load_scenario_text(text, "test.yaml", for_running({}));
    REQUIRE_MESSAGE(scenario.ok(), to_string(scenario.problems()));
    const Result<Simulation> simulation = simulate(*scenario);
    REQUIRE(simulation.ok());
    const std::string& because = simulation->summary.simulation.unfolded_because;
    const bool told = summary_text(simulation->summary).find("hardly any ranks are alike") != std::string::npos;
    CHECK(told == !because.empty());
    return because;
  };
  const std::string slow = "variation: {slow: [{gpu: 17, compute: 0.9}]}\n";
  const std::string message = "simulation: {fidelity: message}\n";
  const auto leaves = [](const char* routing, int nodes) {
    return std::string(", fabric: {kind: leaf-spine, link: hdr-infiniband, oversubscription: 2, routing: ") + routing +
           ", nodes_per_leaf: " + std::to_string(nodes) + "}";
  };
  CHECK(reason("", "simulation: {fidelity: coupled}\n") == "");
  CHECK(reason("", slow + "simulation: {fidelity: coupled}\n") == "");
  CHECK(reason("", "variation: {kernel_jitter: 1 %}\n").find("variation.kernel_jitter") != std::string::npos);
  CHECK(reason("", slow + message).find("simulation.fidelity: message") != std::string::npos);
  CHECK(reason(leaves("ecmp", 2), slow + message).find("routing: ecmp") != std::string::npos);
  // On one leaf there is nothing to hash.
  CHECK(reason(leaves("ecmp", 12), slow + message).find("ecmp") == std::string::npos);
  CHECK(reason(leaves("fixed", 2), slow + message).find("routing: fixed") != std::string::npos);
}

TEST_CASE("what slow parts cost is the step with them less the step without") {
  const Duration fast = step_time("");
  const Result<Simulation> slow = run("variation: {slow: [{gpu: 3, compute: 0.5}]}\n");
  REQUIRE(slow.ok());
  const Summary& summary = slow->summary;
  REQUIRE(summary.slow_parts.has_value());
  CHECK(summary.slow_parts->step_without_s == to_seconds(fast));
  CHECK(summary.slow_parts->lost_s == doctest::Approx(to_seconds(slow->run.step_time - fast)));
  CHECK(summary.slow_parts->lost_s > 0);
  const std::string text = summary_text(summary);
  CHECK(text.find("slow parts    cost ") != std::string::npos);
  CHECK(text.find(fmt::format("without them the step takes {}", human_seconds(to_seconds(fast)))) != std::string::npos);
  // Nothing slow, nothing told.
  CHECK_FALSE(run("")->summary.slow_parts.has_value());
  // Little is told in full, not as nothing.
  const Result<Simulation> little = run("variation: {slow: [{gpu: 3, compute: 0.99999}]}\n");
  REQUIRE(little.ok());
  REQUIRE(little->summary.slow_parts.has_value());
  const bool lost = little->summary.slow_parts->lost_s > 0;
  CHECK((summary_text(little->summary).find("cost nothing") == std::string::npos) == lost);
}
