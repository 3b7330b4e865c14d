// Tensor-parallel communication in chunks beside its products: the same bytes and FLOPs as without, in other pieces.
#include "workloads/operators/tensor_overlap.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>

#include "tests/unit/workloads/plans.hpp"
#include "tests/unit/workloads/played_ledger.hpp"
#include "tests/unit/workloads/shardings.hpp"
#include "tests/unit/workloads/untimed.hpp"
#include "tests/unit/workloads/work.hpp"
#include "workloads/build.hpp"
#include "workloads/layer.hpp"
#include "workloads/schedules/schedule.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

Workload built(const ModelSpec& model, const TrainingSpec& t, const ParallelismSpec& p, std::int64_t ranks) {
  Result<Workload> result = build_workload(model, t, p, ranks);
  REQUIRE_MESSAGE(result.ok(), to_string(result.problems()));
  return std::move(result).value();
}

ParallelismSpec overlapped(ParallelismSpec p, bool rs_dgrad = false) {
  p.sequence_parallel = true;
  p.tp_comm_overlap = true;
  p.tp_comm_overlap_rs_dgrad = rs_dgrad;
  return p;
}

// What one rank sends to others of its tensor group, if each gather and reduce-scatter of n bytes over t ranks sends
// (t - 1) / t n, an all-reduce twice that, and transfers what they carry. All passes.
std::int64_t tensor_bytes(const Workload& w, std::size_t rank, std::int64_t t) {
  const Program& program = w.programs[w.role_of[rank].index()];
  std::int64_t sum = 0;
  for (const Task& task : program.tasks()) {
    if (task.kind == TaskKind::send) {
      const TransferCall& call = program.transfer(task);
      if (w.peer_kinds[call.peer.index()].name == "tensor_next") sum += call.bytes.count();
    } else if (task.kind == TaskKind::collective) {
      const CollectiveCall& call = program.collective(task);
      if (w.group_kinds[call.group.index()].name != "tensor") continue;
      sum += call.bytes.count() * (t - 1) / t * (call.op == CollectiveOp::all_reduce ? 2 : 1);
    }
  }
  return sum;
}

std::int64_t count(const std::vector<Step>& steps, Step::Kind kind) {
  return std::count_if(steps.begin(), steps.end(), [&](const Step& s) { return s.kind == kind; });
}

// Of a layer of a GPT on four tensor ranks, 32 tokens.
OperatorShape layer_shape(bool rs_dgrad = false) {
  OperatorShape shape;
  shape.model = gpt(1, 64, 4, 512, 128);
  shape.sequence = 32;
  shape.micro_batch = 1;
  shape.tensor = 4;
  shape.sequence_parallel = true;
  shape.storage = storage_format(PrecisionRecipe::bf16, false);
  shape.tensor_group = GroupKindId(std::size_t{0});
  shape.overlap = {true, true, rs_dgrad, !rs_dgrad, PeerKindId(std::size_t{0}), PeerKindId(std::size_t{1})};
  return shape;
}

// How often the host goes through the framework for kernels, through a communication library, and how many launches
// more there are within calls. An exchange is two communications.
struct Issued {
  std::int64_t calls = 0;
  std::int64_t communications = 0;
  std::int64_t within = 0;

  friend bool operator==(const Issued&, const Issued&) = default;
};

Issued issued(const KernelPool& pool, const std::vector<Step>& steps) {
  Issued sum;
  const auto add = [&](Issue issue) {
    ++(issue == Issue::alone ? sum.communications : issue == Issue::opens_call ? sum.calls : sum.within);
  };
  for (const Step& step : steps) {
    if (step.kind == Step::Kind::kernel) ++(pool[step.kernel].within_call ? sum.within : sum.calls);
    if (step.kind == Step::Kind::collective) add(step.issue);
    if (step.kind != Step::Kind::exchange) continue;
    add(step.issue);
    ++sum.within;
  }
  return sum;
}

}  // namespace

TEST_CASE("overlapped communication sends the same bytes and computes the same FLOPs") {
  for (const std::int64_t t : {2, 4}) {
    for (const Recompute recompute : {Recompute::none, Recompute::full}) {
      for (const bool fused : {false, true}) {
        for (const bool rs_dgrad : {false, true}) {
          CAPTURE(fmt::format("t{} {} fused {} rs_dgrad {}", t, static_cast<int>(recompute), fused, rs_dgrad));
          const ModelSpec model = fused ? gpt(2, 64, 4, 512, 128) : llama(2, 64, 4, 4, 96, 512);
          TrainingSpec training_spec = training(32, 4, 2);
          training_spec.recompute = recompute;
          training_spec.framework.fused_kernels = fused;
          const Workload plain = built(model, training_spec, parallel(t, 1, true), t);
          const Workload with = built(model, training_spec, overlapped(parallel(t), rs_dgrad), t);
          CHECK(tensor_bytes(with, 0, t) == tensor_bytes(plain, 0, t));
          CHECK(with.hardware_flops == plain.hardware_flops);
          CHECK(flops_of(with, KernelKind::gemm) == flops_of(plain, KernelKind::gemm));
        }
      }
    }
  }
}

TEST_CASE("a gather is t - 1 exchanges of 1/t beside t products of 1/t of the rows") {
  KernelPool pool;
  const Block block = transformer_layer(pool, layer_shape(), Recompute::none);
  // Forward: two gathers, and two reduce-scatters in four pieces each.
  CHECK(count(block.forward, Step::Kind::exchange) == 2 * 3);
  CHECK(count(block.forward, Step::Kind::collective) == 2 * 4);
  // Backward: the gathers of two gradients; two gathers of inputs and two reduce-scatters stay beside whole products.
  CHECK(count(block.backward, Step::Kind::exchange) == 2 * 3);
  CHECK(count(block.backward, Step::Kind::collective) == 4);
  std::map<std::string, std::int64_t> rows;
  std::map<std::string, int> pieces;
  for (const Step& step : block.forward) {
    if (step.kind != Step::Kind::kernel || pool[step.kernel].kind != KernelKind::gemm) continue;
    rows[pool[step.kernel].name] = pool[step.kernel].m;
    ++pieces[pool[step.kernel].name];
  }
  CHECK(rows["qkv.forward"] == 8);
  CHECK(pieces["qkv.forward"] == 4);
  CHECK(rows["attention_output.forward"] == 32);  // pipelined along its columns
  CHECK(pieces["attention_output.forward"] == 4);
  for (const Step& step : block.forward) {
    if (step.kind == Step::Kind::exchange) CHECK(step.exchange.bytes == Bytes(8 * 64 * 2));
    if (step.kind == Step::Kind::collective) CHECK(step.call.bytes == Bytes(32 * 16 * 2));
  }
  // The first exchange is under way before the first product, and each product but the last runs beside one.
  const auto first = std::find_if(block.forward.begin(), block.forward.end(),
                                  [](const Step& s) { return s.kind == Step::Kind::exchange; });
  REQUIRE(first != block.forward.end());
  CHECK((first + 1)->kind == Step::Kind::kernel);
  CHECK(pool[(first + 1)->kernel].name == "qkv.forward");
}

TEST_CASE("one call issues all chunks of a product, and bulk communication with the product beside it") {
  KernelPool pool;
  const Block plain = transformer_layer(pool, without_overlap(layer_shape()), Recompute::none);
  const Block with = transformer_layer(pool, layer_shape(), Recompute::none);
  const Issued forward = issued(pool, plain.forward);
  const Issued backward = issued(pool, plain.backward);
  // Two gathers and two reduce-scatters forward; backward, inputs are gathered again.
  CHECK(forward.communications == 4);
  CHECK(backward.communications == 6);
  CHECK(forward.within + backward.within == 0);
  // A ring of four ranks is four products and three exchanges, ten launches, one of which opens the call; a pipeline
  // has four products and four reduce-scatters. As many calls as before, and no communication by itself.
  CHECK(issued(pool, with.forward) == Issued{forward.calls, 0, 2 * 9 + 2 * 7});
  // Backward: two rings, and two gathers and two reduce-scatters of whole inputs.
  CHECK(issued(pool, with.backward) == Issued{backward.calls, 0, 2 * 9 + 4});
  CHECK(issued(pool, with.backward_input) == Issued{issued(pool, plain.backward_input).calls, 0, 2 * 9 + 2});
  // With pipelined input gradients inputs are gathered by the communication library.
  const Block rs_dgrad = transformer_layer(pool, layer_shape(true), Recompute::none);
  CHECK(issued(pool, rs_dgrad.backward) == Issued{backward.calls, 2, 2 * 9 + 2 * 7});
}

TEST_CASE("ring neighbours are of one tensor group") {
  const Workload w = built(gpt(4, 64, 4, 512, 128), training(32, 8), overlapped(parallel(4, 2)), 16);
  int kinds = 0;
  for (const PeerKind& kind : w.peer_kinds) {
    if (kind.name.rfind("tensor_", 0) != 0) continue;
    ++kinds;
    const std::size_t step = kind.name == "tensor_next" ? 1 : 3;
    for (std::size_t rank = 0; rank < 16; ++rank) {
      CHECK(kind.of[rank].index() == rank / 4 * 4 + (rank % 4 + step) % 4);
    }
  }
  CHECK(kinds == 2);
}

TEST_CASE("user buffers are there throughout the step, and gathered inputs lie in them") {
  // Ten of [tokens, hidden] in 16 bits.
  const ModelSpec model = gpt(2, 64, 4, 512, 128);
  const Workload w = built(model, training(32, 4, 2), overlapped(parallel(2)), 2);
  std::int64_t buffers = 0;
  for (const MemoryOperation& m : w.programs[0].resident_memory()) {
    if (m.tag == MemoryTag::communication_buffers) buffers += m.bytes.count();
  }
  CHECK(buffers == 10 * 64 * 64 * 2);
}

TEST_CASE("overlap agrees with every schedule and sharding") {
  int played = 0;
  std::size_t turn = 0;
  for (const RegistryRow& schedule : schedule_rows()) {
    for (const RegistryRow& sharding : sharding_rows()) {
      for (const std::int64_t pipeline : {1, 2, 4}) {
        const ScheduleRow& row = *find_schedule(schedule.name);
        if (row.slots == nullptr || !fits(row, pipeline, 8) || (row.chunks == 0 && pipeline == 1)) continue;
        const ModelSpec model = turn % 2 == 0 ? gpt(8, 64, 4, 512, 128) : llama(8, 64, 4, 2, 96, 512);
        TrainingSpec t = training(32, 16, 1);
        t.recompute = static_cast<Recompute>(turn % 3);
        t.framework.fused_kernels = turn % 7 < 4;
        t.framework.autocast = turn % 11 < 4;
        ParallelismSpec plan = overlapped(parallel(2, pipeline), turn % 3 == 0);
        plan.tp_comm_overlap_ag = turn % 5 != 1;
        plan.tp_comm_overlap_rs = turn % 5 != 2;
        plan.schedule.kind = schedule.name;
        plan.sharding.kind = sharding.name;
        ++turn;
        CAPTURE(fmt::format("{} {} p{} turn {}", schedule.name, sharding.name, pipeline, turn - 1));
        const Result<Workload> w = build_workload(model, t, plan, 4 * pipeline);
        if (!w.ok() && only_sharding(w.problems())) continue;
        REQUIRE_MESSAGE(w.ok(), to_string(w.problems()));
        ++played;
        const std::vector<std::string> found = inconsistencies(*w);
        CHECK_MESSAGE(found.empty(), found.front());
        CHECK(UntimedRun(*w).deadlock() == "");
        for (const Program& program : w->programs) CHECK(play_ledger(program).fault == "");
      }
    }
  }
  CHECK(played >= 50);
}

TEST_CASE("overlap without sequence parallelism is refused; with one tensor rank there is nothing to overlap") {
  const ModelSpec model = gpt(2, 64, 4, 512, 128);
  ParallelismSpec plan = parallel(2);
  plan.tp_comm_overlap = true;
  Problems problems = check_plan(model, training(32, 4), plan, 2);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].key == "parallelism.tp_comm_overlap");
  plan = parallel(2, 1, true);
  plan.tp_comm_overlap_rs_dgrad = true;
  problems = check_plan(model, training(32, 4), plan, 2);
  REQUIRE(problems.size() == 1);
  CHECK(problems[0].key == "parallelism.tp_comm_overlap_rs_dgrad");
  CHECK(built(model, training(32, 4), overlapped(parallel(1)), 2).peer_kinds.empty());
}
