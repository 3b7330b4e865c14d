#include "sim/exec/executor/partition.hpp"

#include <algorithm>

namespace orrery {

namespace {

std::uint64_t pair_key(RankId sender, RankId receiver) {
  return (static_cast<std::uint64_t>(sender.index()) << 32) | static_cast<std::uint64_t>(receiver.index());
}

void add_groups(const Workload& workload, std::span<const GpuId> gpu_of, Partition& partition) {
  for (const Communicator& communicator : workload.communicators) {
    Partition::Group group{.kind = communicator.kind};
    group.members_begin = static_cast<std::uint32_t>(partition.members.size());
    group.gpus_begin = static_cast<std::uint32_t>(partition.gpus.size());
    for (const RankId rank : communicator.ranks) {
      partition.members.push_back({static_cast<std::uint32_t>(rank.index()), 1});
      partition.gpus.push_back(gpu_of[rank.index()]);
    }
    group.members_end = static_cast<std::uint32_t>(partition.members.size());
    group.gpus_end = static_cast<std::uint32_t>(partition.gpus.size());
    partition.groups.push_back(group);
  }
  for (const auto& of_kind : workload.communicator_of) {
    auto& row = partition.group_of.emplace_back();
    for (const CommunicatorId id : of_kind) {
      row.push_back(id.valid() ? static_cast<std::uint32_t>(id.index()) : Partition::kNone);
    }
  }
}

void add_channels(const Workload& workload, std::span<const GpuId> gpu_of, Partition& partition) {
  std::vector<std::uint64_t> pairs;
  for (const PeerKind& kind : workload.peer_kinds) {
    for (std::size_t rank = 0; rank < kind.of.size(); ++rank) {
      if (!kind.of[rank].valid()) continue;
      pairs.push_back(pair_key(RankId(rank), kind.of[rank]));
      pairs.push_back(pair_key(kind.of[rank], RankId(rank)));
    }
  }
  std::sort(pairs.begin(), pairs.end());
  pairs.erase(std::unique(pairs.begin(), pairs.end()), pairs.end());
  for (const std::uint64_t pair : pairs) {
    const auto sender = static_cast<std::uint32_t>(pair >> 32);
    const auto receiver = static_cast<std::uint32_t>(pair);
    partition.channels.push_back({sender, receiver, 1, gpu_of[sender], gpu_of[receiver]});
  }
  const auto channel = [&](RankId sender, RankId receiver) {
    const auto found = std::lower_bound(pairs.begin(), pairs.end(), pair_key(sender, receiver));
    return static_cast<std::uint32_t>(found - pairs.begin());
  };
  for (const PeerKind& kind : workload.peer_kinds) {
    auto& row = partition.channels_of.emplace_back(workload.ranks());
    for (std::size_t rank = 0; rank < kind.of.size(); ++rank) {
      if (!kind.of[rank].valid()) continue;
      row[rank] = {channel(RankId(rank), kind.of[rank]), channel(kind.of[rank], RankId(rank))};
    }
  }
}

}  // namespace

Partition unfolded_partition(const Workload& workload, std::span<const GpuId> gpu_of) {
  Partition partition;
  partition.ranks.reserve(workload.ranks());
  for (std::size_t rank = 0; rank < workload.ranks(); ++rank) {
    partition.ranks.push_back({RankId(rank), 1, workload.role_of[rank], gpu_of[rank]});
    partition.class_of.push_back(static_cast<std::uint32_t>(rank));
  }
  add_groups(workload, gpu_of, partition);
  add_channels(workload, gpu_of, partition);
  return partition;
}

}  // namespace orrery
