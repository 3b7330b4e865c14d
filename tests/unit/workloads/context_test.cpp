// Context parallelism: what ranks compute and say to one another, against counts by hand and the papers' formulas.
#include "workloads/context/context.hpp"

#include <doctest/doctest.h>
#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "tests/unit/workloads/plans.hpp"
#include "tests/unit/workloads/untimed.hpp"
#include "tests/unit/workloads/work.hpp"
#include "workloads/build.hpp"

using namespace orrery;
using namespace orrery::testing;

namespace {

constexpr std::int64_t kSequence = 64;

ModelSpec model() { return llama(2, 64, 8, 8, 96, 128); }

ParallelismSpec split(std::int64_t context, const std::string& kind, bool zig_zag = true, std::int64_t tensor = 1) {
  ParallelismSpec p = parallel(tensor, 1, tensor > 1);
  p.context = context;
  p.context_kind.kind = kind;
  if (!zig_zag) p.context_kind.options["zig_zag"] = false;
  return p;
}

Workload built(const ModelSpec& m, const TrainingSpec& t, const ParallelismSpec& p, std::int64_t ranks) {
  Result<Workload> workload = build_workload(m, t, p, ranks);
  REQUIRE_MESSAGE(workload.ok(), to_string(workload.problems()));
  return std::move(workload).value();
}

// Every kind and both orders of the sequence.
std::vector<ParallelismSpec> all_kinds(std::int64_t context, std::int64_t tensor = 1) {
  std::vector<ParallelismSpec> plans;
  for (const RegistryRow& row : context_rows()) {
    plans.push_back(split(context, std::string(row.name), true, tensor));
    if (!row.options.empty()) plans.push_back(split(context, std::string(row.name), false, tensor));
  }
  return plans;
}

}  // namespace

TEST_CASE("every way to split a sequence builds a workload that agrees with itself and ends") {
  for (const std::int64_t tensor : {1, 2}) {
    for (const std::int64_t context : {2, 4}) {
      for (ParallelismSpec& p : all_kinds(context, tensor)) {
        for (const Recompute recompute : {Recompute::none, Recompute::selective, Recompute::full}) {
          CAPTURE(p.context_kind.kind);
          CAPTURE(context);
          TrainingSpec t = training(kSequence, 4);
          t.recompute = recompute;
          const Workload w = built(model(), t, p, 2 * tensor * context);
          const std::vector<std::string> found = inconsistencies(w);
          CHECK_MESSAGE(found.empty(), found.front());
          CHECK(UntimedRun(w).deadlock() == "");
        }
      }
    }
  }
}

TEST_CASE("ranks together compute what one would, whatever the degree and the kind") {
  const TrainingSpec t = training(kSequence, 4);
  const Workload whole = built(model(), t, parallel(1), 1);
  for (const std::int64_t context : {2, 4, 8}) {
    for (const ParallelismSpec& p : all_kinds(context)) {
      CAPTURE(p.context_kind.kind);
      CAPTURE(context);
      const Workload w = built(model(), t, p, context);
      for (const KernelKind kind : {KernelKind::gemm, KernelKind::attention_forward, KernelKind::attention_backward}) {
        CHECK(flops_of(w, kind) == flops_of(whole, kind));
      }
      CHECK(w.model_flops == whole.model_flops);
    }
  }
}

TEST_CASE("context ranks are replicas of the model: gradients are reduced over data and context") {
  const Workload w = built(model(), training(kSequence, 4), split(4, "ring"), 8);
  const auto kind =
      std::find_if(w.group_kinds.begin(), w.group_kinds.end(), [](const GroupKind& k) { return k.name == "data"; });
  REQUIRE(kind != w.group_kinds.end());
  const auto index = static_cast<std::size_t>(kind - w.group_kinds.begin());
  CHECK(w.communicators[w.communicator_of[index][0].index()].ranks.size() == 8);
}

TEST_CASE("a ring passes keys and values degree - 1 times, and their gradients as often") {
  // Keys and values of a rank and layer: 2 x 64/P tokens x 64 columns x 2 bytes. Forward P - 1 of them; backward as
  // many and as many gradients. Two layers, one micro-batch.
  for (const std::int64_t p : {2, 4, 8}) {
    const Workload w = built(model(), training(kSequence, 1), split(p, "ring"), p);
    const std::int64_t kv = 2 * (kSequence / p) * 64 * 2;
    CHECK(sent_by(w, 0, Phase::forward) == 2 * (p - 1) * kv);
    CHECK(sent_by(w, 0, Phase::backward) == 2 * 2 * (p - 1) * kv);
  }
}

TEST_CASE("all-to-alls of heads send 4 N h / P a rank and layer, a ring's neighbours 2 N h (P - 1) / P") {
  // Jacobs et al. 2023, section 3.2: queries, keys, values and the output, N h / P elements each; of each, (P - 1) / P
  // leave the rank. Backward as much again. Ring: N h / P elements of keys and of values, P - 1 times.
  for (const std::int64_t p : {2, 4, 8}) {
    const Workload w = built(model(), training(kSequence, 1), split(p, "ulysses"), p);
    const std::int64_t tensor = kSequence / p * 64 * 2;
    CHECK(collective_bytes(w, 0, CollectiveOp::all_to_all, Phase::forward) == 2 * 4 * tensor);
    CHECK(collective_bytes(w, 0, CollectiveOp::all_to_all, Phase::backward) == 2 * 4 * tensor);
    const Workload ring = built(model(), training(kSequence, 1), split(p, "ring"), p);
    CHECK(sent_by(ring, 0, Phase::forward) * 2 * (p - 1) ==
          collective_bytes(w, 0, CollectiveOp::all_to_all, Phase::forward) * (p - 1) * (p - 1));
  }
}

TEST_CASE("gathered attention gathers keys and values twice and scatters their gradients once") {
  // Over the whole sequence: 64 tokens x 64 columns x 2 bytes, of keys and of values, in each of two layers.
  const std::int64_t both = 2 * kSequence * 64 * 2;
  for (const std::int64_t p : {2, 4}) {
    const Workload w = built(model(), training(kSequence, 1), split(p, "all-gather"), p);
    CHECK(collective_bytes(w, 0, CollectiveOp::all_gather, Phase::forward) == 2 * both);
    CHECK(collective_bytes(w, 0, CollectiveOp::all_gather, Phase::backward) == 2 * both);
    CHECK(collective_bytes(w, 0, CollectiveOp::reduce_scatter, Phase::backward) == 2 * both);
  }
}

TEST_CASE("zig-zag gives every rank the same work, contiguous parts the last one the most") {
  // Contiguous parts: rank r has r full squares and a half, of the P^2 / 2 halves that there are.
  const std::int64_t p = 4;
  const Workload even = built(model(), training(kSequence, 1), split(p, "ring"), p);
  CHECK(even.programs.size() == 1);
  for (const char* kind : {"ring", "all-gather"}) {
    CAPTURE(kind);
    const Workload w = built(model(), training(kSequence, 1), split(p, kind, false), p);
    REQUIRE(w.programs.size() == 4);
    const double all = flops_of(w, KernelKind::attention_forward);
    for (std::size_t r = 0; r < 4; ++r) {
      CHECK(program_flops_of(w, w.programs[w.role_of[r].index()], KernelKind::attention_forward) ==
            all * (2 * static_cast<double>(r) + 1) / 16);
    }
  }
}

TEST_CASE("ring attention's kernels have the rectangles of Transformer Engine") {
  // Rank 2 of 4, as all are taken to be, with chunks of 8: the causal square of its 16 tokens, two steps of all its
  // queries with half the keys, one of half its queries with all keys. 8 heads.
  const Workload w = built(model(), training(kSequence, 1), split(4, "ring"), 4);
  std::map<std::pair<std::int64_t, std::int64_t>, int> shapes;
  for_each_kernel(w, w.programs[0], [&](const Kernel& k) {
    if (k.kind != KernelKind::attention_forward) return;
    CHECK(k.batch == 8);
    CHECK(k.causal == (k.m == k.n));
    ++shapes[{k.m, k.n}];
  });
  CHECK(shapes == std::map<std::pair<std::int64_t, std::int64_t>, int>{{{16, 16}, 2}, {{16, 8}, 4}, {{8, 16}, 2}});
}

TEST_CASE("sequences and heads that cannot be split are refused with what can") {
  const auto problem = [&](const ParallelismSpec& p, std::int64_t sequence) {
    const Problems found = check_plan(model(), training(sequence, 4), p, 4);
    return found.empty() ? Problem{} : found[0];
  };
  CHECK(problem(split(4, "ring"), 60).note == "nearest valid: 56, 64");
  CHECK(problem(split(4, "ring", false), 60).message.empty());
  ModelSpec few = llama(2, 64, 8, 2, 96, 128);
  const Problems heads = check_plan(few, training(64, 4), split(4, "ulysses"), 4);
  REQUIRE(heads.size() == 1);
  CHECK(heads[0].key == "parallelism.context");
  CHECK(heads[0].note == "nearest valid: 2");
  TrainingSpec plain = training(64, 4);
  plain.attention = AttentionKind::plain;
  CHECK(check_plan(model(), plain, split(4, "ring"), 4).size() == 1);
}
