// Which rank is what: Megatron's order (tensor fastest, then context, data, pipeline slowest), the communicators that
// follow from it, and the pipeline neighbours.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "sim/graph/workload.hpp"

namespace orrery {

struct Degrees {
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  std::int64_t data = 1;
  std::int64_t pipeline = 1;

  [[nodiscard]] std::int64_t ranks() const { return tensor * context * data * pipeline; }
};

struct Coordinates {
  std::int64_t tensor = 0;
  std::int64_t context = 0;
  std::int64_t data = 0;
  std::int64_t pipeline = 0;
};

[[nodiscard]] Coordinates coordinates_of(const Degrees& degrees, std::int64_t rank);
[[nodiscard]] std::int64_t rank_at(const Degrees& degrees, const Coordinates& at);

// The kinds of communicators that a plan uses. An invalid id: a group of one, which exchanges nothing.
struct Groups {
  GroupKindId tensor;
  GroupKindId data;         // data (and context): who holds the same parameters
  GroupKindId context;      // who share a sequence
  GroupKindId expert;       // who share a layer's experts: a part of the data group
  GroupKindId expert_data;  // who hold the same experts
  GroupKindId embedding;    // first and last stage, whose tables are tied
  GroupKindId shard;        // a run of neighbours in the data group, over which state is split (hybrid sharding)
  GroupKindId replicate;    // who hold the same shard: one of each such run
  GroupKindId near_shard;   // a shorter run, over which a second copy of the weights is split
  GroupKindId model;        // tensor x pipeline: who together hold one replica
  GroupKindId world;
};

// Adds a kind of communicator: ranks with equal `color` share one, in rank order; a negative color joins none.
// O(ranks).
GroupKindId add_group_kind(Workload& workload, std::string_view name, std::int64_t ranks,
                           const std::function<std::int64_t(std::int64_t rank)>& color);

struct Peers {
  PeerKindId next;
  PeerKindId previous;
};

// Pipeline neighbours. `cyclic`: the last stage's next is the first (virtual stages). O(ranks).
Peers add_pipeline_peers(Workload& workload, const Degrees& degrees, bool cyclic);

// Runs of neighbours that a sharding strategy cuts the data group into. 0: none. They divide its size.
struct DataRuns {
  std::int64_t shard = 0;  // with it, the groups across runs
  std::int64_t near_shard = 0;
};

// The kinds that `degrees` call for. `ties_stages`: the embedding group is needed; `needs_world`: so is the world.
Groups add_groups(Workload& workload, const Degrees& degrees, bool ties_stages, bool needs_world,
                  const DataRuns& runs = {});

// The stream of a group's collectives, named after it.
[[nodiscard]] std::string_view stream_of(const Groups& groups, GroupKindId group);

}  // namespace orrery
