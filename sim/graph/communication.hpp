// What ranks say to one another: collectives over communicators, and point-to-point transfers. Which links the bytes
// take and how long that lasts is decided in sim/exec.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/ids.hpp"
#include "sim/base/units.hpp"

namespace orrery {

enum class CollectiveOp : std::uint8_t { all_reduce, reduce_scatter, all_gather, broadcast, reduce, all_to_all };
inline constexpr std::size_t kCollectiveOps = 6;
inline constexpr std::array<std::string_view, kCollectiveOps> kCollectiveOpNames{
    "all_reduce", "reduce_scatter", "all_gather", "broadcast", "reduce", "all_to_all"};
[[nodiscard]] constexpr std::string_view name_of(CollectiveOp op) {
  return kCollectiveOpNames[static_cast<std::size_t>(op)];
}

struct RankTag;
using RankId = Id<RankTag>;

// A kind of communicator: one parallel dimension (or product of dimensions) that splits all ranks into groups.
struct GroupKindTag;
using GroupKindId = Id<GroupKindTag>;

// One communicator: an ordered group of ranks.
struct CommunicatorTag;
using CommunicatorId = Id<CommunicatorTag>;

struct Communicator {
  GroupKindId kind;
  std::vector<RankId> ranks;  // in communicator order
};

// A kind of neighbour that a rank sends to or receives from ("pipeline next", "pipeline previous").
struct PeerKindTag;
using PeerKindId = Id<PeerKindTag>;

// How unevenly an all-to-all is spread: of every weight's sum, so much for (or from) each member of the communicator.
struct SharesTag;
using SharesId = Id<SharesTag>;

struct Shares {
  std::vector<std::int64_t> weights;  // [members], none negative

  friend bool operator==(const Shares&, const Shares&) = default;
};

// A collective as one member issues it. Members match by order on the communicator, as in NCCL.
struct CollectiveCall {
  CollectiveOp op = CollectiveOp::all_reduce;
  GroupKindId group;
  // The full buffer: all_reduce, broadcast, reduce: the buffer itself; reduce_scatter: each member's input;
  // all_gather: each member's output; all_to_all: what each member sends in all, its own part included.
  Bytes bytes{};
  // all_to_all only. Valid: every member sends parts by these weights of the receivers; with `returns`, every member
  // receives parts by these weights of the senders (`bytes` is then what each receives): the way back.
  SharesId shares{};
  bool returns = false;

  friend bool operator==(const CollectiveCall&, const CollectiveCall&) = default;
};

// One side of a point-to-point transfer; the task kind says which. A send meets the receive that its peer posts for
// this rank with the same tag, in order.
struct TransferCall {
  PeerKindId peer;
  std::int32_t tag = 0;
  Bytes bytes{};

  friend bool operator==(const TransferCall&, const TransferCall&) = default;
};

}  // namespace orrery
