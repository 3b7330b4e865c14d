// The traffic layer as the executor sees it, and the executor as the traffic layer does. The real traffic layer is
// Traffic (sim/exec/traffic.hpp); tests put one in its place whose times can be worked out by hand.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "sim/graph/communication.hpp"
#include "sim/results/run_result.hpp"
#include "topology/topology.hpp"

namespace orrery {

// Who hears that an operation has ended.
class TrafficListener {
 public:
  virtual void operation_ended(std::uint64_t token) = 0;

 protected:
  ~TrafficListener() = default;
};

class TrafficPort {
 public:
  virtual ~TrafficPort() = default;

  // A collective among `members` (in communicator order; at least one) begins now. `kind` is an index that the caller
  // chooses to count traffic under. Ends with operation_ended(token) of the listener, at once for a group of one.
  virtual void start_collective(std::span<const GpuId> members, const CollectiveCall& call, std::int64_t multiplicity,
                                int kind, std::uint64_t token) = 0;
  virtual void start_transfer(GpuId from, GpuId to, Bytes bytes, std::int64_t multiplicity, int kind,
                              std::uint64_t token) = 0;

  // Multiprocessors that an operation holds on each member from its launch until its end (one block per channel).
  [[nodiscard]] virtual int multiprocessors(std::span<const GpuId> members, const CollectiveCall& call) = 0;
  // The same on both sides of a transfer, over a communicator of `ranks` (at least 2).
  [[nodiscard]] virtual int multiprocessors_of_transfer(GpuId from, GpuId to, Bytes bytes, int ranks) = 0;

  // What of an operation's time passes before bytes flow on all edges, on an idle machine.
  [[nodiscard]] virtual Duration latency(std::span<const GpuId> /*members*/, const CollectiveCall& /*call*/) {
    return Duration::zero();
  }
  [[nodiscard]] virtual Duration latency_of_transfer(GpuId /*from*/, GpuId /*to*/, Bytes /*bytes*/) {
    return Duration::zero();
  }

  // Events and flows that the traffic layer scheduled for itself come back here (Machine dispatches them).
  virtual void handle(std::uint32_t target) = 0;
  virtual void flow_completed(std::uint32_t target) = 0;

  // Counters, by the caller's kind index.
  [[nodiscard]] virtual std::map<int, TrafficCount> count_by_kind() const = 0;

  // What was asked for and could not be had: a line for each operation that the forced algorithm cannot do.
  [[nodiscard]] virtual std::vector<std::string> warnings() const { return {}; }
};

}  // namespace orrery
