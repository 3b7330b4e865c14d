#include "workloads/emit/layout.hpp"

#include <fmt/core.h>

#include <algorithm>
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

ExpertCoordinates expert_coordinates_of(const Degrees& d, std::int64_t rank) {
  ExpertCoordinates at;
  at.pipeline = rank / d.ranks_of_stage();
  rank %= d.ranks_of_stage();
  at.tensor = rank % d.expert_tensor;
  rank /= d.expert_tensor;
  at.expert = rank % d.expert;
  at.replica = rank / d.expert;
  return at;
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

namespace {

// The stage that each stage sends to, or receives from, as one kind of peer: [stages]; -1: none.
using StageMap = std::vector<std::int64_t>;

// Collects maps, joining each with the first that it does not contradict.
class PeerKinds {
 public:
  std::size_t add(const StageMap& map, bool alone) {
    for (std::size_t k = 0; k < maps_.size() && !alone; ++k) {
      bool fits = true;
      for (std::size_t s = 0; s < map.size(); ++s) {
        fits = fits && (map[s] < 0 || maps_[k][s] < 0 || map[s] == maps_[k][s]);
      }
      if (!fits) continue;
      for (std::size_t s = 0; s < map.size(); ++s) maps_[k][s] = std::max(maps_[k][s], map[s]);
      return k;
    }
    maps_.push_back(map);
    return maps_.size() - 1;
  }
  [[nodiscard]] const std::vector<StageMap>& maps() const { return maps_; }

 private:
  std::vector<StageMap> maps_;
};

constexpr std::int64_t kNone = -1;
constexpr std::int64_t kHere = -2;

// The stage with the virtual stage `step` before or behind a chunk.
std::int64_t neighbour(const PipelinePlacement& placement, const ChunkPlace& at, std::int64_t step) {
  VirtualStage v = placement.at(at.stage, at.chunk);
  v.index += step;
  if (v.index < 0 || v.index == placement.virtual_stages()) return kNone;
  const std::int64_t stage = placement.place_of(v).stage;
  return stage == at.stage ? kHere : stage;
}

PeerKind peer_kind(const Degrees& degrees, const StageMap& map, std::size_t number) {
  PeerKind kind{number % 2 == 0 ? "pipeline_next" : "pipeline_previous", {}};
  for (std::int64_t rank = 0; rank < degrees.ranks(); ++rank) {
    Coordinates at = coordinates_of(degrees, rank);
    at.pipeline = map[static_cast<std::size_t>(at.pipeline)];
    kind.of.push_back(at.pipeline < 0 ? RankId() : RankId(static_cast<std::size_t>(rank_at(degrees, at))));
  }
  return kind;
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

void add_expert_groups(Workload& workload, const Degrees& d, bool mirrored, Groups& groups) {
  const std::int64_t ranks = d.ranks();
  const auto add = [&](std::string_view name, auto&& zero) {
    return add_group_kind(workload, name, ranks, [&](std::int64_t rank) {
      ExpertCoordinates at = expert_coordinates_of(d, rank);
      const std::int64_t part = zero(at);
      const std::int64_t base =
          ((at.pipeline * ranks + at.replica) * d.expert + at.expert) * d.expert_tensor + at.tensor;
      return base * (d.expert + 1) + part;
    });
  };
  const std::int64_t replicas = d.ranks_of_stage() / (d.expert * d.expert_tensor);
  using At = ExpertCoordinates;
  if (d.expert > 1) groups.expert = add("expert", [](At& at) { return at.expert = 0; });
  if (d.expert_tensor > 1) groups.expert_tensor = add("expert_tensor", [](At& at) { return at.tensor = 0; });
  if (replicas > 1 || mirrored) {
    groups.expert_data = add("expert_data", [&](At& at) {
      if (mirrored) at.pipeline = std::min(at.pipeline, d.pipeline - 1 - at.pipeline);
      return at.replica = 0;
    });
  }
  if (d.ranks_per_node == 0) return;
  const std::int64_t per = d.ranks_per_node;
  if (per > 1) {
    groups.expert_node = add("expert_node", [per](At& at) {
      const std::int64_t node = at.expert / per;
      at.expert = 0;
      return node;
    });
  }
  if (d.expert > per) {
    groups.expert_rail = add("expert_rail", [per](At& at) {
      const std::int64_t place = at.expert % per;
      at.expert = 0;
      return place;
    });
  }
}

}  // namespace

std::vector<std::vector<StageChunk>> add_pipeline_peers(Workload& workload, const Degrees& degrees,
                                                        const PipelinePlacement& placement) {
  const std::int64_t p = degrees.pipeline;
  const std::int64_t chunks = placement.virtual_stages() * placement.copies() / p;
  std::vector<std::vector<StageChunk>> all(static_cast<std::size_t>(p));
  const std::size_t first_kind = workload.peer_kinds.size();
  PeerKinds kinds;
  for (std::int64_t c = 0; c < chunks; ++c) {
    for (std::int64_t s = 0; s < p; ++s) all[static_cast<std::size_t>(s)].push_back({placement.at(s, c).index, {}, {}});
    for (const std::int64_t step : {1, -1}) {
      StageMap map;
      for (std::int64_t s = 0; s < p; ++s) map.push_back(neighbour(placement, {s, c}, step));
      StageMap away = map;
      for (std::int64_t& stage : away) stage = std::max(stage, kNone);
      const bool sends = std::any_of(away.begin(), away.end(), [](std::int64_t stage) { return stage != kNone; });
      if (!sends && (c > 0 || p == 1)) away.clear();
      const std::size_t kind = away.empty() ? 0 : first_kind + kinds.add(away, c == 0);
      for (std::size_t s = 0; s < map.size(); ++s) {
        Neighbour& side = step > 0 ? all[s].back().next : all[s].back().previous;
        if (map[s] == kHere) side.where = Neighbour::Where::here;
        if (map[s] >= 0) side = {Neighbour::Where::away, PeerKindId(kind)};
      }
    }
  }
  for (const StageMap& map : kinds.maps()) {
    workload.peer_kinds.push_back(peer_kind(degrees, map, workload.peer_kinds.size() - first_kind));
  }
  return all;
}

RingPeers add_ring_peers(Workload& workload, const Degrees& degrees, std::string_view name,
                         std::int64_t Coordinates::*along, std::int64_t size) {
  PeerKind next{fmt::format("{}_next", name), {}};
  PeerKind previous{fmt::format("{}_previous", name), {}};
  for (std::int64_t rank = 0; rank < degrees.ranks(); ++rank) {
    Coordinates at = coordinates_of(degrees, rank);
    const std::int64_t mine = at.*along;
    at.*along = (mine + 1) % size;
    next.of.emplace_back(static_cast<std::size_t>(rank_at(degrees, at)));
    at.*along = (mine + size - 1) % size;
    previous.of.emplace_back(static_cast<std::size_t>(rank_at(degrees, at)));
  }
  const RingPeers peers{PeerKindId(workload.peer_kinds.size()), PeerKindId(workload.peer_kinds.size() + 1)};
  workload.peer_kinds.push_back(std::move(next));
  workload.peer_kinds.push_back(std::move(previous));
  return peers;
}

Groups add_groups(Workload& workload, const Degrees& d, const PipelineGroups& stages, bool needs_world,
                  const DataRuns& runs, bool has_experts) {
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
  // Of mirrored stages, the first stands for both.
  const auto holders = [&](std::int64_t rank) {
    Coordinates at = coordinates_of(d, rank);
    at.data = at.context = 0;
    if (stages.mirrored) at.pipeline = std::min(at.pipeline, d.pipeline - 1 - at.pipeline);
    return rank_at(d, at);
  };
  if (d.data * d.context > 1 || stages.mirrored) groups.data = add_group_kind(workload, "data", ranks, holders);
  if (runs.shard > 0) add_runs(workload, d, runs.shard, "shard", "replicate", groups.shard, groups.replicate);
  GroupKindId none;
  if (runs.near_shard > 0) add_runs(workload, d, runs.near_shard, "near_shard", {}, groups.near_shard, none);
  if (d.context > 1) {
    groups.context = add_group_kind(workload, "context", ranks, [&d](std::int64_t rank) {
      Coordinates at = coordinates_of(d, rank);
      at.context = 0;
      return rank_at(d, at);
    });
  }
  if (has_experts) add_expert_groups(workload, d, stages.mirrored, groups);
  if (!stages.tied_stages.empty()) {
    const auto color = along(false, false, true);
    groups.embedding = add_group_kind(workload, "embedding", ranks, [&](std::int64_t rank) {
      const std::int64_t stage = coordinates_of(d, rank).pipeline;
      const auto& tied = stages.tied_stages;
      return std::find(tied.begin(), tied.end(), stage) != tied.end() ? color(rank) : -1;
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
  if (group == groups.expert_tensor) return "expert_tensor";
  if (group == groups.amax) return "amax";
  if (group == groups.expert_node || group == groups.expert_rail) return "expert";
  ORRERY_CHECK(group == groups.world, "a group of the layout", group.value());
  return "world";
}

}  // namespace orrery
