// Algorithms of two levels: switches and trees (NVLSTree), switches of the network (SHARP), rings and exchanges inside
// nodes and by rail. Times from hand-derived figures, bytes on links, and limits in which they are flat ones.
#include <cmath>
#include <map>
#include <numeric>

#include "sim/exec/collectives/tuning.hpp"
#include "tests/unit/exec/collective_machines.hpp"

namespace orrery {
namespace {

using namespace literals;
using namespace testing;

constexpr TrafficFidelity kBoth[] = {TrafficFidelity::message, TrafficFidelity::coupled};

std::int64_t distance(Duration a, Duration b) { return std::abs((a - b).count()); }

const CollectiveAlgorithm& row(const std::string& name) { return *find_collective_algorithm(name); }

// `nodes` of one GPU whose switches reduce.
ClusterSpec reducing_cluster(int nodes) {
  ClusterSpec cluster = ideal_cluster(nodes, 10, 2_us);
  cluster.groups[0].node.nic.in_network_reduction = true;
  return cluster;
}

// `nodes` of two GPUs, each with a NIC of 10 GB/s and 2 us a message, joined by NVLink of 100 GB/s that takes no time
// of its own.
ClusterSpec paired_cluster(int nodes) {
  ClusterSpec cluster = ideal_cluster(nodes, 10, 2_us);
  NodeSpec& node = cluster.groups[0].node;
  node.gpus = 2;
  node.nics = 2;
  node.wiring = GpuWiring::nvswitch;
  node.nvlink = link_of(100, 1, Duration::zero());
  return cluster;
}

// Bytes that all links of each kind have carried.
std::map<LinkKind, double> served(TrafficRun& run) {
  std::map<LinkKind, double> bytes;
  const Topology& topology = run.machine.topology();
  for (int i = 0; i < topology.links(); ++i) {
    const LinkId link(i);
    if (!run.machine.hardware().may_decide(link)) continue;
    bytes[topology.link(link).kind] += run.machine.network().served(run.machine.link(link), run.machine.now());
  }
  return bytes;
}

std::map<LinkKind, double> served_by(const Topology& topology, CollectiveOp op, std::int64_t bytes,
                                     const TrafficOptions& options) {
  TrafficRun run(topology, options);
  run.traffic.start_collective(all_gpus(topology), call_of(op, bytes), 1, 0, 7);
  run.run();
  REQUIRE(run.ended.count(7) == 1);
  CHECK(run.traffic.warnings().empty());
  return served(run);
}

TEST_CASE("switches of the network take the data once and give the sum back once") {
  // 16 chunks of 512,000 B, 51.2 us each at 10 GB/s, follow one another into the switch; the last comes back behind
  // all others: 17 x 51.2 us and 1 us of latency each way, whatever the number of nodes.
  for (const int nodes : {2, 3, 8}) {
    const Topology topology = build(reducing_cluster(nodes));
    for (const TrafficFidelity fidelity : kBoth) {
      TrafficOptions options = options_of(fidelity, "sharp", "ideal");
      options.channels = 1;
      const Duration time = time_of(topology, all_gpus(topology), CollectiveOp::all_reduce, 8'192'000, options);
      CAPTURE(nodes);
      CHECK(distance(time, Duration(51'200'000) * 17 + 2_us) <= 64);
    }
  }
}

TEST_CASE("on one rail reductions by the network come near twice a ring's bandwidth") {
  // A ring's NIC sends 2 (n - 1) / n of the data, SHARP's the data: 1.875 for 16 nodes, but for the pipeline's fill.
  const Topology topology = build(reducing_cluster(16));
  const auto seconds = [&](const std::string& algorithm) {
    return to_seconds(time_of(topology, all_gpus(topology), CollectiveOp::all_reduce, 1 << 30,
                              options_of(TrafficFidelity::coupled, algorithm, "ideal")));
  };
  const double gain = seconds("ring") / seconds("sharp");
  CHECK(gain > 1.8);
  CHECK(gain < 1.875);
}

TEST_CASE("a cable between switches carries a reduction once each way, however many nodes are below it") {
  // Two leaves of two nodes, half as much capacity upwards as downwards: four NICs out and in, two leaves up and down.
  ClusterSpec cluster = reducing_cluster(4);
  cluster.fabric.kind = FabricKind::leaf_spine;
  cluster.fabric.nodes_per_leaf = 2;
  cluster.fabric.link = cluster.groups[0].node.nic;
  cluster.fabric.oversubscription = 2;
  const Topology topology = build(cluster);
  constexpr std::int64_t kBytes = 8 << 20;
  for (const TrafficFidelity fidelity : kBoth) {
    const auto bytes = served_by(topology, CollectiveOp::all_reduce, kBytes, options_of(fidelity, "sharp", "ideal"));
    CHECK(bytes.at(LinkKind::nic) == doctest::Approx(8.0 * kBytes).epsilon(1e-4));
    CHECK(bytes.at(LinkKind::fabric) == doctest::Approx(4.0 * kBytes).epsilon(1e-4));
  }
}

TEST_CASE("NVLSTree's bytes are those of the switches and of a tree for every rail") {
  // Two nodes of eight GPUs and eight rails, per byte of the buffer: each GPU sends and gets 1 + 1/8 over NVLink, that
  // is 16 x 2 x 9/8 = 36; each rail's head sends an eighth and gets one, 16 out and in of an eighth at both ends: 4.
  NodeSpec node = dgx_h100();
  const Topology topology = build(cluster_of(node, 2));
  constexpr std::int64_t kBytes = 64 << 20;
  for (const TrafficFidelity fidelity : kBoth) {
    const auto bytes =
        served_by(topology, CollectiveOp::all_reduce, kBytes, options_of(fidelity, "nvls_tree", "ideal"));
    CHECK(bytes.at(LinkKind::nvlink) == doctest::Approx(36.0 * kBytes).epsilon(1e-3));
    CHECK(bytes.at(LinkKind::nic) == doctest::Approx(4.0 * kBytes).epsilon(1e-3));
    // Under Simple the switches' reductions take 20 bytes of NVLink for 17.
    const auto simple =
        served_by(topology, CollectiveOp::all_reduce, kBytes, options_of(fidelity, "nvls_tree", "simple"));
    CHECK(simple.at(LinkKind::nvlink) == doctest::Approx(36.0 * kBytes * 20 / 17).epsilon(1e-3));
    CHECK(simple.at(LinkKind::nic) == doctest::Approx(4.0 * kBytes).epsilon(1e-3));
  }
}

TEST_CASE("NVLS over several nodes with SHARP needs half of a ring's bytes on NICs") {
  NodeSpec node = dgx_h100();
  node.nic.in_network_reduction = true;
  const Topology topology = build(cluster_of(node, 4));
  constexpr std::int64_t kBytes = 64 << 20;
  const TrafficOptions options = options_of(TrafficFidelity::coupled, "nvls_sharp", "ideal");
  const auto bytes = served_by(topology, CollectiveOp::all_reduce, kBytes, options);
  // 32 NICs send an eighth of the buffer and get one. Each of a ring's sends and gets 2 x 31/32 of an eighth.
  CHECK(bytes.at(LinkKind::nic) == doctest::Approx(8.0 * kBytes).epsilon(1e-3));
}

TEST_CASE("rings in nodes and by rail take the times of their steps") {
  // 2 nodes of 2, S = 8 MB. In a node: one round of S/2 at 100 GB/s, 40 us. By rail: rounds of S/4 at 10 GB/s and 2 us,
  // 202 us; two for the sum and its copy, one for half of it.
  const Topology topology = build(paired_cluster(2));
  const std::map<CollectiveOp, Duration> expected{{CollectiveOp::all_reduce, 40_us + 2 * 202_us + 40_us},
                                                  {CollectiveOp::reduce_scatter, 40_us + 202_us},
                                                  {CollectiveOp::all_gather, 202_us + 40_us}};
  for (const auto& entry : expected) {
    for (const TrafficFidelity fidelity : kBoth) {
      CAPTURE(name_of(entry.first));
      const Duration time =
          time_of(topology, all_gpus(topology), entry.first, 8'000'000, options_of(fidelity, "hierarchical", "ideal"));
      CHECK(distance(time, entry.second) <= 100'000);  // 0.1 us: the PCIe that the model of a node asks for
    }
  }
}

TEST_CASE("an exchange in nodes and then by rail sends as many bytes over NICs in fewer messages") {
  // S = 8 MB: half of it to the neighbour at 100 GB/s, 40 us; then what both have for the other node's member of one's
  // place, 4 MB at 10 GB/s and 2 us. Directly: two messages of 2 MB over the NIC.
  const Topology topology = build(paired_cluster(2));
  for (const TrafficFidelity fidelity : kBoth) {
    TrafficRun run(topology, options_of(fidelity, "hierarchical", "ideal"));
    run.traffic.start_collective(all_gpus(topology), call_of(CollectiveOp::all_to_all, 8'000'000), 1, 0, 7);
    run.run();
    CHECK(distance(run.ended.at(7), 442_us) <= 100'000);
    CHECK(run.traffic.count_by_kind().at(0).messages == 4 * (1 + 1));
    CHECK(served(run).at(LinkKind::nic) == doctest::Approx(2 * 4 * 4e6).epsilon(1e-6));
  }
}

TEST_CASE("on one node, and with one member a node, two levels are one") {
  for (const ClusterSpec& spec : {cluster_of(dgx_a100(), 1), cluster_of(dgx1_v100(), 1), ideal_cluster(5, 10, 2_us)}) {
    const Topology topology = build(spec);
    for (const TrafficFidelity fidelity : kBoth) {
      for (const CollectiveOp op : {CollectiveOp::all_reduce, CollectiveOp::all_gather, CollectiveOp::reduce_scatter,
                                    CollectiveOp::all_to_all}) {
        const std::string flat = op == CollectiveOp::all_to_all ? "pairwise" : "ring";
        CHECK(time_of(topology, all_gpus(topology), op, 1 << 24, options_of(fidelity, "hierarchical", "simple")) ==
              time_of(topology, all_gpus(topology), op, 1 << 24, options_of(fidelity, flat, "simple")));
      }
    }
  }
}

TEST_CASE("an uneven exchange by node and rail carries each part through both steps") {
  // 2 nodes of 2 with weights 1, 2, 3, 4. By receiver, in units: in the node a member gets, from its neighbour, what
  // goes to its place on both nodes (1 + 3 or 2 + 4), so 4 + 6 + 4 + 6 = 20; by rail a receiver gets its weight from
  // both of the other node's members: 2 x (1 + 2 + 3 + 4) = 20. By sender: its weight for both nodes, 2 x 10 = 20, and
  // then what its node has: 3 + 3 + 7 + 7 = 20.
  const std::vector<std::vector<std::int32_t>> orders{{0, 1, 2, 3}};
  const std::vector<std::int32_t> node_of{0, 0, 1, 1};
  const std::vector<std::int64_t> weights{1, 2, 3, 4};
  for (const bool returns : {false, true}) {
    PlanInput input{CollectiveOp::all_to_all, orders, node_of};
    input.weights = weights;
    input.returns = returns;
    const Plan plan = plan_hierarchical(input);
    CHECK(totals_of(plan, Bytes(10), {Bytes(1), Bytes(1)}).bytes == 40);
    CHECK(plan.heaviest() == 8);  // 2 x 4 by rail, or 4 x 2 in the node
  }
  // Equal weights are equal parts.
  const std::vector<std::int64_t> equal(4, 1);
  PlanInput weighed{CollectiveOp::all_to_all, orders, node_of};
  weighed.weights = equal;
  const PlanInput plain{CollectiveOp::all_to_all, orders, node_of};
  CHECK(totals_of(plan_hierarchical(weighed), Bytes(4000), {}).bytes ==
        totals_of(plan_hierarchical(plain), Bytes(4000), {}).bytes);
}

TEST_CASE("NCCL's choice takes the help of switches where they give it and it is asked for") {
  NodeSpec h100 = dgx_h100();
  h100.nic.in_network_reduction = true;
  const Topology many = build(cluster_of(h100, 4));
  const CommunicatorLayout layout = lay_out(many, all_gpus(many));
  const auto chosen = [&](const CommunicatorLayout& where, std::int64_t bytes, bool sharp) {
    return std::string(choose(where, CollectiveOp::all_reduce, Bytes(bytes), {.sharp = sharp}).algorithm->name);
  };
  CHECK(chosen(layout, 1 << 28, false) == "nvls_tree");
  CHECK(chosen(layout, 1 << 28, true) == "nvls_sharp");
  CHECK(chosen(layout, 1 << 14, false) == "tree");
  // No NVLS on an A100: only the network's switches can help.
  NodeSpec a100 = dgx_a100();
  const Topology without = build(cluster_of(a100, 4));
  a100.nic.in_network_reduction = true;
  const Topology with = build(cluster_of(a100, 4));
  const CommunicatorLayout plain = lay_out(without, all_gpus(without));
  const CommunicatorLayout reducing = lay_out(with, all_gpus(with));
  CHECK(chosen(plain, 1 << 28, true) == "ring");
  CHECK(chosen(reducing, 1 << 28, false) == "ring");
  CHECK(chosen(reducing, 1 << 26, true).rfind("sharp", 0) == 0);
  for (const char* name : {"nvls", "nvls_tree", "nvls_sharp"}) {
    CHECK(!possible(reducing, row(name), CollectiveOp::all_reduce));
  }
  CHECK(!possible(plain, row("sharp"), CollectiveOp::all_reduce));
  CHECK(!possible(layout, row("nvls"), CollectiveOp::all_reduce));
}

TEST_CASE("what the hardware does not have is said with the reason") {
  const Topology topology = build(cluster_of(dgx_a100(), 2));
  const auto warning_of = [&](const TrafficOptions& options) {
    TrafficRun run(topology, options);
    run.traffic.start_collective(all_gpus(topology), call_of(CollectiveOp::all_reduce, 1 << 20), 1, 0, 7);
    run.run();
    REQUIRE(run.traffic.warnings().size() == 1);
    return run.traffic.warnings().front();
  };
  CHECK(warning_of(options_of(TrafficFidelity::coupled, "sharp")).find("in_network_reduction") != std::string::npos);
  CHECK(warning_of(options_of(TrafficFidelity::coupled, "nvls_tree")).find("NVLink SHARP") != std::string::npos);
  TrafficOptions asked = options_of(TrafficFidelity::coupled);
  asked.sharp = true;
  CHECK(warning_of(asked).find("without effect") != std::string::npos);
}

}  // namespace
}  // namespace orrery
