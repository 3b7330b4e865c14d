#include "sim/study/fidelity.hpp"

#include <doctest/doctest.h>

using namespace orrery;

namespace {

// `ranks` ranks in one group that all-reduce once and all-gather `gathers` times.
Workload group_of(int ranks, int gathers) {
  Workload w;
  ProgramBuilder builder;
  const StreamId data = builder.stream("data");
  builder.collective({CollectiveOp::all_reduce, GroupKindId(0), Bytes(1024)}, {.stream = data, .label = "exchange"});
  for (int i = 0; i < gathers; ++i) {
    builder.collective({CollectiveOp::all_gather, GroupKindId(0), Bytes(1024)}, {.stream = data, .label = "exchange"});
  }
  w.programs.push_back(std::move(builder).freeze());
  w.group_kinds = {{"data"}};
  w.role_of.assign(static_cast<std::size_t>(ranks), RoleId(0));
  w.communicator_of = {std::vector<CommunicatorId>(static_cast<std::size_t>(ranks), CommunicatorId(0))};
  Communicator all{GroupKindId(0), {}};
  for (int i = 0; i < ranks; ++i) all.ranks.push_back(RankId(i));
  w.communicators.push_back(all);
  return w;
}

}  // namespace

TEST_CASE("messages are those of rings") {
  // All-reduce: 2 x 3 each for 4 ranks; two all-gathers: 3 each: (6 + 6) x 4.
  CHECK(estimated_messages(group_of(4, 2)) == 48);
  CHECK(estimated_messages(group_of(1, 2)) == 0);
}

TEST_CASE("auto plays messages out where that is affordable, and what is asked for is done") {
  const Workload small = group_of(8, 1);
  const Workload large = group_of(1024, 10);  // (2 + 10) x 1023 x 1024 = 12.6 million
  CHECK(resolve(Fidelity::automatic, small) == TrafficFidelity::message);
  CHECK(resolve(Fidelity::automatic, large) == TrafficFidelity::coupled);
  CHECK(resolve(Fidelity::message, large) == TrafficFidelity::message);
  CHECK(resolve(Fidelity::coupled, small) == TrafficFidelity::coupled);
}
