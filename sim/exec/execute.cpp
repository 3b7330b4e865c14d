#include "sim/exec/execute.hpp"

#include "sim/exec/collectives/communicator.hpp"
#include "sim/exec/executor/executor.hpp"
#include "sim/exec/folding/fold.hpp"

namespace orrery {

Result<RunResult> execute(const Topology& topology, const Workload& workload, const Placement& placement,
                          const ExecutionOptions& options) {
  if (Problems problems = unplayable(topology, workload, placement, options); !problems.empty()) return problems;
  const Hardware hardware(topology, options.slow_gpus, options.slow_links);
  const std::shared_ptr<CommunicatorCache> communicators = communicator_cache(hardware, options.traffic);
  communicators->know_shares(workload.shares);
  Folded stage;
  if (options.fold) {
    stage = fold(
        {workload, placement.gpu_of, hardware, *communicators, options.traffic.fidelity, options.kernel_jitter != 0});
  } else {
    stage = {unfolded_partition(workload, placement.gpu_of), unfolded_resources(hardware)};
  }
  return play(workload, hardware, stage.partition, std::move(stage.resources), options,
              [&](Machine& machine, TrafficListener& listener) {
                machine.watch(options.progress);
                return std::make_unique<Traffic>(machine, options.traffic, listener, communicators);
              });
}

}  // namespace orrery
