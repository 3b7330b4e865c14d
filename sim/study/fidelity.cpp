#include "sim/study/fidelity.hpp"

#include <vector>

namespace orrery {

namespace {

double messages_per_member(CollectiveOp op, double members) {
  switch (op) {
    case CollectiveOp::all_reduce:
      return 2 * (members - 1);
    case CollectiveOp::reduce_scatter:
    case CollectiveOp::all_gather:
    case CollectiveOp::all_to_all:
      return members - 1;
    case CollectiveOp::broadcast:
    case CollectiveOp::reduce:
      return members > 1 ? 1 : 0;
  }
  return 0;
}

// Of one rank, by its role's program and the sizes of its groups.
double messages_of_rank(const Workload& workload, std::size_t rank) {
  const Program& program = workload.programs[workload.role_of[rank].index()];
  double messages = 0;
  for (const Task& task : program.tasks()) {
    if (task.kind == TaskKind::send) messages += 1;
    if (task.kind != TaskKind::collective) continue;
    const CollectiveCall& call = program.collective(task);
    const CommunicatorId group = workload.communicator_of[call.group.index()][rank];
    if (!group.valid()) continue;
    messages += messages_per_member(call.op, static_cast<double>(workload.communicators[group.index()].ranks.size()));
  }
  return messages;
}

}  // namespace

double estimated_messages(const Workload& workload) {
  // Ranks of a role are alike: groups of one kind have one size in all plans that workloads builds.
  std::vector<double> of_role(workload.programs.size(), -1);
  double messages = 0;
  for (std::size_t rank = 0; rank < workload.ranks(); ++rank) {
    double& of_rank = of_role[workload.role_of[rank].index()];
    if (of_rank < 0) of_rank = messages_of_rank(workload, rank);
    messages += of_rank;
  }
  return messages;
}

TrafficFidelity resolve(Fidelity wanted, const Workload& workload) {
  switch (wanted) {
    case Fidelity::message:
      return TrafficFidelity::message;
    case Fidelity::coupled:
      return TrafficFidelity::coupled;
    case Fidelity::automatic:
      break;
  }
  return estimated_messages(workload) <= kMessagesAffordable ? TrafficFidelity::message : TrafficFidelity::coupled;
}

}  // namespace orrery
