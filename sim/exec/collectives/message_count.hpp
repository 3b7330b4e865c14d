// How many messages the operations of a communicator are, told before anything runs: layout, choice and plan are those
// of the run, but nothing is routed.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>

#include "sim/exec/collectives/tuning.hpp"

namespace orrery {

class MessageCounter {
 public:
  // At least one member.
  MessageCounter(const Topology& topology, std::span<const GpuId> members, const TuningRequest& request)
      : layout_(lay_out(topology, members)), request_(request) {}

  // As many as the run counts, at either fidelity. O(edges of the plan); the plan is kept for the next size.
  [[nodiscard]] std::int64_t messages(CollectiveOp op, Bytes bytes);

 private:
  CommunicatorLayout layout_;
  TuningRequest request_;
  std::map<std::tuple<CollectiveOp, const CollectiveAlgorithm*, std::int32_t>, Plan> plans_;  // by rings
};

// No operation over n members is fewer messages than this: everybody but one hears something, or is heard.
[[nodiscard]] constexpr std::int64_t least_messages(std::int64_t members) { return members > 1 ? members - 1 : 0; }

}  // namespace orrery
