// The traffic of a run: collectives and transfers become flows over a topology, at either fidelity.
//
// The executor says when an operation may begin (its last member has arrived); Traffic chooses algorithm, channels and
// protocol as NCCL would, plays the algorithm out on the links, and reports the end.
//
// An operation may stand for several equal ones (folding): `multiplicity` communicators alike, of which the one given
// is the representative. A link then stands for its class, and the count with which a phase crosses it is (crossings of
// the class by one communicator) x multiplicity / (links in the class). Unfolded, all of these are 1.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "sim/exec/traffic_port.hpp"

namespace orrery {

struct TuningRequest;     // sim/exec/collectives/tuning.hpp
class CommunicatorCache;  // sim/exec/collectives/communicator.hpp
class Hardware;           // sim/exec/hardware.hpp
class Machine;  // sim/exec/machine.hpp: clock, event queue, fluid network, and which resource stands for which link

enum class TrafficFidelity : std::uint8_t { message, coupled };

struct TrafficOptions {
  TrafficFidelity fidelity = TrafficFidelity::coupled;
  std::string algorithm = "auto";  // or a row of collective_algorithm_rows()
  int channels = 0;                // 0: from the topology
  std::string protocol = "auto";   // or a row of protocol_rows()
  std::string library = "nccl";    // a row of library_rows()
  Bytes buffer = Bytes(4 << 20);   // of a block, Simple protocol (NCCL_BUFFSIZE)
  bool sharp = false;              // auto may let the network's switches reduce (NCCL_COLLNET_ENABLE)
  bool pxn = true;                 // messages may leave by other GPUs' NICs (NCCL_P2P_PXN_LEVEL)
};

// What the options ask of the choice of algorithms.
[[nodiscard]] TuningRequest tuning_request(const TrafficOptions& options);

class Traffic final : public TrafficPort {
 public:
  // `communicators`: made by communicator_cache() with the same options; null: one of its own.
  Traffic(Machine& machine, const TrafficOptions& options, TrafficListener& listener,
          std::shared_ptr<CommunicatorCache> communicators = nullptr);
  ~Traffic() override;

  void start_collective(std::span<const GpuId> members, const CollectiveCall& call, std::int64_t multiplicity, int kind,
                        std::uint64_t token) override;
  void start_transfer(GpuId from, GpuId to, Bytes bytes, std::int64_t multiplicity, int kind,
                      std::uint64_t token) override;
  [[nodiscard]] int multiprocessors(std::span<const GpuId> members, const CollectiveCall& call) override;
  [[nodiscard]] int multiprocessors_of_transfer(GpuId from, GpuId to, Bytes bytes, int ranks) override;
  [[nodiscard]] Duration latency(std::span<const GpuId> members, const CollectiveCall& call) override;
  [[nodiscard]] Duration latency_of_transfer(GpuId from, GpuId to, Bytes bytes) override;
  void handle(std::uint32_t target) override;
  void flow_completed(std::uint32_t target) override;
  [[nodiscard]] std::map<int, TrafficCount> count_by_kind() const override;

  // Flows so far, of both fidelities.
  [[nodiscard]] std::int64_t flows() const;

  // What was asked for and could not be had: a line for each operation that the forced algorithm, or the algorithm in
  // the forced protocol, cannot do.
  [[nodiscard]] std::vector<std::string> warnings() const override;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// What is known of the communicators of a run, to be shared by whoever needs it. The hardware must outlive it.
[[nodiscard]] std::shared_ptr<CommunicatorCache> communicator_cache(const Hardware& hardware,
                                                                    const TrafficOptions& options);

}  // namespace orrery
