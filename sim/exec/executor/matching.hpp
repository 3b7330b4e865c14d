// Brings the sides of a communication together: members of a collective, sender and receiver of a transfer.
//
// The k-th collective of a member on a communicator meets the k-th of the others; it may begin when the last of them
// has arrived. A send meets the receive that its peer posts on the same channel (ordered pair of ranks) with the same
// tag, in order. Few operations are open at once on one communicator or channel, at most one per stream and rank, so
// they are kept in a short list and found by looking through it: O(1) for what programs do, and nothing is hashed.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/check.hpp"
#include "sim/base/units.hpp"

namespace orrery {

struct Operation {
  static constexpr std::uint32_t kNone = 0xffffffff;

  std::uint32_t place = 0;  // group, or channel
  std::uint32_t next = kNone;
  bool collective = false;
  bool active = false;

  // Collective.
  std::uint32_t ordinal = 0;
  std::uint32_t call = 0;
  std::uint32_t arrived = 0;

  // Transfer. The tasks of both sides; kNone: not posted yet.
  std::uint32_t send_task = kNone;
  std::uint32_t receive_task = kNone;
  std::int32_t tag = 0;
  Bytes bytes{};
};

class Matcher {
 public:
  Matcher(std::size_t groups, std::size_t channels)
      : open_on_group_(groups, Operation::kNone), open_on_channel_(channels, Operation::kNone) {}

  // `count` members arrive at the ordinal-th collective of a group. Returns the operation; it is complete when
  // arrived equals the group's size.
  std::uint32_t arrive(std::uint32_t group, std::uint32_t ordinal, std::uint32_t call, std::uint32_t count) {
    std::uint32_t id = open_on_group_[group];
    while (id != Operation::kNone && (operations_[id].active || operations_[id].ordinal != ordinal)) {
      id = operations_[id].next;
    }
    if (id == Operation::kNone) {
      id = open(open_on_group_[group]);
      Operation& fresh = operations_[id];
      fresh.place = group;
      fresh.collective = true;
      fresh.ordinal = ordinal;
      fresh.call = call;
    }
    operations_[id].arrived += count;
    return id;
  }

  // One side of a transfer is posted. Returns the operation; it is complete when both tasks are known.
  std::uint32_t post(std::uint32_t channel, bool send, std::uint32_t task, std::int32_t tag, Bytes bytes) {
    // The list has the latest first; the earliest that fits is the one to meet.
    std::uint32_t found = Operation::kNone;
    for (std::uint32_t id = open_on_channel_[channel]; id != Operation::kNone; id = operations_[id].next) {
      const Operation& operation = operations_[id];
      const std::uint32_t mine = send ? operation.send_task : operation.receive_task;
      if (!operation.active && operation.tag == tag && mine == Operation::kNone) found = id;
    }
    if (found == Operation::kNone) {
      found = open(open_on_channel_[channel]);
      operations_[found].place = channel;
      operations_[found].tag = tag;
      operations_[found].bytes = bytes;
    }
    (send ? operations_[found].send_task : operations_[found].receive_task) = task;
    return found;
  }

  // The operation is over and forgotten; its number may be used again.
  void close(std::uint32_t id) {
    Operation& operation = operations_[id];
    std::uint32_t* link = &(operation.collective ? open_on_group_ : open_on_channel_)[operation.place];
    while (*link != id) {
      ORRERY_CHECK(*link != Operation::kNone, "an open operation is in the list of its place", id);
      link = &operations_[*link].next;
    }
    *link = operation.next;
    free_.push_back(id);
  }

  [[nodiscard]] Operation& operator[](std::uint32_t id) { return operations_[id]; }
  [[nodiscard]] const Operation& operator[](std::uint32_t id) const { return operations_[id]; }

 private:
  std::uint32_t open(std::uint32_t& first) {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(operations_.size()));
      operations_.emplace_back();
    }
    const std::uint32_t id = free_.back();
    free_.pop_back();
    operations_[id] = Operation{};
    operations_[id].next = first;
    first = id;
    return id;
  }

  std::vector<Operation> operations_;
  std::vector<std::uint32_t> free_;
  std::vector<std::uint32_t> open_on_group_;    // [groups] latest open operation
  std::vector<std::uint32_t> open_on_channel_;  // [channels]
};

}  // namespace orrery
