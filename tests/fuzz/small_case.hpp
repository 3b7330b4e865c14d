// A small cluster, a small training step on it, and the options of a run, all drawn from bytes.
//
// Method. The cluster is anything that Topology::build takes, with odd numbers: 1 to 4 nodes of one or two kinds, 1 to
// 4 GPUs each, every wiring, fabric and routing. The step is drawn as one global list of rounds. A round is a task of
// one role alone (kernels, a copy, host work), a collective that all roles of a group kind issue, or a transfer that
// all ranks of some roles take part in; each role appends its tasks of the round to its program.
//
// Invariant: a case cannot deadlock. A task waits for tasks of earlier rounds of its rank (stream order, dependencies,
// the host), for the other sides of its own round, and for nothing else: where a role both sends and receives in one
// round the two are on different streams, and the first does not block the host. By induction every round ends.
// Sides match because a tag belongs to one pair of peer kinds and one pair of streams, and because the collectives of a
// group kind stay on one stream of a role. All memory that a role allocates it frees again, block by block.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "sim/exec/execute.hpp"
#include "sim/graph/workload.hpp"
#include "topology/topology.hpp"

namespace orrery::fuzz {

struct SmallCase {
  Topology topology;
  Workload workload;
  Placement placement;
  ExecutionOptions options;  // all ranks are recorded
};

// Nothing where the cluster that was drawn is not one (its problems are those of Topology::build).
[[nodiscard]] std::optional<SmallCase> draw_small_case(std::span<const std::uint8_t> bytes);

// What the case is, for a report: cluster, options, groups, peers and the tasks of every role.
[[nodiscard]] std::string describe(const SmallCase& drawn);

}  // namespace orrery::fuzz
