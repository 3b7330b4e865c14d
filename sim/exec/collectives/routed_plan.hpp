// A plan on a topology: the links and memories that its edges cross, their latencies, and for each phase the sum of it
// all. What depends on size or protocol is left out, so that one routed plan serves all calls of its kind.
//
// Memory traffic per payload byte on the wire, for rings, trees and stages: the sender reads it once; at the receiver
// it is written into NCCL's buffer and then, together, one more access is made (the receiver's own input is read to be
// added, or the output is written). NCCL's kernels read the buffer and forward in the same pass, so that the read
// of the next edge is the read of this buffer. Point-to-point messages are forwarded by nobody: the receiver writes the
// buffer, reads it and writes its output. In-switch operations read and write user buffers directly, once.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sim/exec/collectives/layout.hpp"
#include "sim/exec/collectives/plan.hpp"
#include "sim/exec/machine.hpp"

namespace orrery {

// How a message travels.
struct EdgePath {
  std::vector<LinkId> links;
  Duration latency{};  // of the links
  Hop hop = Hop::nvlink;
};

// Adds up uses of links and memories.
class UseCounter {
 public:
  void add_link(LinkId link, std::int64_t count = 1) { add({link.value(), false, count}); }
  void add_memory(GpuId gpu, std::int64_t count) { add({gpu.value(), true, count}); }
  // An all-to-all adds n^2 routes over a few resources a member: memory stays within twice the resources.
  void add(const RawUse& use) {
    uses_.push_back(use);
    if (uses_.size() >= compact_at_) compact();
  }
  // Sorted, each resource once. Empties the counter.
  [[nodiscard]] std::vector<RawUse> take();
  // Appends the same to `uses`, keeping the counter's memory for the next.
  void take_into(std::vector<RawUse>& uses);

 private:
  void compact();

  std::vector<RawUse> uses_;
  static constexpr std::size_t kCompactFrom = 1 << 16;
  std::size_t compact_at_ = kCompactFrom;
};

// The crossings of `multiplicity` operations alike, of which one has these uses: see traffic.hpp.
[[nodiscard]] std::vector<Crossing> crossings_of(const Machine& machine, std::span<const RawUse> uses,
                                                 std::int64_t multiplicity);

struct MemoryUse {
  std::int64_t source = 1;
  std::int64_t target = 2;
};
inline constexpr MemoryUse kForwarded{1, 2};
inline constexpr MemoryUse kPointToPoint{1, 3};
inline constexpr MemoryUse kInSwitch{1, 1};

// PXN: the NIC of the sender's node by which NCCL sends a message that goes to another node, which is that of the GPU
// with the receiver's place, if the sender reaches that GPU over NVLink; else -1, the sender's own. The message goes
// over NVLink, and on the receiver's rail from there (NCCL_P2P_PXN_LEVEL 2, the default; ncclTopoGetNetDev in
// src/graph/search.cc and the PXN paths of src/graph/paths.cc).
[[nodiscard]] int nic_towards(const Topology& topology, GpuId from, GpuId to);

[[nodiscard]] EdgePath path_between(const Topology& topology, GpuId from, GpuId to, const RouteOptions& options = {});

// The most that a hop of each kind may take over the topology; -1 ps: the edge has no such hop.
struct EdgeLatency {
  Duration by_hop[3] = {Duration(-1), Duration(-1), Duration(-1)};

  void add(const EdgePath& path);
};

struct RoutedPhase {
  std::vector<RawUse> uses;  // of all edges together, when each makes one byte of progress
  Rate alone{};
};

// The most that an edge may carry, by the slowest kind of hop on its way.
using HopCaps = std::array<Rate, 3>;

// How a plan goes over the topology, beside its own rules.
struct RoutingRules {
  bool pxn = true;
  // What edges into and out of NVSwitches lose, where others of the plan do not: those cross their links `taken` times
  // in every unit of progress, others `kept` times, and a unit is `kept` bytes.
  InSwitchLoss loss{};
};

class RoutedPlan {
 public:
  // `rings` of the layout carry the plan; they must outlive it, as must `members`.
  RoutedPlan(const Hardware& hardware, std::span<const GpuId> members, const CommunicatorLayout& layout,
             const CollectiveAlgorithm& algorithm, std::shared_ptr<const Plan> plan, const RoutingRules& rules);

  // Bytes that one unit of an edge's progress carries: see RoutingRules.
  [[nodiscard]] std::int64_t unit() const { return rules_.loss.kept; }

  [[nodiscard]] const Plan& plan() const { return *plan_; }
  [[nodiscard]] const RoutedPhase& phase(std::size_t i) const { return phases_[i]; }

  // How message r of an edge travels, and what it uses.
  [[nodiscard]] EdgePath path(const PlanEdge& edge, std::int64_t r) const;
  // `times`: as often as that.
  void add_uses(const PlanEdge& edge, std::int64_t r, const EdgePath& path, UseCounter& counter,
                std::int64_t times = 1) const;

  // The slowest kind of hop of an edge.
  [[nodiscard]] Hop hop(std::size_t edge) const;

  // Latency of each edge under a protocol; of the slowest message where they differ.
  [[nodiscard]] std::vector<Duration> latencies(Protocol protocol) const;

  // What a phase takes on an idle machine beyond the time that its slowest edge needs for its bytes. With a_e the
  // latency of an edge, t_e its time for one message while all edges are busy and T the longest t_e:
  //   rotating, R repetitions: a message's way is R edges round the ring, the sum of their a_e + t_e; the slowest edge
  //     alone needs R T. Where it dominates, latencies of the others hide behind it.
  //   draining: the first message's way down the longest path of a_e + t_e, less the T that the slowest edge's own
  //     first message takes. While the first message is on its way, one edge in d
  //     is busy with it, so t_e is taken at d times the rate that the edge has when all are busy, but at no more than
  //     it has alone. (The messages behind it use what it leaves, and get their time back at the end.)
  // Equal edges: R a around a ring, d a + (d - 1) t along d edges. Depends on sets, not on the order of members.
  [[nodiscard]] Duration chain(std::size_t phase, std::span<const Duration> latencies, const PhaseSize& size,
                               Bytes message, const HopCaps& caps) const;

 private:
  struct Steps {
    std::vector<Duration> each;  // [edges of the phase] a_e + t_e
    Duration slowest{};          // T
    Duration latency_most{};
  };
  [[nodiscard]] Steps steps_of(std::size_t phase, std::span<const Duration> latencies, Bytes message,
                               const HopCaps& caps) const;
  [[nodiscard]] Duration rotating_chain(const PlanPhase& phase, const Steps& steps, std::int64_t repetitions) const;
  [[nodiscard]] Duration draining_chain(const PlanPhase& phase, const Steps& steps) const;

  // What the edges of a phase use, edge after edge; nothing of those whose receivers change.
  struct EdgeUses {
    std::vector<RawUse> all;
    std::vector<std::size_t> end;  // [edges of the phase]
  };
  void route_phase(const Hardware& hardware, const PlanPhase& phase);
  // By which NICs an edge between nodes goes.
  [[nodiscard]] RouteOptions nics_of(const PlanEdge& edge, std::int32_t to) const;
  void find_network_paths();
  [[nodiscard]] EdgePath switch_path(std::int32_t member, bool into) const;
  [[nodiscard]] EdgePath network_path(const PlanEdge& edge) const;
  void set_edge_rates(const RoutedPhase& routed, std::span<const std::int64_t> capacities, const EdgeUses& edges);

  const Topology& topology_;
  std::span<const GpuId> members_;
  const CommunicatorLayout& layout_;
  const CollectiveAlgorithm* algorithm_;
  std::shared_ptr<const Plan> plan_;
  RoutingRules rules_;
  std::vector<std::vector<std::int32_t>> own_nics_;  // [members], where NICs are of members
  std::vector<std::vector<EdgePath>> into_network_;  // [channels][nodes], where the network's switches reduce
  std::vector<RoutedPhase> phases_;
  std::vector<EdgeLatency> edge_latency_;  // [edges]
  std::vector<Rate> edge_rate_;            // [edges] while all edges of the phase are busy and nobody else is
  std::vector<Rate> edge_alone_;           // [edges] while no other edge is
};

}  // namespace orrery
