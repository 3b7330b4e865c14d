// The traffic layer as the executor sees it. The real one is Traffic (sim/exec/traffic.hpp); tests put one in its place
// whose times can be worked out by hand.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "sim/exec/machine.hpp"
#include "sim/exec/traffic.hpp"

namespace orrery {

class TrafficPort {
 public:
  virtual ~TrafficPort() = default;

  // As the methods of Traffic.
  virtual void start_collective(std::span<const GpuId> members, const CollectiveCall& call, std::int64_t multiplicity,
                                int kind, std::uint64_t token) = 0;
  virtual void start_transfer(GpuId from, GpuId to, Bytes bytes, std::int64_t multiplicity, int kind,
                              std::uint64_t token) = 0;
  virtual int multiprocessors(std::span<const GpuId> members, const CollectiveCall& call) = 0;
  virtual int multiprocessors_of_transfer(GpuId from, GpuId to, Bytes bytes) = 0;
  virtual void handle(std::uint32_t target) = 0;
  virtual void flow_completed(std::uint32_t target) = 0;
  [[nodiscard]] virtual std::map<int, TrafficCount> count_by_kind() const = 0;
  [[nodiscard]] virtual std::vector<std::string> warnings() const { return {}; }
};

// Makes the traffic layer of one run.
using TrafficFactory = std::function<std::unique_ptr<TrafficPort>(Machine&, TrafficListener&)>;

}  // namespace orrery
