// Rings and chains.
//
// all_reduce, reduce_scatter, all_gather: in round r the member at position p of a channel's ring sends piece p - r of
// the channel's n pieces to the next member, which needs what it received in the round before: lag 1. After n - 1
// rounds of adding up, the member at position p holds the whole sum of piece p + 1; n - 1 rounds of copying hand it
// round (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009). A
// reduce_scatter must leave piece p with position p, so its pieces are numbered one further.
//
// broadcast, reduce: a chain around the ring from (to) member 0, cut into chunks that follow one another.
#include <algorithm>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/exec/collectives/algorithm.hpp"

namespace orrery {

namespace {

Plan rotating_ring(const PlanInput& input) {
  const std::int32_t n = input.members();
  const bool both = input.op == CollectiveOp::all_reduce;
  const std::int64_t rounds = both ? 2 * (n - 1) : n - 1;
  PlanBuilder builder(n, input.channels());
  builder.begin_phase(
      {.chain = Chain::rotating, .share = rounds, .parts = std::int64_t{n} * input.channels(), .repetitions = rounds});
  for (std::int32_t channel = 0; channel < input.channels(); ++channel) {
    const std::vector<std::int32_t>& order = input.orders[static_cast<std::size_t>(channel)];
    const std::int32_t base = channel * n;
    for (std::int32_t p = 0; p < n; ++p) {
      const std::int32_t first = input.op == CollectiveOp::reduce_scatter ? (p + n - 1) % n : p;
      const std::int64_t combine = input.op == CollectiveOp::all_gather ? 0 : n - 1;
      const std::vector<std::int32_t> feeder{base + (p + n - 1) % n};
      builder.add_edge({.from = order[static_cast<std::size_t>(p)],
                        .to = order[static_cast<std::size_t>((p + 1) % n)],
                        .channel = channel,
                        .lag = 1,
                        .content = {first, -1, 1, n, combine}},
                       feeder);
    }
  }
  return std::move(builder).finish();
}

Plan chain(const PlanInput& input) {
  const std::int32_t n = input.members();
  const bool reduces = input.op == CollectiveOp::reduce;
  PlanBuilder builder(n, input.channels());
  builder.begin_phase({.chain = Chain::draining, .share = 1, .parts = input.channels()});
  for (std::int32_t channel = 0; channel < input.channels(); ++channel) {
    std::vector<std::int32_t> order = input.orders[static_cast<std::size_t>(channel)];
    const auto root = std::find(order.begin(), order.end(), 0);
    ORRERY_CHECK(root != order.end(), "every member is on every channel's ring");
    // From the root round the ring, or from the member after it round to the root.
    std::rotate(order.begin(), reduces ? root + 1 : root, order.end());
    std::int32_t previous = -1;
    for (std::int32_t p = 0; p + 1 < n; ++p) {
      const std::vector<std::int32_t> feeder{previous};
      previous = builder.add_edge({.from = order[static_cast<std::size_t>(p)],
                                   .to = order[static_cast<std::size_t>(p + 1)],
                                   .channel = channel,
                                   .content = {0, 1, 1, 0, reduces ? kAlways : 0}},
                                  p == 0 ? std::span<const std::int32_t>() : feeder);
    }
  }
  return std::move(builder).finish();
}

}  // namespace

Plan plan_ring(const PlanInput& input) {
  const bool chains = input.op == CollectiveOp::broadcast || input.op == CollectiveOp::reduce;
  return chains ? chain(input) : rotating_ring(input);
}

}  // namespace orrery
