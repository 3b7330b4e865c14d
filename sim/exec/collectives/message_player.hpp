// Plays collectives message by message: every (edge, repetition) is a flow of its own, released as plan.hpp says, and
// delivered a latency after it has left. A lane (an edge, or folded a class of edges alike) sends one message at a
// time: its flow is made when the operation begins and started again for each.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <vector>

#include "sim/exec/collectives/communicator.hpp"
#include "sim/exec/machine.hpp"

namespace orrery {

class MessagePlayer {
 public:
  explicit MessagePlayer(Machine& machine) : machine_(machine) {}

  // Begins to play; `operation` is the caller's number for it. The pointers must stay valid until the end.
  void start(std::uint32_t operation, const CollectiveInstance& instance, const MessageTables& tables);

  // A message of the lane with this target has left.
  void flow_completed(std::uint32_t target);

  // A message of the lane with this target was delivered. If that was the operation's last, its number is returned,
  // otherwise kNone.
  static constexpr std::uint32_t kNone = 0xffffffff;
  std::uint32_t delivered(std::uint32_t target);

  [[nodiscard]] std::int64_t flows() const { return flows_; }

 private:
  // All that a message needs, side by side.
  struct Lane {
    std::int64_t sent = 0;
    std::int64_t delivered = 0;
    std::int64_t total = 0;
    Bytes bytes{};              // of each message
    ActivityId flow;            // kept, unless receivers change
    LaneId latency;             // of the event queue
    std::int32_t lag = 0;       // of feeders
    std::uint32_t playing = 0;  // index into playing_
    std::uint32_t phase = 0;
    bool busy = false;
    bool receivers_change = false;
  };
  struct Playing {
    const CollectiveInstance* instance = nullptr;
    const MessageTables* tables = nullptr;
    std::uint32_t operation = 0;
    std::uint32_t first_lane = 0;
    std::int64_t undelivered = 0;
  };

  std::uint32_t take_lanes(std::size_t count);
  void set_up(Playing& playing, std::uint32_t index);
  [[nodiscard]] bool may_send(const Playing& playing, std::uint32_t index) const;
  void try_send(const Playing& playing, std::uint32_t index);
  void send_elsewhere(const Playing& playing, std::uint32_t index);
  std::uint32_t finish(std::uint32_t index);

  Machine& machine_;
  std::vector<Lane> lanes_;
  std::vector<Playing> playing_;
  std::vector<std::uint32_t> free_playing_;
  std::map<std::size_t, std::vector<std::uint32_t>> free_lanes_;  // blocks by size
  std::int64_t flows_ = 0;
};

}  // namespace orrery
