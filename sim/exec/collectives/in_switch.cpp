// In-network all_reduce on an NVSwitch (NVLS, "NVLink SHARP"): the switch adds up what all members hold and multicasts
// the sum, so that every byte crosses a GPU's link once each way whatever n, where a ring needs 2(n-1)/n.
//
// Each member owns one n-th of the buffer. It asks the switch for its part (the switch reads it from all members and
// adds up) and stores the sum back to all. A member's link therefore carries, per byte of the buffer, 1 + 1/n bytes out
// (its buffer, for the owners, and its own part's sum) and as many in: the bytes of this plan are those of the buffer
// plus an n-th. Chunks follow one another: when the members' r-th chunk is in the switch, its sum goes out.
#include <utility>
#include <vector>

#include "sim/exec/collectives/algorithm.hpp"

namespace orrery {

Plan plan_in_switch(const PlanInput& input) {
  const std::int32_t n = input.members();
  PlanBuilder builder(n, input.channels());
  builder.begin_phase({.chain = Chain::draining, .share = n + 1, .parts = std::int64_t{n} * input.channels()});
  for (std::int32_t channel = 0; channel < input.channels(); ++channel) {
    std::vector<std::int32_t> up;
    for (std::int32_t member = 0; member < n; ++member) {
      up.push_back(
          builder.add_edge({.from = member, .to = kSwitch, .channel = channel, .content = {0, 1, 1, 0, kAlways}}));
    }
    for (std::int32_t member = 0; member < n; ++member) {
      builder.add_edge({.from = kSwitch, .to = member, .channel = channel, .content = {0, 1, 1, 0, 0}}, up);
    }
  }
  return std::move(builder).finish();
}

}  // namespace orrery
