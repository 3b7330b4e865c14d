// Nodes with different numbers of NICs on a rail-optimised fabric.
#include <doctest/doctest.h>

#include "executor_fixtures.hpp"
#include "sim/exec/execute.hpp"

using namespace orrery;
using namespace orrery::test;

TEST_CASE("a node with fewer rails than its partner sends by those it has") {
  ClusterSpec cluster = plain_cluster(2);
  cluster.fabric.kind = FabricKind::rail_optimized;
  cluster.groups.push_back(cluster.groups[0]);
  cluster.groups[0].node.nics = 1;
  cluster.groups[1].node.nics = 2;
  const Result<Topology> topology = Topology::build(cluster);
  REQUIRE(topology.ok());
  Scene scene(4);
  for (std::size_t r = 0; r < 4; ++r) scene.collective(r, 1_MB, {"data"});
  const Workload workload = scene.workload();
  ExecutionOptions options;
  options.traffic.algorithm = "halving_doubling";
  options.traffic.protocol = "ideal";
  for (const TrafficFidelity fidelity : {TrafficFidelity::coupled, TrafficFidelity::message}) {
    options.traffic.fidelity = fidelity;
    const Result<RunResult> result = execute(*topology, workload, place_in_order(workload), options);
    REQUIRE(result.ok());
    // The first stage of the halving and the last of the doubling cross between the nodes: each of four members sends
    // half of the buffer in both, out of one port and into another.
    CHECK(result->bytes_by_link_kind.at("nic") == 4 * 2 * 500'000 * 2);
  }
}
