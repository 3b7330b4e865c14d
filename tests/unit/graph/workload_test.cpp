// What inconsistencies() finds, one contradiction at a time, in a workload of two ranks that is sound otherwise.
#include "sim/graph/workload.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace orrery;
using namespace orrery::literals;

namespace {

constexpr CollectiveOp kReduce = CollectiveOp::all_reduce;

GroupKindId both() { return GroupKindId(std::size_t{0}); }
PeerKindId other() { return PeerKindId(std::size_t{0}); }

// Two ranks with a program each, a communicator of both, and each other as peer.
Workload pair(ProgramBuilder first, ProgramBuilder second) {
  Workload w;
  w.programs.push_back(std::move(first).freeze());
  w.programs.push_back(std::move(second).freeze());
  const RankId r0(std::size_t{0});
  const RankId r1(std::size_t{1});
  w.role_of = {RoleId(std::size_t{0}), RoleId(std::size_t{1})};
  w.group_kinds = {{"both"}};
  w.communicators = {{both(), {r0, r1}}};
  const CommunicatorId c(std::size_t{0});
  w.communicator_of = {{c, c}};
  w.peer_kinds = {{"other", {r1, r0}}};
  return w;
}

void collective(ProgramBuilder& p, CollectiveOp op, Bytes bytes, std::string_view stream = "data") {
  p.collective({op, both(), bytes}, {.stream = p.stream(stream), .label = "collective"});
}

void transfer(ProgramBuilder& p, bool send, Bytes bytes, std::int32_t tag = 0) {
  const TaskOptions options{.stream = p.stream(send ? "send" : "receive"), .label = "transfer"};
  if (send) {
    p.send({other(), tag, bytes}, options);
  } else {
    p.receive({other(), tag, bytes}, options);
  }
}

void memory(ProgramBuilder& p, Bytes bytes) {
  const MemoryOperation operation{bytes, MemoryTag::activations};
  p.host(Duration::zero(), {.stream = p.stream("host"), .label = "memory", .memory = std::span(&operation, 1)});
}

std::size_t mistakes(ProgramBuilder a, ProgramBuilder b) {
  return inconsistencies(pair(std::move(a), std::move(b))).size();
}

}  // namespace

TEST_CASE("members that issue the same collectives, and transfers that pair up, are consistent") {
  ProgramBuilder a;
  ProgramBuilder b;
  for (ProgramBuilder* p : {&a, &b}) {
    collective(*p, kReduce, 8_B);
    collective(*p, CollectiveOp::all_gather, 16_B);
  }
  transfer(a, true, 4_B);
  transfer(b, false, 4_B);
  memory(a, 10_B);
  memory(a, Bytes(-10));
  CHECK(mistakes(std::move(a), std::move(b)) == 0);
}

TEST_CASE("collectives that differ in operation, size, order or number are found") {
  const auto differ = [](auto&& fill_a, auto&& fill_b) {
    ProgramBuilder a;
    ProgramBuilder b;
    fill_a(a);
    fill_b(b);
    return mistakes(std::move(a), std::move(b));
  };
  const auto small = [](ProgramBuilder& p) { collective(p, kReduce, 8_B); };
  const auto large = [](ProgramBuilder& p) { collective(p, kReduce, 9_B); };
  const auto gather = [](ProgramBuilder& p) { collective(p, CollectiveOp::all_gather, 8_B); };
  const auto small_large = [&](ProgramBuilder& p) { small(p), large(p); };
  const auto large_small = [&](ProgramBuilder& p) { large(p), small(p); };
  CHECK(differ(small, small) == 0);
  CHECK(differ(small, large) == 1);
  CHECK(differ(small, gather) == 1);
  CHECK(differ(small, small_large) == 1);
  CHECK(differ(small_large, large_small) == 1);
}

TEST_CASE("the message names the first collective that differs") {
  ProgramBuilder a;
  ProgramBuilder b;
  collective(a, kReduce, 8_B);
  collective(b, kReduce, 8_B);
  collective(a, kReduce, 8_B);
  const auto found = inconsistencies(pair(std::move(a), std::move(b)));
  REQUIRE(found.size() == 1);
  CHECK(found[0] == "communicator 0 (both): collective 1 of rank 0 is all_reduce of 8 B, of rank 1 missing");
}

TEST_CASE("one communicator on two streams has no order, and is found") {
  ProgramBuilder a;
  ProgramBuilder b;
  for (ProgramBuilder* p : {&a, &b}) {
    collective(*p, kReduce, 8_B, "data");
    collective(*p, kReduce, 8_B, "tensor");
  }
  CHECK(mistakes(std::move(a), std::move(b)) == 2);  // once per role
}

TEST_CASE("sends without receives, and sizes or tags that differ, are found") {
  const auto send_receive = [](Bytes sent, std::int32_t sent_tag, Bytes received, std::int32_t received_tag) {
    ProgramBuilder a;
    ProgramBuilder b;
    transfer(a, true, sent, sent_tag);
    transfer(b, false, received, received_tag);
    return mistakes(std::move(a), std::move(b));
  };
  CHECK(send_receive(4_B, 0, 4_B, 0) == 0);
  CHECK(send_receive(4_B, 0, 5_B, 0) == 1);
  CHECK(send_receive(4_B, 0, 4_B, 1) == 2);
  ProgramBuilder a;
  transfer(a, true, 4_B);
  CHECK(mistakes(std::move(a), ProgramBuilder()) == 1);
}

TEST_CASE("a rank without the peer or the communicator it speaks to is found") {
  ProgramBuilder a;
  ProgramBuilder b;
  transfer(a, true, 4_B);
  transfer(b, false, 4_B);
  Workload w = pair(std::move(a), std::move(b));
  w.peer_kinds[0].of[0] = RankId();
  CHECK(inconsistencies(w).size() == 2);  // rank 0 has no peer; rank 1's receive is left alone
  ProgramBuilder c;
  ProgramBuilder d;
  collective(c, kReduce, 8_B);
  collective(d, kReduce, 8_B);
  w = pair(std::move(c), std::move(d));
  w.communicator_of[0][1] = CommunicatorId();
  CHECK(inconsistencies(w).size() == 1);
}

TEST_CASE("memory that is freed before it is allocated, or never freed, is found") {
  ProgramBuilder early;
  memory(early, Bytes(-1));
  memory(early, 1_B);
  CHECK(mistakes(std::move(early), ProgramBuilder()) == 1);
  ProgramBuilder kept;
  memory(kept, 1_B);
  CHECK(mistakes(std::move(kept), ProgramBuilder()) == 1);
}
