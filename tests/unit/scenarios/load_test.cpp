#include <doctest/doctest.h>

#include <fmt/format.h>

#include "support.hpp"
#include "workloads/model.hpp"

namespace orrery {

namespace {

using namespace scenario_tests;

Scenario loaded(const std::string& text) {
  auto scenario = load(text);
  CAPTURE(errors(scenario));
  REQUIRE(scenario.ok());
  return std::move(scenario).value();
}

}  // namespace

TEST_CASE("a scenario says what it says, and the rest has its documented default") {
  const Scenario scenario = loaded(kBase);
  CHECK(scenario.name == "test");
  CHECK(scenario.file == "test.yaml");
  CHECK(scenario.gpus == 16);
  REQUIRE(scenario.cluster.groups.size() == 1);
  const NodeGroup& group = scenario.cluster.groups.front();
  CHECK(group.count == 2);
  CHECK(group.node.name == "box");
  CHECK(group.node.gpu.name == "gadget");
  CHECK(group.node.gpu.memory == Bytes(std::int64_t{32} << 30));
  CHECK(group.node.nic.bandwidth == BytesPerSecond(12.5e9));
  CHECK(group.node.nic.efficiency == 0.9);
  CHECK(scenario.cluster.fabric.kind == FabricKind::single_switch);
  CHECK(scenario.cluster.fabric.link.name == "ether");
  CHECK(scenario.model.layers == 12);
  CHECK(scenario.training.sequence_length == 1024);
  CHECK(scenario.training.micro_batch == 1);
  CHECK(scenario.training.precision == PrecisionRecipe::bf16);
  CHECK(scenario.training.optimizer.kind == "adamw");
  CHECK(scenario.training.framework.name == "pytorch-eager");
  CHECK(scenario.training.framework.launch == Duration(8'000'000));
  CHECK(scenario.parallelism == ParallelismSpec{});
  CHECK(scenario.simulation.seed == 1);
  CHECK(scenario.sweep.empty());
}

TEST_CASE("all keys of all blocks are read") {
  const Scenario scenario = loaded(R"(
name: everything
description: for the test
cluster:
  node: box
  nodes: 2
  fabric: {kind: leaf-spine, nodes_per_leaf: 2, oversubscription: 2, switch_latency: 400 ns, routing: ecmp}
model: small
training:
  sequence_length: 1024
  global_batch: 64
  micro_batch: 2
  tokens: 3e9 tokens
  precision: fp16
  optimizer: {kind: sgd, momentum: 0.5}
  recompute: full
  attention: plain
  dropout: 10 %
  framework: {base: pytorch-eager, graphs: true}
parallelism:
  tensor: 2
  pipeline: 2
  data: 4
  sequence_parallel: true
  schedule: {kind: interleaved-1f1b, virtual_stages: 3}
  sharding: distributed-optimizer
variation: {kernel_jitter: 2 %, slow: [{gpu: 3, compute: 0.9}, {link: node1.nic0, bandwidth: 0.5}]}
simulation: {fidelity: message, seed: 42}
collectives: {algorithm: ring, channels: 4, protocol: simple}
)");
  CHECK(scenario.name == "everything");
  CHECK(scenario.cluster.fabric.kind == FabricKind::leaf_spine);
  CHECK(scenario.cluster.fabric.nodes_per_leaf == 2);
  CHECK(scenario.cluster.fabric.oversubscription == 2);
  CHECK(scenario.cluster.fabric.switch_latency == Duration(400'000));
  CHECK(scenario.cluster.fabric.routing == Routing::ecmp);
  CHECK(scenario.training.micro_batch == 2);
  CHECK(scenario.training.tokens == 3e9);
  CHECK(scenario.training.precision == PrecisionRecipe::fp16);
  CHECK(scenario.training.optimizer.kind == "sgd");
  CHECK(std::get<double>(scenario.training.optimizer.options.at("momentum")) == 0.5);
  CHECK(scenario.training.recompute == Recompute::full);
  CHECK(scenario.training.attention == AttentionKind::plain);
  CHECK(scenario.training.dropout == doctest::Approx(0.1));
  CHECK(scenario.training.framework.graphs);
  CHECK(scenario.training.framework.context == Bytes(1'000'000'000));
  CHECK(scenario.parallelism.data == 4);
  CHECK(scenario.parallelism.sequence_parallel);
  CHECK(scenario.parallelism.sharding.kind == "distributed-optimizer");
  CHECK(scenario.variation.kernel_jitter == doctest::Approx(0.02));
  CHECK(scenario.variation.slow[1].link == "node1.nic0");
  CHECK(scenario.simulation.fidelity == Fidelity::message);
  CHECK(scenario.simulation.seed == 42);
  CHECK(scenario.collectives.algorithm == "ring");
  CHECK(scenario.collectives.channels == 4);
  CHECK(scenario.collectives.protocol == "simple");
}

TEST_CASE("the order of keys changes nothing, and JSON says the same as YAML") {
  const Scenario one = loaded(kBase);
  const Scenario other = loaded(kTraining + kModel + kCluster);
  const Scenario json = loaded(
      "{\"model\": \"small\", \"training\": {\"global_batch\": 64, \"sequence_length\": 1024},"
      " \"cluster\": {\"nodes\": 2, \"node\": \"box\"}}");
  CHECK(one.training == other.training);
  CHECK(one.training == json.training);
  CHECK(one.model == json.model);
  CHECK(one.gpus == json.gpus);
}

TEST_CASE("GPUs may be counted instead of nodes, and the last node used in part") {
  const auto with_gpus = [](const std::string& counts) {
    return load("cluster: {node: box, " + counts + "}\n" + kModel +
                "training: {sequence_length: 1024, global_batch: 60}\n");
  };
  CHECK(with_gpus("gpus: 12")->cluster.groups.front().count == 2);
  CHECK(with_gpus("gpus: 12")->gpus == 12);
  CHECK(with_gpus("gpus: 4")->cluster.groups.front().count == 1);
  CHECK(with_gpus("nodes: 2, gpus: 10")->gpus == 10);
  CHECK_FALSE(with_gpus("nodes: 2, gpus: 6").ok());
  CHECK_FALSE(with_gpus("nodes: 2, gpus: 20").ok());
}

TEST_CASE("an inline node says what differs from nothing, and takes NVLink from its like") {
  const Scenario scenario =
      loaded("cluster: {node: {gpus: 4, gpu: gadget, wiring: nvswitch, nics: 2, nic: ether}, nodes: 4}\n" + kModel +
             kTraining);
  const NodeSpec& node = scenario.cluster.groups.front().node;
  CHECK(node.gpus == 4);
  CHECK(node.nvlink.name == "nvl");
  CHECK(node.pcie.name == "pcie4");
  CHECK(node.nics == 2);
}

TEST_CASE("an inline GPU is scaled from an A100 by its peak where it does not say") {
  const Scenario scenario =
      loaded("cluster: {node: {gpus: 1, gpu: {peak: {bf16: 156 TFLOP/s}}, nics: 0}, gpus: 1}\n" + kModel + kTraining);
  // Half an A100: 156 / 312 of 2039 GB/s, of 108 SMs, of 19.5 TFLOP/s, of 400 W.
  const GpuSpec& gpu = scenario.cluster.groups.front().node.gpu;
  CHECK(gpu.peak_of(Precision::bf16).count() == 156e12);
  CHECK(gpu.peak_of(Precision::fp8).count() == 0);
  CHECK(gpu.memory_bandwidth.count() == doctest::Approx(1019.5e9));
  CHECK(gpu.multiprocessors == 54);
  CHECK(gpu.vector_peak.count() == doctest::Approx(9.75e12));
  CHECK(gpu.power_max.count() == doctest::Approx(200));
  CHECK(gpu.memory == Bytes(24'000'000'000));
  CHECK_FALSE(gpu.kernels.measured);
}

TEST_CASE("a changed GPU keeps what was not changed") {
  const Scenario scenario =
      loaded("cluster: {node: {base: box, gpu: {base: gadget, memory: 96 GB, name: gadget-96}}, nodes: 1}\n" + kModel +
             kTraining);
  const GpuSpec& gpu = scenario.cluster.groups.front().node.gpu;
  CHECK(gpu.name == "gadget-96");
  CHECK(gpu.memory == Bytes(96'000'000'000));
  CHECK(gpu.multiprocessors == 80);
}

TEST_CASE("groups make a mixed cluster") {
  const Scenario scenario = loaded(
      "cluster: {groups: [{node: box, nodes: 1}, {node: {base: box, gpu: {memory: 64 GB}}}]}\n" + kModel + kTraining);
  REQUIRE(scenario.cluster.groups.size() == 2);
  CHECK(scenario.gpus == 16);
  CHECK(scenario.cluster.groups[1].count == 1);
  CHECK(scenario.cluster.groups[1].node.gpu.memory == Bytes(64'000'000'000));
}

TEST_CASE("an inline model has the defaults of a catalogue file") {
  const ModelSpec model = loaded(kCluster + "model: {layers: 4, hidden: 512, heads: 8}\n" + kTraining).model;
  CHECK(model.kv_heads == 8);
  CHECK(model.head_dim == 64);
  CHECK(model.ffn_hidden == 2048);
  CHECK(model.vocabulary == 50257);
  CHECK(model.positions == 1024);
  CHECK(model.position == PositionKind::rotary);
  CHECK(model.norm == NormKind::rms_norm);
  CHECK_FALSE(model.tied_embeddings);
}

TEST_CASE("sizes that a base had derived follow the change") {
  const ModelSpec model = loaded(kCluster + "model: {base: small, hidden: 1536, heads: 24}\n" + kTraining).model;
  CHECK(model.kv_heads == 24);
  CHECK(model.head_dim == 64);
  CHECK(model.ffn_hidden == 6144);
  CHECK(model.layers == 12);
}

TEST_CASE("axes of a sweep are lists, ranges by step or factor, and zips") {
  const Scenario scenario = loaded(kBase + R"(
sweep:
  cluster.nodes: {from: 1, to: 8, factor: 2}
  training.global_batch: {from: 32, to: 96, step: 32}
  zip:
    - {parallelism.tensor: [1, 2], parallelism.sharding: [none, {kind: distributed-optimizer}]}
    - {training.dropout: {from: 0, to: 0.2, step: 0.1}}
)");
  REQUIRE(scenario.sweep.size() == 5);
  CHECK(scenario.sweep[0].values == std::vector<std::string>{"1", "2", "4", "8"});
  CHECK(scenario.sweep[0].zip_group == -1);
  CHECK(scenario.sweep[1].values == std::vector<std::string>{"32", "64", "96"});
  CHECK(scenario.sweep[2].zip_group == 0);
  CHECK(scenario.sweep[3].zip_group == 0);
  CHECK(scenario.sweep[3].values == std::vector<std::string>{"none", "{\"kind\": distributed-optimizer}"});
  CHECK(scenario.sweep[4].zip_group == 1);
  CHECK(scenario.sweep[4].values == std::vector<std::string>{"0", "0.1", "0.2"});
}

TEST_CASE("each value of an axis works as an override") {
  const std::string text =
      kBase + "sweep: {parallelism.sharding: [none, {kind: distributed-optimizer}], cluster.nodes: [1, 2]}\n";
  const Scenario scenario = loaded(text);
  for (const SweepAxis& axis : scenario.sweep) {
    for (const std::string& value : axis.values) {
      CAPTURE(value);
      CHECK(load(text, {{axis.key, value}}).ok());
    }
  }
}

TEST_CASE("a key that only the sweep sets has the first value of its axis") {
  const Scenario scenario =
      loaded("cluster: {node: box}\n" + kModel + kTraining + "sweep: {cluster.gpus: {from: 8, to: 32, step: 8}}\n");
  CHECK(scenario.gpus == 8);
}

TEST_CASE("a problem of the plan stands at its key, or at the nearest parent that is there") {
  const auto at_key = load(kBase + "parallelism:\n  tensor: 5\n");
  REQUIRE_FALSE(at_key.ok());
  CHECK(at_key.problems().front().where.line == 5);
  const auto at_parent = load("cluster: {node: box, nodes: 3}\n" + kModel + kTraining);  // 64 sequences on 24 replicas
  REQUIRE_FALSE(at_parent.ok());
  CHECK(at_parent.problems().front().where.line == 3);
}

TEST_CASE("a file that lacks one key of a zip stands at the first values of all of them") {
  // 16 GPUs with 16 stages and 32 with 8 are sound; the file's own 8 GPUs with 16 stages would not be.
  const Result<Scenario> scenario = load_scenario_text(
      "cluster: {node: dgx-a100-80gb, gpus: 8}\n"
      "model: {layers: 16, hidden: 1024, heads: 16}\n"
      "training: {sequence_length: 512, global_batch: 32}\n"
      "sweep: {zip: {cluster.gpus: [16, 32], parallelism.pipeline: [16, 8]}}\n",
      "zip.yaml");
  if (!scenario) FAIL(to_string(scenario.problems()));
  CHECK(scenario->gpus == 16);
  CHECK(scenario->parallelism.pipeline == 16);
  REQUIRE(scenario->sweep.size() == 2);
}

TEST_CASE("a framework's attention library is used where the GPU has its figures, and missed aloud where not") {
  const auto loaded = [](std::string_view node, std::string_view library) {
    return load_scenario_text(fmt::format("cluster: {{node: {}, nodes: 1}}\nmodel: llama2-7b\n"
                                          "training: {{sequence_length: 4096, global_batch: 8, framework: "
                                          "{{base: torchtitan, attention_library: {}}}}}\n",
                                          node, library),
                              "test.yaml");
  };
  const auto own = loaded("dgx-h100", "auto");
  const auto flash = loaded("dgx-h100", "flash-2");
  REQUIRE(own.ok());
  REQUIRE(flash.ok());
  CHECK(own->cluster.groups[0].node.gpu.kernels.attention_library == "cudnn");
  CHECK(flash->cluster.groups[0].node.gpu.kernels.attention_library == "flash-2");
  CHECK(flash->cluster.groups[0].node.gpu.kernels.attention_forward_rate <
        own->cluster.groups[0].node.gpu.kernels.attention_forward_rate);
  const auto missing = loaded("dgx-a100-80gb", "flash-3");
  REQUIRE(missing.ok());
  CHECK(missing->cluster.groups[0].node.gpu.kernels.attention_library == "flash-2");
  REQUIRE_FALSE(missing->remarks.empty());
  CHECK(missing->remarks.back().find("flash-3") != std::string::npos);
  CHECK_FALSE(loaded("dgx-h100", "flash2").ok());
}

}  // namespace orrery
