// What the programs of a workload compute and send, counted task by task.
#pragma once

#include "sim/graph/workload.hpp"

namespace orrery::testing {

template <class Visit>
void for_each_kernel(const Workload& w, const Program& program, Visit&& visit) {
  for (const Task& task : program.tasks()) {
    if (task.kind != TaskKind::kernels) continue;
    for (const KernelId id : program.sequence(task)) visit(w.kernels[id.index()]);
  }
}

inline double program_flops_of(const Workload& w, const Program& program, KernelKind kind) {
  double sum = 0;
  for_each_kernel(w, program, [&](const Kernel& kernel) { sum += kernel.kind == kind ? kernel.flops.count() : 0; });
  return sum;
}

// Over all ranks.
inline double flops_of(const Workload& w, KernelKind kind) {
  double sum = 0;
  for (const RoleId role : w.role_of) sum += program_flops_of(w, w.programs[role.index()], kind);
  return sum;
}

// Point-to-point messages of a rank, and the buffers of its collectives, in one phase.
inline std::int64_t sent_by(const Workload& w, std::size_t rank, Phase phase) {
  const Program& program = w.programs[w.role_of[rank].index()];
  std::int64_t sum = 0;
  for (const Task& task : program.tasks()) {
    if (task.kind == TaskKind::send && task.phase == phase) sum += program.transfer(task).bytes.count();
  }
  return sum;
}

inline std::int64_t collective_bytes(const Workload& w, std::size_t rank, CollectiveOp op, Phase phase) {
  const Program& program = w.programs[w.role_of[rank].index()];
  std::int64_t sum = 0;
  for (const Task& task : program.tasks()) {
    if (task.kind != TaskKind::collective || task.phase != phase) continue;
    const CollectiveCall& call = program.collective(task);
    if (call.op == op) sum += call.bytes.count();
  }
  return sum;
}

}  // namespace orrery::testing
