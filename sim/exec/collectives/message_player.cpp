#include "sim/exec/collectives/message_player.hpp"

#include "sim/base/check.hpp"

namespace orrery {

std::uint32_t MessagePlayer::take_edges(std::size_t count) {
  std::vector<std::uint32_t>& free = free_edges_[count];
  if (!free.empty()) {
    const std::uint32_t first = free.back();
    free.pop_back();
    return first;
  }
  const auto first = static_cast<std::uint32_t>(edges_.size());
  ORRERY_CHECK(edges_.size() + count < (std::size_t{1} << 31), "edges in flight fit in 31 bits", count);
  edges_.resize(edges_.size() + count);
  return first;
}

void MessagePlayer::set_up(Playing& playing, std::uint32_t index) {
  const Plan& plan = playing.instance->routed->plan();
  playing.lanes.clear();
  playing.phase_bytes.clear();
  playing.undelivered = 0;
  for (std::size_t p = 0; p < plan.phases.size(); ++p) {
    for (const PlanEdge& edge : plan.edges_of(plan.phases[p])) {
      const std::size_t i = playing.lanes.size();
      const std::int64_t total = repetitions_of(edge, playing.instance->phases[p].size);
      edges_[playing.first_edge + i] = {0, 0, total, index, false};
      playing.undelivered += total;
      playing.lanes.push_back(machine_.lane(playing.instance->latencies[i]));
      playing.phase_bytes.push_back(playing.instance->phases[p].message);
    }
  }
}

void MessagePlayer::start(std::uint32_t operation, const CollectiveInstance& instance, const MessageTables& tables) {
  std::uint32_t index = 0;
  if (free_playing_.empty()) {
    index = static_cast<std::uint32_t>(playing_.size());
    playing_.emplace_back();
  } else {
    index = free_playing_.back();
    free_playing_.pop_back();
  }
  const std::size_t count = instance.routed->plan().edges.size();
  const std::uint32_t first = take_edges(count);
  Playing& playing = playing_[index];
  playing.instance = &instance;
  playing.tables = &tables;
  playing.operation = operation;
  playing.first_edge = first;
  set_up(playing, index);
  for (std::size_t i = 0; i < count; ++i) try_send(playing, static_cast<std::uint32_t>(first + i));
}

bool MessagePlayer::may_send(const Playing& playing, std::uint32_t index) const {
  const Edge& edge = edges_[index];
  if (edge.busy || edge.sent == edge.total) return false;
  const Plan& plan = playing.instance->routed->plan();
  const PlanEdge& planned = plan.edges[index - playing.first_edge];
  for (const std::int32_t feeder : plan.feeders_of(planned)) {
    if (edges_[playing.first_edge + static_cast<std::uint32_t>(feeder)].delivered < edge.sent - planned.lag + 1) {
      return false;
    }
  }
  return true;
}

void MessagePlayer::try_send(const Playing& playing, std::uint32_t index) {
  if (!may_send(playing, index)) return;
  Edge& edge = edges_[index];
  const std::uint32_t local = index - playing.first_edge;
  const PlanEdge& planned = playing.instance->routed->plan().edges[local];
  const Bytes bytes = playing.phase_bytes[local];
  if (planned.to_stride == 0) {
    const std::size_t first = playing.tables->first_crossing[local];
    const std::size_t last = playing.tables->first_crossing[local + 1];
    machine_.start_flow(bytes, playing.instance->caps[local],
                        std::span(playing.tables->crossings).subspan(first, last - first), Owner::traffic, index);
  } else {
    UseCounter counter;
    const RoutedPlan& routed = *playing.instance->routed;
    routed.add_uses(planned, edge.sent, routed.path(planned, edge.sent), counter);
    machine_.start_flow(bytes, playing.instance->caps[local], crossings_of(machine_, counter.take(), 1), Owner::traffic,
                        index);
  }
  ++flows_;
  ++edge.sent;
  edge.busy = true;
}

void MessagePlayer::flow_completed(std::uint32_t target) {
  Edge& edge = edges_[target];
  const Playing& playing = playing_[edge.playing];
  edge.busy = false;
  machine_.after(playing.lanes[target - playing.first_edge], Owner::traffic, target);
  try_send(playing, target);
}

std::uint32_t MessagePlayer::delivered(std::uint32_t target) {
  const std::uint32_t index = edges_[target].playing;
  Playing& playing = playing_[index];
  ++edges_[target].delivered;
  --playing.undelivered;
  if (playing.undelivered == 0) return finish(index);
  const std::uint32_t local = target - playing.first_edge;
  const MessageTables& tables = *playing.tables;
  for (std::size_t i = tables.first_dependent[local]; i < tables.first_dependent[local + 1]; ++i) {
    try_send(playing, playing.first_edge + static_cast<std::uint32_t>(tables.dependents[i]));
  }
  return kNone;
}

std::uint32_t MessagePlayer::finish(std::uint32_t index) {
  const Playing& playing = playing_[index];
  free_edges_[playing.instance->routed->plan().edges.size()].push_back(playing.first_edge);
  free_playing_.push_back(index);
  return playing.operation;
}

}  // namespace orrery
