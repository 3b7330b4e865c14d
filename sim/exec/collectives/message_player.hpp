// Plays collectives message by message: every (edge, repetition) is a flow of its own, released as plan.hpp says, and
// delivered a latency after it has left. The state of an edge is two counters and a flag.
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

  // A message of the edge with this target has left.
  void flow_completed(std::uint32_t target);

  // A message of the edge with this target was delivered. If that was the operation's last, its number is returned,
  // otherwise kNone.
  static constexpr std::uint32_t kNone = 0xffffffff;
  std::uint32_t delivered(std::uint32_t target);

  [[nodiscard]] std::int64_t flows() const { return flows_; }

 private:
  struct Edge {
    std::int64_t sent = 0;
    std::int64_t delivered = 0;
    std::int64_t total = 0;
    std::uint32_t playing = 0;  // index into playing_
    bool busy = false;
  };
  struct Playing {
    const CollectiveInstance* instance = nullptr;
    const MessageTables* tables = nullptr;
    std::uint32_t operation = 0;
    std::uint32_t first_edge = 0;
    std::int64_t undelivered = 0;
    std::vector<LaneId> lanes;       // [edges] for the edge's latency
    std::vector<Bytes> phase_bytes;  // [edges]
  };

  std::uint32_t take_edges(std::size_t count);
  void set_up(Playing& playing, std::uint32_t index);
  [[nodiscard]] bool may_send(const Playing& playing, std::uint32_t index) const;
  void try_send(const Playing& playing, std::uint32_t index);
  std::uint32_t finish(std::uint32_t index);

  Machine& machine_;
  std::vector<Edge> edges_;
  std::vector<Playing> playing_;
  std::vector<std::uint32_t> free_playing_;
  std::map<std::size_t, std::vector<std::uint32_t>> free_edges_;  // blocks by size
  std::int64_t flows_ = 0;
};

}  // namespace orrery
