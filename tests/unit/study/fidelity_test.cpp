#include "sim/study/fidelity.hpp"

#include "sim/exec/collectives/algorithm.hpp"
#include "sim/exec/collectives/protocol.hpp"
#include "tests/unit/study/whole_line.hpp"

namespace orrery {
namespace {

using namespace test;

// `nodes` nodes of four GPUs: two tensor ranks, two stages, the rest data parallel.
struct Case {
  explicit Case(int nodes)
      : topology(Topology::build(line_cluster(nodes, 4, 1e11, 1e10)).value()),
        workload(workload_of(line_model(4), line_training(64, 4 * nodes), degrees(2, 2, nodes))),
        placement(place_in_order(workload)) {}

  Topology topology;
  Workload workload;
  Placement placement;
};

std::int64_t messages_of_run(const Case& c, const TrafficOptions& traffic) {
  ExecutionOptions options;
  options.traffic = traffic;
  const auto run = execute(c.topology, c.workload, c.placement, options);
  REQUIRE(run.ok());
  std::int64_t messages = 0;
  for (const auto& [kind, count] : run->traffic_by_kind) messages += count.messages;
  return messages;
}

TEST_CASE("messages are counted as the run counts them, for every algorithm and protocol") {
  const Case c(3);
  for (const CollectiveAlgorithm& algorithm : collective_algorithm_rows()) {
    for (const ProtocolRow& protocol : protocol_rows()) {
      TrafficOptions options{.algorithm = std::string(algorithm.name), .protocol = std::string(protocol.name)};
      CAPTURE(options.algorithm);
      CAPTURE(options.protocol);
      CHECK(count_messages(c.topology, c.workload, c.placement, options) ==
            static_cast<double>(messages_of_run(c, options)));
    }
  }
}

TEST_CASE("a count that passes its limit is a lower bound above it") {
  const Case c(3);
  const double all = count_messages(c.topology, c.workload, c.placement, {});
  for (const double limit : {0., all / 100, all / 3, all - 1}) {
    const double counted = count_messages(c.topology, c.workload, c.placement, {}, limit);
    CHECK(counted > limit);
    CHECK(counted <= all);
  }
  CHECK(count_messages(c.topology, c.workload, c.placement, {}, all) == all);
}

TEST_CASE("auto plays messages out where that is affordable, and what is asked for is done") {
  const auto resolved = [](const Case& c, Fidelity wanted, const TrafficOptions& options = {}) {
    return resolve(wanted, c.topology, c.workload, c.placement, options);
  };
  const Case small(2);
  const Case large(256);
  CHECK(resolved(small, Fidelity::automatic) == TrafficFidelity::message);
  CHECK(resolved(large, Fidelity::automatic) == TrafficFidelity::coupled);
  CHECK(resolved(large, Fidelity::message) == TrafficFidelity::message);
  CHECK(resolved(small, Fidelity::coupled) == TrafficFidelity::coupled);
}

TEST_CASE("auto sees the chunks of a forced tree") {
  // 1 GiB of gradients (one all-reduce among 8 ranks): as rings 2 x 7 x 8 messages a channel; down a tree in LL128
  // chunks of 600 kB at most, on every edge: more than (2^30 / 600000) x 7 x 2.
  Workload w;
  ProgramBuilder builder;
  const StreamId data = builder.stream("data");
  for (int i = 0; i < 64; ++i) {
    builder.collective({CollectiveOp::all_reduce, GroupKindId(0), 1_GiB}, {.stream = data, .label = "gradients"});
  }
  w.programs.push_back(std::move(builder).freeze());
  w.group_kinds = {{"data"}};
  w.role_of.assign(8, RoleId(0));
  w.communicator_of = {std::vector<CommunicatorId>(8, CommunicatorId(0))};
  Communicator all{GroupKindId(0), {}};
  for (std::size_t i = 0; i < 8; ++i) all.ranks.emplace_back(i);
  w.communicators.push_back(all);
  const Topology topology = Topology::build(line_cluster(2, 4, 1e11, 1e10)).value();
  const Placement placement = place_in_order(w);
  const TrafficOptions tree{.algorithm = "tree", .protocol = "ll128"};
  const TrafficOptions ring{.algorithm = "ring", .protocol = "ll128"};
  CHECK(count_messages(topology, w, placement, tree) > 64. * (1 << 30) / 600'000 * 14);
  CHECK(count_messages(topology, w, placement, ring) < 64. * 14 * 8 * 33);
  CHECK(resolve(Fidelity::automatic, topology, w, placement, tree) == TrafficFidelity::coupled);
  CHECK(resolve(Fidelity::automatic, topology, w, placement, ring) == TrafficFidelity::message);
}

}  // namespace
}  // namespace orrery
