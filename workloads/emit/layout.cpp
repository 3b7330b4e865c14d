#include "workloads/emit/layout.hpp"

#include <map>
#include <string>
#include <utility>

#include "sim/base/check.hpp"

namespace orrery {

Coordinates coordinates_of(const Degrees& d, std::int64_t rank) {
  Coordinates at;
  at.tensor = rank % d.tensor;
  rank /= d.tensor;
  at.context = rank % d.context;
  rank /= d.context;
  at.data = rank % d.data;
  at.pipeline = rank / d.data;
  return at;
}

std::int64_t rank_at(const Degrees& d, const Coordinates& at) {
  return ((at.pipeline * d.data + at.data) * d.context + at.context) * d.tensor + at.tensor;
}

GroupKindId add_group_kind(Workload& workload, std::string_view name, std::int64_t ranks,
                           const std::function<std::int64_t(std::int64_t rank)>& color) {
  const GroupKindId kind(workload.group_kinds.size());
  workload.group_kinds.push_back({std::string(name)});
  std::vector<CommunicatorId> of(static_cast<std::size_t>(ranks));
  std::map<std::int64_t, CommunicatorId> made;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t c = color(rank);
    if (c < 0) continue;
    const auto [found, fresh] = made.try_emplace(c, CommunicatorId(workload.communicators.size()));
    if (fresh) workload.communicators.push_back({kind, {}});
    workload.communicators[found->second.index()].ranks.emplace_back(static_cast<std::size_t>(rank));
    of[static_cast<std::size_t>(rank)] = found->second;
  }
  workload.communicator_of.push_back(std::move(of));
  return kind;
}

Peers add_pipeline_peers(Workload& workload, const Degrees& degrees, bool cyclic) {
  PeerKind next{"pipeline_next", {}};
  PeerKind previous{"pipeline_previous", {}};
  const std::int64_t p = degrees.pipeline;
  const auto neighbour = [&](std::int64_t rank, std::int64_t step) {
    Coordinates at = coordinates_of(degrees, rank);
    at.pipeline += step;
    if (!cyclic && (at.pipeline < 0 || at.pipeline >= p)) return RankId();
    at.pipeline = (at.pipeline + p) % p;
    return RankId(static_cast<std::size_t>(rank_at(degrees, at)));
  };
  for (std::int64_t rank = 0; rank < degrees.ranks(); ++rank) {
    next.of.push_back(neighbour(rank, 1));
    previous.of.push_back(neighbour(rank, -1));
  }
  const Peers peers{PeerKindId(workload.peer_kinds.size()), PeerKindId(workload.peer_kinds.size() + 1)};
  workload.peer_kinds.push_back(std::move(next));
  workload.peer_kinds.push_back(std::move(previous));
  return peers;
}

// Members of the data group are numbered as in its communicator: context fastest, then data. A run is `size` of them
// that follow one another; those at the same place of each run form the groups across.
void add_runs(Workload& workload, const Degrees& d, std::int64_t size, std::string_view along, std::string_view across,
              GroupKindId& run, GroupKindId& replicas) {
  const std::int64_t members = d.data * d.context;
  const auto coloured = [&](std::string_view name, auto&& part) {
    return add_group_kind(workload, name, d.ranks(), [&](std::int64_t rank) {
      Coordinates at = coordinates_of(d, rank);
      const std::int64_t member = at.data * d.context + at.context;
      at.data = at.context = 0;
      return rank_at(d, at) * members + part(member);
    });
  };
  if (size > 1) run = coloured(along, [&](std::int64_t member) { return member / size; });
  if (!across.empty() && size < members)
    replicas = coloured(across, [&](std::int64_t member) { return member % size; });
}

Groups add_groups(Workload& workload, const Degrees& d, bool ties_stages, bool needs_world, const DataRuns& runs) {
  Groups groups;
  const std::int64_t ranks = d.ranks();
  // The color of a rank: its coordinates with those along which the group runs set to zero.
  const auto along = [&](bool tensor, bool data, bool pipeline) {
    return [&d, tensor, data, pipeline](std::int64_t rank) {
      Coordinates at = coordinates_of(d, rank);
      if (tensor) at.tensor = 0;
      if (data) at.data = at.context = 0;
      if (pipeline) at.pipeline = 0;
      return rank_at(d, at);
    };
  };
  if (d.tensor > 1) groups.tensor = add_group_kind(workload, "tensor", ranks, along(true, false, false));
  if (d.data * d.context > 1) groups.data = add_group_kind(workload, "data", ranks, along(false, true, false));
  if (runs.shard > 0) add_runs(workload, d, runs.shard, "shard", "replicate", groups.shard, groups.replicate);
  GroupKindId none;
  if (runs.near_shard > 0) add_runs(workload, d, runs.near_shard, "near_shard", {}, groups.near_shard, none);
  if (ties_stages && d.pipeline > 1) {
    const auto color = along(false, false, true);
    groups.embedding = add_group_kind(workload, "embedding", ranks, [&](std::int64_t rank) {
      const std::int64_t stage = coordinates_of(d, rank).pipeline;
      return stage == 0 || stage == d.pipeline - 1 ? color(rank) : -1;
    });
  }
  if (d.tensor * d.pipeline > 1) groups.model = add_group_kind(workload, "model", ranks, along(true, false, true));
  if (needs_world && ranks > 1) groups.world = add_group_kind(workload, "world", ranks, along(true, true, true));
  return groups;
}

std::string_view stream_of(const Groups& groups, GroupKindId group) {
  if (group == groups.data) return "data";
  if (group == groups.expert_data) return "expert_data";
  if (group == groups.shard) return "shard";
  if (group == groups.replicate) return "replicate";
  if (group == groups.near_shard) return "near_shard";
  if (group == groups.tensor) return "tensor";
  if (group == groups.model) return "model";
  if (group == groups.embedding) return "embedding";
  if (group == groups.context) return "context";
  if (group == groups.expert) return "expert";
  ORRERY_CHECK(group == groups.world, "a group of the layout", group.value());
  return "world";
}

}  // namespace orrery
