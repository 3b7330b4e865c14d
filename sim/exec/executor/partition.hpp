// Who is on stage: classes of ranks, communicators and channels, one member of each being played out.
//
// The executor knows classes only. Without folding every class has one member (unfolded_partition); a folding pass
// merges members that provably behave alike and fills in the same structure. What it must provide:
//  - all members of a rank class run one program on GPUs of one kind, with equal noise;
//  - all communicators of a group class have, per rank class, equal numbers of members, and equal routes up to the
//    classes of their links;
//  - a channel class that both its ends use joins two rank classes one to one.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/graph/workload.hpp"
#include "topology/topology.hpp"

namespace orrery {

struct Partition {
  struct Rank {
    RankId representative;
    std::int64_t multiplicity = 1;  // ranks it stands for
    RoleId role;
    GpuId gpu;  // of the representative
  };

  // A rank class within one communicator of a group class.
  struct Member {
    std::uint32_t rank = 0;   // rank class
    std::uint32_t count = 1;  // members of that class in the communicator
  };

  struct Group {
    GroupKindId kind;
    std::int64_t multiplicity = 1;  // communicators it stands for
    std::uint32_t members_begin = 0;
    std::uint32_t members_end = 0;
    std::uint32_t gpus_begin = 0;
    std::uint32_t gpus_end = 0;  // gpus_end - gpus_begin is the size of the communicator
  };

  // An ordered pair of ranks that transfers go between.
  struct Channel {
    std::uint32_t sender = 0;  // rank class
    std::uint32_t receiver = 0;
    std::int64_t multiplicity = 1;
    GpuId from;  // of a representative pair
    GpuId to;
  };
  // A rank's two channels with one of its peers; kNone where it has no such peer.
  struct Channels {
    std::uint32_t outgoing = kNone;
    std::uint32_t incoming = kNone;
  };
  static constexpr std::uint32_t kNone = 0xffffffff;

  std::vector<Rank> ranks;              // [rank classes], in the order of their lowest rank
  std::vector<std::uint32_t> class_of;  // [ranks of the workload]
  std::vector<Group> groups;
  std::vector<Member> members;
  std::vector<GpuId> gpus;                           // of representative communicators, in communicator order
  std::vector<std::vector<std::uint32_t>> group_of;  // [group kinds][rank classes]; kNone where it has none
  std::vector<Channel> channels;
  std::vector<std::vector<Channels>> channels_of;  // [peer kinds][rank classes]

  [[nodiscard]] std::span<const Member> members_of(const Group& group) const {
    return std::span(members).subspan(group.members_begin, group.members_end - group.members_begin);
  }
  [[nodiscard]] std::span<const GpuId> gpus_of(const Group& group) const {
    return std::span(gpus).subspan(group.gpus_begin, group.gpus_end - group.gpus_begin);
  }
};

// Every rank, communicator and channel a class of its own. gpu_of: [ranks].
// O(memberships + ranks x peer kinds x log of that).
[[nodiscard]] Partition unfolded_partition(const Workload& workload, std::span<const GpuId> gpu_of);

}  // namespace orrery
