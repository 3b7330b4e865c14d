// Direct all-to-all: every member sends its own part to every other member, kLanes receivers at a time, in the order of
// their distance. In each round all members send to the same distance, so that everybody also receives from kLanes
// senders: a sequence of permutations, without feeders.
//
// NCCL puts up to eight point-to-point operations into one unit of work (NCCL_MAX_DEV_WORK_P2P_PER_BATCH in
// src/include/device.h); their channels progress side by side.
#include <algorithm>
#include <numeric>
#include <utility>

#include "sim/exec/collectives/algorithm.hpp"

namespace orrery {

namespace {
constexpr std::int32_t kLanes = 8;
}

Plan plan_pairwise(const PlanInput& input) {
  const std::int32_t n = input.members();
  const std::int32_t lanes = std::min(kLanes, n - 1);
  const std::int32_t rounds = (n - 1 + lanes - 1) / lanes;
  PlanBuilder builder(n, 1);
  if (input.weights.empty()) {
    builder.begin_phase({.chain = Chain::draining, .share = rounds, .parts = n, .repetitions = rounds});
  } else {  // the payload is one part; a message is so many of them as its receiver, or sender, weighs
    const std::int64_t parts = std::accumulate(input.weights.begin(), input.weights.end(), std::int64_t{0});
    builder.begin_phase(
        {.chain = Chain::draining, .share = 1, .parts = std::max<std::int64_t>(1, parts), .repetitions = 1});
    builder.add_weights(input.weights, input.returns);
  }
  for (std::int32_t member = 0; member < n; ++member) {
    for (std::int32_t lane = 0; lane < lanes; ++lane) {
      const std::int32_t length = (n - 1 - lane + lanes - 1) / lanes;
      builder.add_edge({.from = member, .to = (member + lane + 1) % n, .to_stride = lanes, .length = length});
    }
  }
  return std::move(builder).finish();
}

}  // namespace orrery
