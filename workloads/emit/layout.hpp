// Which rank is what: Megatron's order (tensor fastest, then context, data, pipeline slowest), the communicators that
// follow from it, and the pipeline neighbours.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "sim/graph/workload.hpp"
#include "workloads/schedules/placement.hpp"

namespace orrery {

struct Degrees {
  std::int64_t tensor = 1;
  std::int64_t context = 1;
  std::int64_t data = 1;
  std::int64_t pipeline = 1;
  // Layers of experts cut the ranks of a stage in another way: expert_tensor x expert x replicas.
  std::int64_t expert = 1;
  std::int64_t expert_tensor = 1;
  std::int64_t ranks_per_node = 0;  // hierarchical dispatch: expert-parallel ranks on one node; 0: no such groups

  [[nodiscard]] std::int64_t ranks() const { return tensor * context * data * pipeline; }
  [[nodiscard]] std::int64_t ranks_of_stage() const { return tensor * context * data; }
};

struct Coordinates {
  std::int64_t tensor = 0;
  std::int64_t context = 0;
  std::int64_t data = 0;
  std::int64_t pipeline = 0;
};

// Where a rank is among the experts: expert_tensor fastest, then expert, then replicas, as Megatron-LM's second
// RankGenerator has it (megatron/core/parallel_state.py: expert_decoder_rank_generator).
struct ExpertCoordinates {
  std::int64_t tensor = 0;
  std::int64_t expert = 0;
  std::int64_t replica = 0;
  std::int64_t pipeline = 0;
};
[[nodiscard]] ExpertCoordinates expert_coordinates_of(const Degrees& degrees, std::int64_t rank);

[[nodiscard]] Coordinates coordinates_of(const Degrees& degrees, std::int64_t rank);
[[nodiscard]] std::int64_t rank_at(const Degrees& degrees, const Coordinates& at);

// The kinds of communicators that a plan uses. An invalid id: a group of one, which exchanges nothing.
struct Groups {
  GroupKindId tensor;
  GroupKindId data;           // data (and context): who holds the same parameters
  GroupKindId context;        // who share a sequence
  GroupKindId expert;         // who share a layer's experts
  GroupKindId expert_data;    // who hold the same experts
  GroupKindId expert_tensor;  // who share each expert's matrices
  GroupKindId expert_node;    // hierarchical dispatch: the expert group's ranks on one node,
  GroupKindId expert_rail;    // and those with the same place in every node
  GroupKindId embedding;      // the stages with the first and the last part of the model, whose tables are tied
  GroupKindId shard;          // a run of neighbours in the data group, over which state is split (hybrid sharding)
  GroupKindId replicate;      // who hold the same shard: one of each such run
  GroupKindId near_shard;     // a shorter run, over which a second copy of the weights is split
  GroupKindId amax;           // who share the scales of fp8 tensors
  GroupKindId model;          // tensor x pipeline: who together hold one replica
  GroupKindId world;
};

// Adds a kind of communicator: ranks with equal `color` share one, in rank order; a negative color joins none.
// O(ranks).
GroupKindId add_group_kind(Workload& workload, std::string_view name, std::int64_t ranks,
                           const std::function<std::int64_t(std::int64_t rank)>& color);

// Where the virtual stage before or behind a chunk lies.
struct Neighbour {
  enum class Where : std::uint8_t {
    none,  // this is an end of the model
    here,  // on this stage: nothing is sent
    away,
  };
  Where where = Where::none;
  PeerKindId peer;  // away
};

// Neighbours in a ring of ranks that differ in one coordinate alone.
struct RingPeers {
  PeerKindId next;
  PeerKindId previous;
};
// `along`: the coordinate, `size`: of the ring. O(ranks).
RingPeers add_ring_peers(Workload& workload, const Degrees& degrees, std::string_view name,
                         std::int64_t Coordinates::*along, std::int64_t size);

// What one chunk of a stage is in the pipeline.
struct StageChunk {
  std::int64_t virtual_stage = 0;
  Neighbour previous;
  Neighbour next;
};

// The chunks of all stages, [stages][chunks], and the kinds of peers that they need. Kinds that do not contradict one
// another are one. O(ranks x chunks).
std::vector<std::vector<StageChunk>> add_pipeline_peers(Workload& workload, const Degrees& degrees,
                                                        const PipelinePlacement& placement);

// What the pipeline's schedule makes of the groups.
struct PipelineGroups {
  std::vector<std::int64_t> tied_stages;  // whose copies of a tied table must be kept alike; empty: there are none
  bool mirrored = false;                  // stages s and p - 1 - s hold the same parameters
};

// Runs of neighbours that a sharding strategy cuts the data group into. 0: none. They divide its size.
struct DataRuns {
  std::int64_t shard = 0;  // with it, the groups across runs
  std::int64_t near_shard = 0;
};

// The kinds that `degrees` call for. `needs_world`: so is the world; `has_experts`: so are those of experts.
Groups add_groups(Workload& workload, const Degrees& degrees, const PipelineGroups& stages, bool needs_world,
                  const DataRuns& runs = {}, bool has_experts = false);

// The stream of a group's collectives, named after it.
[[nodiscard]] std::string_view stream_of(const Groups& groups, GroupKindId group);

}  // namespace orrery
