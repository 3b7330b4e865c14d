// Messages that leave by another GPU's NIC (PXN), and NVLink domains of many trays (NVL72).
#include <algorithm>

#include "sim/exec/collectives/transfer_route.hpp"
#include "sim/exec/collectives/tuning.hpp"
#include "tests/unit/exec/collective_machines.hpp"

namespace orrery {
namespace {

using namespace testing;

int links_of(const Topology& topology, const TransferRoute& route, LinkKind kind) {
  return static_cast<int>(std::count_if(route.path.links.begin(), route.path.links.end(),
                                        [&](LinkId link) { return topology.link(link).kind == kind; }));
}

double served_of(const TrafficRun& run, LinkKind kind) {
  double bytes = 0;
  const Topology& topology = run.machine.topology();
  for (int i = 0; i < topology.links(); ++i) {
    const LinkId link(i);
    if (topology.link(link).kind != kind || !run.machine.hardware().may_decide(link)) continue;
    bytes += run.machine.network().served(run.machine.link(link), run.machine.now());
  }
  return bytes;
}

// The rack of the catalogue's gb200-nvl72: 18 trays of 4 GPUs, 2 CPUs and 4 NICs, all GPUs on one NVLink plane.
NodeSpec nvl72() {
  NodeSpec node = dgx_h100();
  node.name = "gb200-nvl72";
  node.gpu = gpu_of(2.5, true, 8000);
  node.gpus = 72;
  node.nics = 72;
  node.nvlink = link_of(900, 0.829, Duration(250'000));
  node.sockets = 36;
  node.switches_per_socket = 0;
  node.pcie = link_of(450, 0.9, Duration(150'000));
  node.socket_link = {};
  node.nic.in_network_reduction = true;
  return node;
}

TEST_CASE("a message to another rail goes over NVLink to the GPU of that rail, and crosses no spine") {
  ClusterSpec cluster = cluster_of(dgx_h100(), 2, FabricKind::rail_optimized);
  const Topology topology = build(cluster);
  const GpuId to = topology.gpu(NodeId(1), 5);
  const TransferRoute handed = transfer_route(topology, GpuId(0), to, true);
  CHECK(links_of(topology, handed, LinkKind::nvlink) == 2);  // into the NVSwitch and out of it
  CHECK(links_of(topology, handed, LinkKind::fabric) == 0);
  const TransferRoute direct = transfer_route(topology, GpuId(0), to, false);
  CHECK(links_of(topology, direct, LinkKind::nvlink) == 0);
  CHECK(links_of(topology, direct, LinkKind::fabric) == 2);  // up to a spine and down to the other rail's leaf
  // On its own rail nothing is handed over, nor inside a node.
  for (const GpuId own : {topology.gpu(NodeId(1), 0), GpuId(3)}) {
    CHECK(transfer_route(topology, GpuId(0), own, true).path.links ==
          transfer_route(topology, GpuId(0), own, false).path.links);
  }
}

TEST_CASE("only NVLink hands over, and only by one hop") {
  const Topology boxes = build(cluster_of(pcie_box(), 2));
  const Topology mesh = build(cluster_of(dgx1_v100(), 2));
  for (int place = 0; place < 8; ++place) {
    CHECK(nic_towards(boxes, GpuId(0), boxes.gpu(NodeId(1), place)) == -1);
    // GPU 0 of a DGX-1 has links to 1, 2, 3 and 4.
    const bool linked = place <= 4;
    CHECK((nic_towards(mesh, GpuId(0), mesh.gpu(NodeId(1), place)) >= 0) == linked);
  }
}

TEST_CASE("an all-to-all on rails crosses spines without PXN and none with it") {
  ClusterSpec cluster = cluster_of(dgx_h100(), 2, FabricKind::rail_optimized);
  cluster.fabric.oversubscription = 2;  // so that the spines are told
  const Topology topology = build(cluster);
  double fabric[2] = {};
  double nvlink[2] = {};
  for (const bool pxn : {false, true}) {
    TrafficOptions options = options_of(TrafficFidelity::coupled);
    options.pxn = pxn;
    TrafficRun run(topology, options);
    run.traffic.start_collective(all_gpus(topology), call_of(CollectiveOp::all_to_all, 16 << 20), 1, 0, 1);
    run.run();
    fabric[pxn ? 1 : 0] = served_of(run, LinkKind::fabric);
    nvlink[pxn ? 1 : 0] = served_of(run, LinkKind::nvlink);
  }
  // 16 members send 1 MiB to each of the 7 of another rail on the other node: up and down, or over two NVLinks.
  constexpr double kCrossing = 16.0 * 7 * (1 << 20);
  CHECK(fabric[0] == doctest::Approx(2 * kCrossing).epsilon(1e-6));
  CHECK(fabric[1] == 0);
  CHECK(nvlink[1] - nvlink[0] == doctest::Approx(2 * kCrossing).epsilon(1e-6));
}

TEST_CASE("inside an NVLink domain of 72 GPUs no collective touches a NIC, a CPU or the network") {
  const Topology topology = build(cluster_of(nvl72(), 1));
  const std::vector<GpuId> gpus = all_gpus(topology);
  const CommunicatorLayout layout = lay_out(topology, gpus);
  for (const CollectiveAlgorithm& row : collective_algorithm_rows()) {
    for (std::size_t o = 0; o < kCollectiveOps; ++o) {
      const auto op = static_cast<CollectiveOp>(o);
      if (!possible(layout, row, op)) continue;
      CAPTURE(row.name);
      CAPTURE(name_of(op));
      TrafficRun run(topology, options_of(TrafficFidelity::coupled, std::string(row.name)));
      run.traffic.start_collective(gpus, call_of(op, 72 << 20), 1, 0, 1);
      run.run();
      CHECK(run.traffic.warnings().empty());
      CHECK(served_of(run, LinkKind::nvlink) > 0);
      for (const LinkKind kind : {LinkKind::nic, LinkKind::pcie, LinkKind::socket}) CHECK(served_of(run, kind) == 0);
    }
  }
  CHECK(choose(layout, CollectiveOp::all_reduce, Bytes(1 << 30), {}).algorithm->name == "nvls");
}

TEST_CASE("two NVLink domains have a ring for each of their 72 NICs, and load them alike") {
  const Topology topology = build(cluster_of(nvl72(), 2));
  const std::vector<GpuId> gpus = all_gpus(topology);
  const CommunicatorLayout layout = lay_out(topology, gpus);
  CHECK(layout.rings() == 72);
  for (const std::string name : {"ring", "hierarchical", "nvls_tree", "nvls_sharp"}) {
    CAPTURE(name);
    REQUIRE(possible(layout, *find_collective_algorithm(name), CollectiveOp::all_reduce));
    TrafficOptions options = options_of(TrafficFidelity::coupled, name, "simple");
    options.channels = 144;
    TrafficRun run(topology, options);
    run.traffic.start_collective(gpus, call_of(CollectiveOp::all_reduce, 144 << 20), 1, 0, 1);
    run.run();
    REQUIRE(run.ended.count(1) == 1);
    double least = 1e30;
    double most = 0;
    for (int i = 0; i < topology.links(); ++i) {
      const LinkId link(i);
      if (topology.link(link).kind != LinkKind::nic) continue;
      const double bytes = run.machine.network().served(run.machine.link(link), run.machine.now());
      least = std::min(least, bytes);
      most = std::max(most, bytes);
    }
    CHECK(least == doctest::Approx(most).epsilon(1e-6));
    CHECK(least > 0);
  }
}

}  // namespace
}  // namespace orrery
