#include "sim/exec/execute.hpp"

#include "sim/exec/executor/executor.hpp"

namespace orrery {

Result<RunResult> execute(const Topology& topology, const Workload& workload, const Placement& placement,
                          const ExecutionOptions& options) {
  return play(topology, workload, placement, options, [&](Machine& machine, TrafficListener& listener) {
    machine.watch(options.progress);
    return std::make_unique<Traffic>(machine, options.traffic, listener);
  });
}

}  // namespace orrery
