#include "sim/study/algorithms.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/exec/collectives/algorithm.hpp"
#include "sim/exec/collectives/tuning.hpp"

namespace orrery {

namespace {

constexpr double kShareLeast = 0.01;

// Group kind, operation and bytes of calls that are alike, and how many there are.
using Calls = std::map<std::tuple<GroupKindId, CollectiveOp, std::int64_t>, double>;

Calls calls_of(const Program& program) {
  Calls calls;
  for (const Task& task : program.tasks()) {
    if (task.kind != TaskKind::collective) continue;
    const CollectiveCall& call = program.collective(task);
    calls[{call.group, call.op, call.bytes.count()}] += 1;
  }
  return calls;
}

// [roles]: how many ranks play it, and the first of them.
struct Role {
  std::size_t first = 0;
  double ranks = 0;
};

std::vector<Role> roles_of(const Workload& workload) {
  std::vector<Role> roles(workload.programs.size());
  for (std::size_t rank = workload.ranks(); rank-- > 0;) {
    Role& role = roles[workload.role_of[rank].index()];
    role.first = rank;
    role.ranks += 1;
  }
  return roles;
}

std::vector<GpuId> members_of(const Workload& workload, const Placement& placement, CommunicatorId group) {
  std::vector<GpuId> members;
  for (const RankId rank : workload.communicators[group.index()].ranks)
    members.push_back(placement.gpu_of[rank.index()]);
  return members;
}

}  // namespace

std::map<std::string, std::string> main_algorithms(const Topology& topology, const Workload& workload,
                                                   const Placement& placement, const TrafficOptions& options) {
  const TuningRequest request = tuning_request(options);
  std::map<std::string, std::map<std::string, double>> bytes;  // by kind and operation, by algorithm
  double all = 0;
  std::map<CommunicatorId, CommunicatorLayout> layouts;  // roles share communicators, some of them large
  const std::vector<Role> roles = roles_of(workload);
  for (std::size_t r = 0; r < roles.size(); ++r) {
    if (roles[r].ranks == 0) continue;
    for (const auto& [call, count] : calls_of(workload.programs[r])) {
      const auto& [group, op, size] = call;
      const CommunicatorId id = workload.communicator_of[group.index()][roles[r].first];
      if (!id.valid() || workload.communicators[id.index()].ranks.size() < 2) continue;
      auto layout = layouts.find(id);
      if (layout == layouts.end()) {
        layout = layouts.emplace(id, lay_out(topology, members_of(workload, placement, id))).first;
      }
      const TuningChoice choice = choose(layout->second, op, Bytes(size), request);
      const double weight = count * roles[r].ranks * static_cast<double>(size);
      const std::string name = fmt::format("{} {}", workload.group_kinds[group.index()].name, name_of(op));
      bytes[name][std::string(choice.algorithm->name)] += weight;
      all += weight;
    }
  }
  std::map<std::string, std::string> algorithms;
  for (const auto& [name, by_algorithm] : bytes) {
    const auto main = std::max_element(by_algorithm.begin(), by_algorithm.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (main->second >= kShareLeast * all) algorithms[name] = main->first;
  }
  return algorithms;
}

}  // namespace orrery
