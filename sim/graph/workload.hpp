// Everything that a training step is, on no hardware: the programs of all roles, who plays which role, and who talks to
// whom.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/graph/communication.hpp"
#include "sim/graph/kernel.hpp"
#include "sim/graph/program.hpp"

namespace orrery {

// One parallel dimension (or product of dimensions) and the communicators it splits the ranks into.
struct GroupKind {
  std::string name;  // "tensor", "data", ...: exposed communication is reported under it
};

struct PeerKind {
  std::string name;        // "pipeline_next", "pipeline_previous"
  std::vector<RankId> of;  // [ranks]: this rank's neighbour; an invalid id where it has none
};

// A training step. Ranks are numbered as the framework numbers them; placement onto GPUs is sim/exec's business.
struct Workload {
  std::vector<Kernel> kernels;
  std::vector<Program> programs;  // [roles]
  std::vector<RoleId> role_of;    // [ranks]
  std::vector<GroupKind> group_kinds;
  std::vector<Communicator> communicators;
  // [group kinds][ranks]: the communicator of that kind that a rank belongs to; invalid where it belongs to none
  // (a group of one rank is still a communicator).
  std::vector<std::vector<CommunicatorId>> communicator_of;
  std::vector<PeerKind> peer_kinds;
  std::vector<Shares> shares;  // of uneven all-to-alls

  // Facts for the summary.
  std::int64_t parameters = 0;         // of the whole model
  std::int64_t active_parameters = 0;  // that one token passes through
  std::int64_t tokens_per_step = 0;
  Flops model_flops{};                    // per step, over all ranks: forward + backward, recomputation not counted
  Flops hardware_flops{};                 // per step, over all ranks: every kernel's FLOPs
  Precision precision = Precision::bf16;  // that MFU compares with

  [[nodiscard]] std::size_t ranks() const { return role_of.size(); }
};

// The internal contradictions of a workload, for tests and as a guard before execution: members of a communicator that
// issue different collectives, sends without receives, sizes that differ. Empty when all is well. O(tasks x ranks).
[[nodiscard]] std::vector<std::string> inconsistencies(const Workload& workload);

}  // namespace orrery
