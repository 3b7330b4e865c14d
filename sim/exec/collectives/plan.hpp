// What a collective algorithm does, on no hardware: a pipelined graph of directed edges between members.
//
// An edge carries a counted number of equal messages ("repetitions") from one member to another. Message r of edge e
// may leave once message r - lag of every feeder of e has been delivered, or all messages of feeders in earlier phases
// (feeders end where e begins, or, where the receiver must be ready first, where e ends), and message r - 1 of e has
// left. Edges that carry one pipelined stream of
// equal messages form a phase; the phases of a plan are in an order in which they can be run one after the other.
// Nothing here grows with the number of messages: a ring over n members is n edges, whatever its 2(n-1) rounds.
//
//   ring all-reduce        n edges a channel, 2(n-1) repetitions, feeder: the edge before, lag 1
//   chains and trees       one edge a link of the tree, as many repetitions as chunks, feeders: children, lag 0
//   halving and doubling   one phase a stage, n edges of one repetition
//   pairwise exchange      one edge a member and lane, whose receiver changes from repetition to repetition
//   two levels             one phase inside the nodes, one between them, ...
//
// Bytes are not in the plan but follow from the size of the call (`size_of`), so that one plan serves all sizes. What
// each message carries is described by `Content`, which the players do not read: it is there so that a test can run
// the plan on symbolic data and prove that everyone ends with what the operation promises.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/graph/communication.hpp"

namespace orrery {

// The pieces of a channel's part of the buffer that message r of an edge carries: `width` pieces, `step` apart, from
// base + scale * ((first + r * stride) mod modulus) on (modulus 0: no wrapping round). Where pieces belong to members
// (reduce_scatter, all_gather), piece p belongs to position p of the channel's order. Messages before `combine_until`
// are reduced into what the receiver holds, later ones replace it.
struct Content {
  std::int32_t first = 0;
  std::int32_t stride = 0;
  std::int32_t width = 1;
  std::int32_t modulus = 1;
  std::int64_t combine_until = 0;
  std::int32_t step = 1;
  std::int32_t base = 0;
  std::int32_t scale = 1;
};

// `combine_until` of an edge whose every message is reduced.
inline constexpr std::int64_t kAlways = std::int64_t{1} << 62;

struct PlanEdge {
  std::int32_t from = 0;     // member index
  std::int32_t to = 0;       // of message 0; kSwitch, kNetwork: see below
  std::int32_t channel = 0;  // which of the communicator's distinct channels carries it
  std::int32_t lag = 0;      // see above
  // Pairwise exchange among the `to_span` members from `to_first` on (0: all): message r goes r * to_stride places
  // further than message 0, round and round, if r is among the first `length` repetitions.
  std::int32_t to_stride = 0;
  std::int32_t to_first = 0;
  std::int32_t to_span = 0;
  std::int32_t weight_row = 0;  // of the plan's weights
  std::int64_t length = -1;     // repetitions of this edge; -1: those of its phase
  std::int32_t first_feeder = 0;
  std::int32_t feeder_count = 0;
  Content content{};
};

// Pseudo-members that reduce and multicast: the NVSwitch of the node of the edge's other end, and the switches of the
// network, as one (each channel's own).
inline constexpr std::int32_t kSwitch = -2;
inline constexpr std::int32_t kNetwork = -3;

enum class Chain : std::uint8_t {
  rotating,  // lag 1 around cycles: every repetition waits for a neighbour's, latencies add up once per repetition
  draining,  // lag 0 along a directed acyclic graph: latencies add up along its longest path
};

struct PlanPhase {
  std::int32_t first_edge = 0;
  std::int32_t edge_count = 0;
  Chain chain = Chain::draining;
  // The payload of one edge over the phase is ceil(bytes x share / parts), cut into repetitions.
  std::int64_t share = 1;
  std::int64_t parts = 1;
  // Fixed number of repetitions, over which the payload is spread; 0: chunks, as many as the chunk size asks for.
  std::int64_t repetitions = 0;
  // Edges on the longest path of feeders (draining): how many messages must pass before the last edge is busy.
  std::int32_t depth = 1;
};

struct Plan {
  std::int32_t members = 0;
  std::int32_t channels = 0;
  std::vector<PlanPhase> phases;
  std::vector<PlanEdge> edges;        // phase after phase; a feeder with lag 0 comes before what it feeds
  std::vector<std::int32_t> feeders;  // edges [first_feeder, first_feeder + feeder_count) of each edge
  // Uneven exchanges: [rows][members] how many times a phase's payload a message carries, by its receiver or by its
  // sender. Empty: once.
  std::vector<std::int64_t> weights;
  bool weighs_sender = false;

  [[nodiscard]] std::span<const std::int32_t> feeders_of(const PlanEdge& edge) const {
    return std::span(feeders).subspan(static_cast<std::size_t>(edge.first_feeder),
                                      static_cast<std::size_t>(edge.feeder_count));
  }
  [[nodiscard]] std::span<const PlanEdge> edges_of(const PlanPhase& phase) const {
    return std::span(edges).subspan(static_cast<std::size_t>(phase.first_edge),
                                    static_cast<std::size_t>(phase.edge_count));
  }
  // How many times the phase's payload message r of an edge carries.
  [[nodiscard]] std::int64_t weight(const PlanEdge& edge, std::int64_t r) const {
    if (weights.empty()) return 1;
    const std::int32_t by = weighs_sender ? edge.from : receiver(edge, r);
    return weights[static_cast<std::size_t>(edge.weight_row) * static_cast<std::size_t>(members) +
                   static_cast<std::size_t>(by)];
  }
  [[nodiscard]] std::int64_t heaviest() const;
  // The member that message r of an edge goes to.
  [[nodiscard]] std::int32_t receiver(const PlanEdge& edge, std::int64_t r) const {
    if (edge.to_stride == 0) return edge.to;
    const std::int32_t span = edge.to_span > 0 ? edge.to_span : members;
    return edge.to_first + static_cast<std::int32_t>((edge.to - edge.to_first + r * edge.to_stride) % span);
  }
};

// How a phase is cut into messages for one size of call.
struct PhaseSize {
  std::int64_t repetitions = 0;  // of an edge without a length of its own
  Bytes payload{};               // of one message; every message of a phase is as large
};

// Chunked phases use messages of `chunk_max` bytes, or smaller ones so that a pipeline of depth d sees about
// kChunksPerHop x d messages, but none below `chunk_min`.
struct ChunkRule {
  Bytes chunk_min{};
  Bytes chunk_max{};
};
inline constexpr std::int64_t kChunksPerHop = 8;

[[nodiscard]] PhaseSize size_of(const PlanPhase& phase, Bytes bytes, const ChunkRule& rule);
[[nodiscard]] std::int64_t repetitions_of(const PlanEdge& edge, const PhaseSize& size);

// Messages and payload bytes of a whole plan, each message counted once.
struct PlanTotals {
  std::int64_t messages = 0;
  std::int64_t bytes = 0;
};
[[nodiscard]] PlanTotals totals_of(const Plan& plan, Bytes bytes, const ChunkRule& rule);

// Puts a plan together edge by edge.
class PlanBuilder {
 public:
  PlanBuilder(std::int32_t members, std::int32_t channels);

  // Edges added from here on belong to this phase. Its depth is worked out from the feeders.
  void begin_phase(const PlanPhase& phase);
  // Returns the edge's index.
  std::int32_t add_edge(const PlanEdge& edge, std::span<const std::int32_t> feeders = {});
  // Returns the row that the weights, of all members, are.
  std::int32_t add_weights(std::span<const std::int64_t> weights, bool weighs_sender);
  [[nodiscard]] Plan finish() &&;

 private:
  Plan plan_;
  std::vector<std::vector<std::int32_t>> feeders_;  // [edges]
};

}  // namespace orrery
