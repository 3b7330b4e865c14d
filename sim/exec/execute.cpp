#include "sim/exec/execute.hpp"

#include "sim/exec/executor/executor.hpp"

namespace orrery {

namespace {

// Traffic behind the executor's port.
class NetworkTraffic final : public TrafficPort {
 public:
  NetworkTraffic(Machine& machine, const TrafficOptions& options, TrafficListener& listener)
      : traffic_(machine, options, listener) {}

  void start_collective(std::span<const GpuId> members, const CollectiveCall& call, std::int64_t multiplicity, int kind,
                        std::uint64_t token) override {
    traffic_.start_collective(members, call, multiplicity, kind, token);
  }
  void start_transfer(GpuId from, GpuId to, Bytes bytes, std::int64_t multiplicity, int kind,
                      std::uint64_t token) override {
    traffic_.start_transfer(from, to, bytes, multiplicity, kind, token);
  }
  int multiprocessors(std::span<const GpuId> members, const CollectiveCall& call) override {
    return traffic_.multiprocessors(members, call);
  }
  int multiprocessors_of_transfer(GpuId from, GpuId to, Bytes bytes) override {
    return traffic_.multiprocessors_of_transfer(from, to, bytes);
  }
  void handle(std::uint32_t target) override { traffic_.handle(target); }
  void flow_completed(std::uint32_t target) override { traffic_.flow_completed(target); }
  [[nodiscard]] std::map<int, TrafficCount> count_by_kind() const override { return traffic_.count_by_kind(); }
  [[nodiscard]] std::vector<std::string> warnings() const override { return traffic_.warnings(); }

 private:
  Traffic traffic_;
};

}  // namespace

Result<RunResult> execute(const Topology& topology, const Workload& workload, const Placement& placement,
                          const ExecutionOptions& options) {
  return play(topology, workload, placement, options, [&](Machine& machine, TrafficListener& listener) {
    return std::make_unique<NetworkTraffic>(machine, options.traffic, listener);
  });
}

}  // namespace orrery
