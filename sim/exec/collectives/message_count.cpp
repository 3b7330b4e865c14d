#include "sim/exec/collectives/message_count.hpp"

namespace orrery {

std::int64_t MessageCounter::messages(CollectiveOp op, Bytes bytes) {
  if (layout_.members() < 2 || bytes.count() == 0) return 0;
  const TuningChoice choice = choose(layout_, op, bytes, request_);
  const std::int32_t rings = rings_for(layout_, choice);
  const auto [where, fresh] = plans_.try_emplace({op, choice.algorithm, rings});
  if (fresh) where->second = choice.algorithm->plan(plan_input(layout_, op, rings));
  return totals_of(where->second, bytes, chunks_for(layout_, choice, request_.buffer)).messages;
}

}  // namespace orrery
