#include "sim/study/fidelity.hpp"

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "sim/exec/collectives/message_count.hpp"

namespace orrery {

namespace {

// How often a program issues each collective of one group kind, by operation and bytes.
using Calls = std::map<std::pair<CollectiveOp, std::int64_t>, std::int64_t>;

struct RoleTraffic {
  std::map<GroupKindId, Calls> calls;
  std::int64_t sends = 0;
};

std::vector<RoleTraffic> traffic_by_role(const Workload& workload) {
  std::vector<RoleTraffic> roles;
  for (const Program& program : workload.programs) {
    RoleTraffic role;
    for (const Task& task : program.tasks()) {
      if (task.kind == TaskKind::send) ++role.sends;
      if (task.kind != TaskKind::collective) continue;
      const CollectiveCall& call = program.collective(task);
      ++role.calls[call.group][{call.op, call.bytes.count()}];
    }
    roles.push_back(std::move(role));
  }
  return roles;
}

// What a communicator does is what its first member issues: all members issue the same. Null: nothing.
const Calls* calls_of(const Workload& workload, const std::vector<RoleTraffic>& roles,
                      const Communicator& communicator) {
  if (communicator.ranks.size() < 2) return nullptr;
  const RoleTraffic& role = roles[workload.role_of[communicator.ranks.front().index()].index()];
  const auto found = role.calls.find(communicator.kind);
  return found == role.calls.end() ? nullptr : &found->second;
}

std::vector<GpuId> gpus_of(const Communicator& communicator, const Placement& placement) {
  std::vector<GpuId> gpus;
  for (const RankId rank : communicator.ranks) gpus.push_back(placement.gpu_of[rank.index()]);
  return gpus;
}

}  // namespace

double count_messages(const Topology& topology, const Workload& workload, const Placement& placement,
                      const TrafficOptions& options, double most) {
  const std::vector<RoleTraffic> roles = traffic_by_role(workload);
  double sends = 0;
  for (const RoleId role : workload.role_of) sends += static_cast<double>(roles[role.index()].sends);
  double least = sends;
  for (const Communicator& communicator : workload.communicators) {
    const Calls* calls = calls_of(workload, roles, communicator);
    if (calls == nullptr) continue;
    const auto each = static_cast<double>(least_messages(static_cast<std::int64_t>(communicator.ranks.size())));
    for (const auto& [call, times] : *calls) {
      if (call.second > 0) least += each * static_cast<double>(times);
    }
  }
  if (least > most) return least;

  double messages = sends;
  for (const Communicator& communicator : workload.communicators) {
    const Calls* calls = calls_of(workload, roles, communicator);
    if (calls == nullptr) continue;
    MessageCounter counter(topology, gpus_of(communicator, placement), tuning_request(options));
    for (const auto& [call, times] : *calls) {
      messages += static_cast<double>(counter.messages(call.first, Bytes(call.second))) * static_cast<double>(times);
      if (messages > most) return messages;
    }
  }
  return messages;
}

TrafficFidelity resolve(Fidelity wanted, const Topology& topology, const Workload& workload, const Placement& placement,
                        const TrafficOptions& options) {
  if (wanted == Fidelity::message) return TrafficFidelity::message;
  if (wanted == Fidelity::coupled) return TrafficFidelity::coupled;
  const double messages = count_messages(topology, workload, placement, options, kMessagesAffordable);
  return messages <= kMessagesAffordable ? TrafficFidelity::message : TrafficFidelity::coupled;
}

}  // namespace orrery
