// Collectives and transfers on simulated hardware: closed forms on ideal networks, agreement of the two fidelities,
// conservation of bytes, contention, symmetry.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "sim/exec/collectives/tuning.hpp"
#include "tests/unit/exec/collective_machines.hpp"

namespace orrery {
namespace {

using namespace literals;
using namespace testing;

constexpr TrafficFidelity kBoth[] = {TrafficFidelity::message, TrafficFidelity::coupled};

std::int64_t distance(Duration a, Duration b) { return std::abs((a - b).count()); }

TEST_CASE("a ring all_reduce on an ideal network takes 2(n-1)(alpha + S/(nB))") {
  // alpha = 2 us, B = 10 GB/s, S = n x 1 MB: every round is 2 us + 1e6 B / 10e9 B/s = 102 us, exactly.
  for (int n = 2; n <= 9; ++n) {
    const Topology topology = build(ideal_cluster(n, 10, 2_us));
    for (const TrafficFidelity fidelity : kBoth) {
      const Duration time = time_of(topology, all_gpus(topology), CollectiveOp::all_reduce, std::int64_t{n} * 1'000'000,
                                    options_of(fidelity, "ring", "ideal"));
      CHECK(distance(time, 102_us * (2 * (n - 1))) <= 2 * n);
    }
  }
}

TEST_CASE("reduce_scatter and all_gather take half of it, and latency alone remains for a few bytes") {
  const Topology topology = build(ideal_cluster(8, 10, 2_us));
  for (const TrafficFidelity fidelity : kBoth) {
    for (const CollectiveOp op : {CollectiveOp::reduce_scatter, CollectiveOp::all_gather}) {
      const Duration time = time_of(topology, all_gpus(topology), op, 8'000'000, options_of(fidelity, "ring", "ideal"));
      CHECK(distance(time, 102_us * 7) <= 16);
    }
    // 8 pieces of 1 B: 0.1 ns each.
    const Duration small =
        time_of(topology, all_gpus(topology), CollectiveOp::all_reduce, 8, options_of(fidelity, "ring", "ideal"));
    CHECK(distance(small, (2_us + 100_ps) * 14) <= 16);
  }
}

TEST_CASE("halving and doubling takes 2 log2(n) latencies and the bytes of a ring") {
  // n = 8: stages of S/2, S/4, S/8 and back: 2 x 7/8 x 8 MB / 10 GB/s = 1.4 ms, and 6 alpha.
  const Topology topology = build(ideal_cluster(8, 10, 2_us));
  for (const TrafficFidelity fidelity : kBoth) {
    const Duration time = time_of(topology, all_gpus(topology), CollectiveOp::all_reduce, 8'000'000,
                                  options_of(fidelity, "halving_doubling", "ideal"));
    CHECK(distance(time, 1400_us + 12_us) <= 16);
  }
}

TEST_CASE("a chain broadcast is a pipeline: its chunks and the chain's other edges, one after another") {
  // 4 members, 3 edges, 6.144 MB in chunks of at most 512 KiB; 8 x 3 chunks are wanted, so chunks of 256,000 B:
  // (24 + 3 - 1) x 25.6 us + 3 x 2 us.
  const Topology topology = build(ideal_cluster(4, 10, 2_us));
  for (const TrafficFidelity fidelity : kBoth) {
    const Duration time = time_of(topology, all_gpus(topology), CollectiveOp::broadcast, 6'144'000,
                                  options_of(fidelity, "ring", "ideal"));
    CHECK(distance(time, Duration(25'600'000) * 26 + 6_us) <= 64);
  }
}

TEST_CASE("a pairwise all_to_all sends (n-1)/n of the buffer through every port") {
  // 9 members: 8 messages of 1 MB from each, all at once: 8 MB / 10 GB/s + alpha.
  const Topology topology = build(ideal_cluster(9, 10, 2_us));
  for (const TrafficFidelity fidelity : kBoth) {
    const Duration time = time_of(topology, all_gpus(topology), CollectiveOp::all_to_all, 9'000'000,
                                  options_of(fidelity, "auto", "ideal"));
    CHECK(distance(time, 802_us) <= 16);
  }
}

struct Place {
  std::string name;
  ClusterSpec cluster;
};
std::vector<Place> places() {
  return {{"5 ideal", ideal_cluster(5, 10, 2_us)},
          {"DGX A100", cluster_of(dgx_a100(), 1)},
          {"2 DGX A100", cluster_of(dgx_a100(), 2)},
          {"DGX-1", cluster_of(dgx1_v100(), 1)},
          {"2 PCIe boxes on leaves", cluster_of(pcie_box(), 2, FabricKind::leaf_spine)}};
}

// How far the coupled fidelity may be from the message fidelity for 256 MiB.
double bound_for(const CollectiveAlgorithm& algorithm) {
  // Members' lanes of an all-to-all drift apart when some messages stay in a node and others do not: links idle at
  // times in the message fidelity, never in the coupled one.
  if (algorithm.family == CostFamily::pairwise) return 0.15;
  // Members with faster links begin the next step while others are in this one.
  if (algorithm.name == "hierarchical") return 0.05;
  // Until a tree's first chunks reach the root only the way up is busy, and runs ahead of its share.
  return algorithm.name == "tree" ? 0.10 : 0.03;
}

TEST_CASE("both fidelities agree for large messages, for all algorithms on all kinds of machines") {
  for (const Place& place : places()) {
    const Topology topology = build(place.cluster);
    const std::vector<GpuId> gpus = all_gpus(topology);
    const CommunicatorLayout layout = lay_out(topology, gpus);
    for (const CollectiveAlgorithm& algorithm : collective_algorithm_rows()) {
      for (std::size_t o = 0; o < kCollectiveOps; ++o) {
        const auto op = static_cast<CollectiveOp>(o);
        if (!possible(layout, algorithm, op)) continue;
        // Long pipelines of one op are enough: chains and trees have thousands of messages.
        const std::string name(algorithm.name);
        const double message =
            to_seconds(time_of(topology, gpus, op, 1 << 28, options_of(TrafficFidelity::message, name, "simple")));
        const double coupled =
            to_seconds(time_of(topology, gpus, op, 1 << 28, options_of(TrafficFidelity::coupled, name, "simple")));
        CAPTURE(place.name);
        CAPTURE(name);
        CAPTURE(std::string(name_of(op)));
        CAPTURE(message);
        CAPTURE(coupled);
        CHECK(std::abs(coupled / message - 1) <= bound_for(algorithm));
      }
    }
  }
}

TEST_CASE("messages and bytes are counted alike in both fidelities, times the multiplicity") {
  const Topology topology = build(cluster_of(dgx_a100(), 2));
  for (const CollectiveOp op : {CollectiveOp::all_reduce, CollectiveOp::all_gather, CollectiveOp::all_to_all}) {
    TrafficCount counts[2];
    for (int i = 0; i < 2; ++i) {
      TrafficRun run(topology, options_of(kBoth[i]));
      run.traffic.start_collective(all_gpus(topology), call_of(op, 1 << 20), 1, 3, 1);
      run.run();
      counts[i] = run.traffic.count_by_kind().at(3);
    }
    CHECK(counts[0].messages == counts[1].messages);
    CHECK(counts[0].bytes == counts[1].bytes);
    CHECK(counts[0].messages > 0);
    TrafficRun run(topology, options_of(TrafficFidelity::coupled));
    run.traffic.start_collective(all_gpus(topology), call_of(op, 1 << 20), 5, 3, 1);
    CHECK(run.traffic.count_by_kind().at(3).bytes == 5 * counts[1].bytes);
  }
}

TEST_CASE("what links serve is what members send, in both fidelities") {
  // Every member is alone in its node: each byte leaves by one port and enters by another, so that the ports out
  // together serve the payload, and the ports in as well.
  const Topology topology = build(ideal_cluster(6, 10, 2_us));
  for (const TrafficFidelity fidelity : kBoth) {
    for (const char* algorithm : {"ring", "tree", "halving_doubling"}) {
      TrafficRun run(topology, options_of(fidelity, algorithm, "ideal"));
      run.traffic.start_collective(all_gpus(topology), call_of(CollectiveOp::all_reduce, 6'000'000), 1, 0, 1);
      run.run();
      double nic_bytes = 0;
      for (int i = 0; i < topology.links(); ++i) {
        const LinkId link(i);
        if (topology.link(link).kind != LinkKind::nic) continue;
        nic_bytes += run.machine.network().served(run.machine.link(link), run.machine.now());
      }
      const auto bytes = static_cast<double>(run.traffic.count_by_kind().at(0).bytes);
      CAPTURE(algorithm);
      CHECK(nic_bytes == doctest::Approx(2 * bytes).epsilon(1e-9));
    }
  }
}

TEST_CASE("starting at another member of a symmetric ring changes nothing") {
  const Topology topology = build(cluster_of(dgx_a100(), 2));
  std::vector<GpuId> gpus = all_gpus(topology);
  for (const TrafficFidelity fidelity : kBoth) {
    const Duration before = time_of(topology, gpus, CollectiveOp::all_reduce, 1 << 24, options_of(fidelity, "ring"));
    std::vector<GpuId> swapped(gpus.begin() + 8, gpus.end());  // the other node first
    swapped.insert(swapped.end(), gpus.begin(), gpus.begin() + 8);
    CHECK(time_of(topology, swapped, CollectiveOp::all_reduce, 1 << 24, options_of(fidelity, "ring")) == before);
  }
}

TEST_CASE("the same run twice is the same run") {
  const Topology topology = build(cluster_of(dgx_a100(), 2));
  for (const TrafficFidelity fidelity : kBoth) {
    const Duration first =
        time_of(topology, all_gpus(topology), CollectiveOp::all_to_all, 1 << 20, options_of(fidelity));
    CHECK(time_of(topology, all_gpus(topology), CollectiveOp::all_to_all, 1 << 20, options_of(fidelity)) == first);
  }
}

TEST_CASE("a slow link slows what crosses it, and nothing else") {
  const Topology topology = build(ideal_cluster(4, 10, 2_us));
  const Route route = topology.route(GpuId(0), GpuId(1));
  const auto nic = std::find_if(route.links.begin(), route.links.end(),
                                [&](LinkId link) { return topology.link(link).kind == LinkKind::nic; });
  REQUIRE(nic != route.links.end());
  const std::vector<LinkSlowdown> slow{{*nic, 0.5}};
  const std::vector<GpuId> with{GpuId(0), GpuId(1)};
  const std::vector<GpuId> without{GpuId(2), GpuId(3)};
  for (const TrafficFidelity fidelity : kBoth) {
    const TrafficOptions options = options_of(fidelity, "ring", "ideal");
    // Two members: 2 rounds of 2 us + 5 MB / 10 GB/s; with one direction at half the rate each round waits for it.
    CHECK(distance(time_of(topology, without, CollectiveOp::all_reduce, 10'000'000, options, slow), 1004_us) <= 8);
    const Duration slowed = time_of(topology, with, CollectiveOp::all_reduce, 10'000'000, options, slow);
    CHECK(slowed >= 1500_us);
    CHECK(slowed <= 2005_us);
  }
}

TEST_CASE("two collectives that share ports share them evenly") {
  const Topology topology = build(ideal_cluster(2, 10, 2_us));
  const std::vector<GpuId> gpus = all_gpus(topology);
  for (const TrafficFidelity fidelity : kBoth) {
    TrafficRun run(topology, options_of(fidelity, "ring", "ideal"));
    // Each alone: one round of 2 us + 5 MB / 10 GB/s = 502 us. Both at half the rate: 1002 us.
    run.traffic.start_collective(gpus, call_of(CollectiveOp::all_gather, 10'000'000), 1, 0, 1);
    run.traffic.start_collective(gpus, call_of(CollectiveOp::all_gather, 10'000'000), 1, 0, 2);
    run.run();
    CHECK(distance(run.ended.at(1), 1002_us) <= 8);
    CHECK(distance(run.ended.at(2), 1002_us) <= 8);
  }
}

TEST_CASE("a group of one ends at once, and so does a call without bytes") {
  const Topology topology = build(ideal_cluster(2, 10, 2_us));
  for (const TrafficFidelity fidelity : kBoth) {
    TrafficRun run(topology, options_of(fidelity));
    const std::vector<GpuId> one{GpuId(1)};
    run.traffic.start_collective(one, call_of(CollectiveOp::all_reduce, 1000), 1, 0, 1);
    run.traffic.start_collective(all_gpus(topology), call_of(CollectiveOp::all_reduce, 0), 1, 0, 2);
    run.traffic.start_transfer(GpuId(0), GpuId(0), Bytes(1000), 1, 0, 3);
    run.run();
    CHECK(run.ended.at(1) == Duration::zero());
    CHECK(run.ended.at(2) == Duration::zero());
    CHECK(run.ended.at(3) == Duration::zero());
    CHECK(run.traffic.count_by_kind().empty());
    CHECK(run.traffic.multiprocessors(one, call_of(CollectiveOp::all_reduce, 1000)) == 0);
  }
}

TEST_CASE("a transfer takes its latency and its bytes") {
  const Topology topology = build(ideal_cluster(2, 10, 2_us));
  for (const TrafficFidelity fidelity : kBoth) {
    TrafficRun run(topology, options_of(fidelity, "auto", "ideal"));
    run.traffic.start_transfer(GpuId(0), GpuId(1), Bytes(10'000'000), 1, 4, 9);
    run.run();
    CHECK(distance(run.ended.at(9), 1002_us) <= 2);
    CHECK(run.traffic.count_by_kind().at(4).messages == 1);
    CHECK(run.traffic.count_by_kind().at(4).bytes == 10'000'000);
  }
}

TEST_CASE("a transfer has the blocks that NCCL's plan gives it") {
  // Blocks for one peer: 2 x ceil(300 x 0.775 / 20) = 24 over NVLink, that is 32; ceil(25 x 0.984 / 14) = 2 over the
  // network. A plan begins with the most that all ranks can have at once: 32 / 8 = 4 in a communicator of 8 ranks and
  // 32 / 2 = 16 in one of two; parts are at least 64 KiB, and above 16 MiB a part the blocks are doubled.
  const Topology topology = build(cluster_of(dgx_a100(), 2));
  TrafficRun run(topology);
  const auto blocks = [&](int to, std::int64_t bytes, int ranks) {
    return run.traffic.multiprocessors_of_transfer(GpuId(0), GpuId(to), Bytes(bytes), ranks);
  };
  constexpr std::int64_t kMiB = 1 << 20;
  CHECK(blocks(1, 16 * kMiB, 8) == 4);
  CHECK(blocks(1, 16 * kMiB, 2) == 16);
  CHECK(blocks(1, 65 * kMiB, 8) == 8);     // 16.25 MiB a part on 4
  CHECK(blocks(1, 4096 * kMiB, 8) == 32);  // no more than there are
  CHECK(blocks(1, 128 << 10, 8) == 2);     // two parts of 64 KiB
  CHECK(blocks(1, 0, 8) == 1);
  CHECK(blocks(1, 16 * kMiB, 64) == 1);
  CHECK(blocks(8, 16 * kMiB, 2) == 2);  // over the network parts are at most 128 KiB
  CHECK(blocks(8, 16 * kMiB, 16) == 2);
  CHECK(blocks(8, 1000, 16) == 1);
  CHECK(blocks(0, 16 * kMiB, 8) == 0);  // to itself
}

TEST_CASE("operations may follow one another on reused slots") {
  const Topology topology = build(cluster_of(dgx_a100(), 1));
  const std::vector<GpuId> gpus = all_gpus(topology);
  for (const TrafficFidelity fidelity : kBoth) {
    TrafficRun run(topology, options_of(fidelity));
    Duration last{};
    Duration first_took{};
    for (std::uint64_t i = 0; i < 4; ++i) {
      run.traffic.start_collective(gpus, call_of(CollectiveOp::all_reduce, 1 << 20), 1, 0, i);
      run.run();
      const Duration took = run.ended.at(i) - last;
      last = run.ended.at(i);
      if (i == 0) first_took = took;
      CHECK(took == first_took);
    }
  }
}

TEST_CASE("copies of a communicator that share its links slow each other by their number") {
  // Multiplicity 3 on links of classes of one: as three equal operations at once.
  const Topology topology = build(ideal_cluster(3, 10, 2_us));
  TrafficRun run(topology, options_of(TrafficFidelity::coupled, "ring", "ideal"));
  run.traffic.start_collective(all_gpus(topology), call_of(CollectiveOp::all_gather, 3'000'000), 3, 0, 1);
  run.run();
  TrafficRun three(topology, options_of(TrafficFidelity::coupled, "ring", "ideal"));
  for (std::uint64_t i = 0; i < 3; ++i) {
    three.traffic.start_collective(all_gpus(topology), call_of(CollectiveOp::all_gather, 3'000'000), 1, 0, i);
  }
  three.run();
  CHECK(run.ended.at(1) == three.ended.at(0));
  CHECK(run.traffic.count_by_kind().at(0).bytes == three.traffic.count_by_kind().at(0).bytes);
}

}  // namespace
}  // namespace orrery
