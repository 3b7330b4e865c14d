// What is chosen, and what is done when something is forced: on the machines of the catalogue's kinds.
#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "sim/exec/collectives/tuning.hpp"
#include "tests/unit/exec/collective_machines.hpp"

namespace orrery {
namespace {

using namespace testing;

struct Kind {
  std::string name;
  NodeSpec node;
};

std::vector<Kind> kinds() {
  NodeSpec single = dgx_h100();
  single.gpus = 1;
  single.nics = 1;
  return {{"DGX A100", dgx_a100()},
          {"DGX H100", dgx_h100()},
          {"DGX-1", dgx1_v100()},
          {"PCIe box", pcie_box()},
          {"single GPU", single}};
}

double seconds_of(const Topology& topology, CollectiveOp op, std::int64_t bytes, const std::string& algorithm,
                  const std::string& protocol = "auto") {
  return to_seconds(
      time_of(topology, all_gpus(topology), op, bytes, options_of(TrafficFidelity::coupled, algorithm, protocol)));
}

TEST_CASE("what NCCL's model chooses is not much slower here than the best of its algorithms") {
  // Largest factors: 2.0 and 1.6, on PCIe boxes and DGX-1, where NCCL's tables for NVLink and our tree over PCIe are
  // furthest apart; 1.4 on NVSwitch nodes.
  double worst_small = 1;
  double worst_large = 1;
  for (const Kind& kind : kinds()) {
    for (const int nodes : {1, 2, 4, 8}) {
      if (kind.node.gpus * nodes < 2) continue;
      const Topology topology = build(cluster_of(kind.node, nodes));
      const CommunicatorLayout layout = lay_out(topology, all_gpus(topology));
      for (std::int64_t bytes = 1 << 10; bytes <= 1 << 30; bytes *= 4) {
        double best = std::numeric_limits<double>::infinity();
        for (const CollectiveAlgorithm& row : collective_algorithm_rows()) {
          if (!row.chosen_by_auto || !possible(layout, row, CollectiveOp::all_reduce)) continue;
          for (const std::string protocol : {"ll", "ll128", "simple"}) {
            if (!std::isfinite(estimated_seconds(layout, row, static_cast<Protocol>(find_protocol(protocol)),
                                                 CollectiveOp::all_reduce, Bytes(bytes)))) {
              continue;  // NCCL would not run it
            }
            const double time = seconds_of(topology, CollectiveOp::all_reduce, bytes, std::string(row.name), protocol);
            best = std::min(best, time);
          }
        }
        const double factor = seconds_of(topology, CollectiveOp::all_reduce, bytes, "auto") / best;
        double& worst = bytes < 1 << 20 ? worst_small : worst_large;
        worst = std::max(worst, factor);
      }
    }
  }
  MESSAGE("auto against the best: " << worst_small << " below 1 MiB, " << worst_large << " from 1 MiB up");
  CHECK(worst_small < 2.0);
  CHECK(worst_large < 1.6);
}

TEST_CASE("whatever is forced runs, as forced where it is possible, and says so where it is not") {
  for (const Kind& kind : kinds()) {
    for (const int nodes : {1, 2, 3}) {
      const Topology topology = build(cluster_of(kind.node, nodes));
      const std::vector<GpuId> gpus = all_gpus(topology);
      const CommunicatorLayout layout = lay_out(topology, gpus);
      for (const CollectiveAlgorithm& row : collective_algorithm_rows()) {
        for (const ProtocolRow& protocol : protocol_rows()) {
          for (std::size_t o = 0; o < kCollectiveOps; ++o) {
            const auto op = static_cast<CollectiveOp>(o);
            CAPTURE(kind.name);
            CAPTURE(nodes);
            CAPTURE(row.name);
            CAPTURE(protocol.name);
            CAPTURE(name_of(op));
            TrafficRun run(topology,
                           options_of(TrafficFidelity::coupled, std::string(row.name), std::string(protocol.name)));
            run.traffic.start_collective(gpus, call_of(op, 1 << 20), 1, 0, 7);
            run.run();
            REQUIRE(run.ended.count(7) == 1);
            if (gpus.size() == 1) {
              CHECK(run.traffic.warnings().empty());
              continue;
            }
            const TuningChoice choice =
                choose(layout, op, Bytes(1 << 20),
                       {.algorithm = std::string(row.name), .protocol = std::string(protocol.name)});
            CHECK((choice.algorithm == &row) == possible(layout, row, op));
            const bool kept = row_of(choice.protocol).name == protocol.name;
            CHECK((kept || choice.algorithm->simple_only));
            CHECK(run.traffic.warnings().empty() == (kept && choice.algorithm == &row));
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace orrery
