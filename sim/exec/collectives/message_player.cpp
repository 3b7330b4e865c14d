#include "sim/exec/collectives/message_player.hpp"

#include <algorithm>

#include "sim/base/check.hpp"

namespace orrery {

std::uint32_t MessagePlayer::take_lanes(std::size_t count) {
  std::vector<std::uint32_t>& free = free_lanes_[count];
  if (!free.empty()) {
    const std::uint32_t first = free.back();
    free.pop_back();
    return first;
  }
  const auto first = static_cast<std::uint32_t>(lanes_.size());
  ORRERY_CHECK(lanes_.size() + count < (std::size_t{1} << 31), "lanes in flight fit in 31 bits", count);
  lanes_.resize(lanes_.size() + count);
  return first;
}

void MessagePlayer::set_up(Playing& playing, std::uint32_t index) {
  const CollectiveInstance& instance = *playing.instance;
  const MessageTables& tables = *playing.tables;
  const Plan& plan = instance.routed->plan();
  playing.undelivered = 0;
  std::size_t phase = 0;
  for (std::size_t i = 0; i < tables.lanes(); ++i) {
    const auto e = static_cast<std::size_t>(tables.model[i]);
    const PlanEdge& edge = plan.edges[e];
    while (tables.model[i] >= plan.phases[phase].first_edge + plan.phases[phase].edge_count) ++phase;
    Lane& lane = lanes_[playing.first_lane + i];
    lane = {};
    lane.total = repetitions_of(edge, instance.phases[phase].size);
    lane.bytes = instance.phases[phase].message;
    lane.latency = machine_.lane(instance.latencies[e]);
    lane.lag = edge.lag;
    lane.phase = static_cast<std::uint32_t>(phase);
    lane.playing = index;
    lane.receivers_change = edge.to_stride != 0;
    if (!lane.receivers_change) {
      lane.flow = machine_.keep_flow(instance.caps[e], tables.crossings.of(i), Owner::traffic,
                                     static_cast<std::uint32_t>(playing.first_lane + i));
    }
    playing.undelivered += lane.total;
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
  const std::size_t count = tables.lanes();
  const std::uint32_t first = take_lanes(count);
  Playing& playing = playing_[index];
  playing.instance = &instance;
  playing.tables = &tables;
  playing.operation = operation;
  playing.first_lane = first;
  set_up(playing, index);
  for (std::size_t i = 0; i < count; ++i) try_send(playing, static_cast<std::uint32_t>(first + i));
}

bool MessagePlayer::may_send(const Playing& playing, std::uint32_t index) const {
  const Lane& lane = lanes_[index];
  if (lane.busy || lane.sent == lane.total) return false;
  const std::int64_t needed = lane.sent - lane.lag + 1;
  const std::span<const std::uint32_t> feeders = playing.tables->feeders.of(index - playing.first_lane);
  return std::all_of(feeders.begin(), feeders.end(), [&](std::uint32_t i) {
    const Lane& feeder = lanes_[playing.first_lane + i];
    return feeder.delivered >= (feeder.phase < lane.phase ? feeder.total : needed);
  });
}

void MessagePlayer::try_send(const Playing& playing, std::uint32_t index) {
  if (!may_send(playing, index)) return;
  Lane& lane = lanes_[index];
  if (lane.receivers_change) {
    send_elsewhere(playing, index);
  } else {
    machine_.run_flow(lane.flow, lane.bytes);
  }
  ++flows_;
  ++lane.sent;
  lane.busy = true;
}

// A message of a lane whose receivers change.
void MessagePlayer::send_elsewhere(const Playing& playing, std::uint32_t index) {
  const Lane& lane = lanes_[index];
  const MessageTables& tables = *playing.tables;
  const std::uint32_t local = index - playing.first_lane;
  const Plan& plan = playing.instance->routed->plan();
  const std::int64_t weight = plan.weight(plan.edges[static_cast<std::size_t>(tables.model[local])], lane.sent);
  // Where nothing goes, a byte does: the receiver waits for it all the same.
  const Bytes bytes = weight == 0 ? Bytes(1) : lane.bytes * weight;
  machine_.start_flow(bytes, playing.instance->caps[static_cast<std::size_t>(tables.model[local])],
                      message_crossings(machine_, *playing.instance->routed, tables, local, lane.sent), Owner::traffic,
                      index);
}

void MessagePlayer::flow_completed(std::uint32_t target) {
  Lane& lane = lanes_[target];
  lane.busy = false;
  machine_.after(lane.latency, Owner::traffic, target);
  try_send(playing_[lane.playing], target);
}

std::uint32_t MessagePlayer::delivered(std::uint32_t target) {
  const std::uint32_t index = lanes_[target].playing;
  Playing& playing = playing_[index];
  ++lanes_[target].delivered;
  --playing.undelivered;
  if (playing.undelivered == 0) return finish(index);
  for (const std::uint32_t dependent : playing.tables->dependents.of(target - playing.first_lane)) {
    try_send(playing, playing.first_lane + dependent);
  }
  return kNone;
}

std::uint32_t MessagePlayer::finish(std::uint32_t index) {
  const Playing& playing = playing_[index];
  for (std::size_t i = 0; i < playing.tables->lanes(); ++i) {
    const Lane& lane = lanes_[playing.first_lane + i];
    if (!lane.receivers_change) machine_.discard_flow(lane.flow);
  }
  free_lanes_[playing.tables->lanes()].push_back(playing.first_lane);
  free_playing_.push_back(index);
  return playing.operation;
}

}  // namespace orrery
