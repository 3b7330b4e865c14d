// Messages counted before a run, against those of the run.
#include "tests/unit/exec/collective_machines.hpp"

#include "sim/exec/collectives/message_count.hpp"

namespace orrery {
namespace {

using namespace testing;

std::vector<std::string> forced_algorithms() {
  std::vector<std::string> names{"auto"};
  for (const CollectiveAlgorithm& row : collective_algorithm_rows()) names.emplace_back(row.name);
  return names;
}

std::vector<std::string> forced_protocols() {
  std::vector<std::string> names{"auto"};
  for (const ProtocolRow& row : protocol_rows()) names.emplace_back(row.name);
  return names;
}

TEST_CASE("messages are counted before a run as the run counts them, whatever is forced") {
  for (const ClusterSpec& spec : {cluster_of(dgx_h100(), 2), cluster_of(dgx_a100(), 1), cluster_of(pcie_box(), 3)}) {
    const Topology topology = build(spec);
    const std::vector<GpuId> members = all_gpus(topology);
    for (const std::string& algorithm : forced_algorithms()) {
      for (const std::string& protocol : forced_protocols()) {
        CAPTURE(algorithm);
        CAPTURE(protocol);
        MessageCounter counter(topology, members, {.algorithm = algorithm, .protocol = protocol});
        for (std::size_t op = 0; op < kCollectiveOps; ++op) {
          for (const std::int64_t bytes : {std::int64_t{1000}, std::int64_t{50} << 20}) {
            TrafficRun run(topology, options_of(TrafficFidelity::coupled, algorithm, protocol));
            run.traffic.start_collective(members, call_of(static_cast<CollectiveOp>(op), bytes), 1, 0, 7);
            const std::int64_t counted = counter.messages(static_cast<CollectiveOp>(op), Bytes(bytes));
            CHECK(counted == run.traffic.count_by_kind().at(0).messages);
            CHECK(counted >= least_messages(topology.gpus()));
          }
        }
      }
    }
  }
}

TEST_CASE("a group of one and an operation on nothing are no messages") {
  const Topology topology = build(cluster_of(dgx_a100(), 1));
  const std::vector<GpuId> all = all_gpus(topology);
  CHECK(MessageCounter(topology, {all.data(), 1}, {}).messages(CollectiveOp::all_reduce, Bytes(1000)) == 0);
  CHECK(MessageCounter(topology, all, {}).messages(CollectiveOp::all_reduce, Bytes(0)) == 0);
}

}  // namespace
}  // namespace orrery
