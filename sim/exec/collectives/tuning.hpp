// Which algorithm, protocol and number of channels NCCL would take: its cost model (src/graph/tuning.cc, v2.30.7).
//
//   time = latency + bytes / bandwidth, for every allowed pair of algorithm and protocol; the least wins.
//
// The estimate chooses and does nothing else: how long an operation takes comes from its simulated flows.
#pragma once

#include <cstdint>
#include <string>

#include "sim/exec/collectives/layout.hpp"

namespace orrery {

inline constexpr Bytes kBuffer = Bytes(4 << 20);  // NCCL_BUFFSIZE
inline constexpr std::int64_t kBufferSteps = 8;   // NCCL_STEPS

struct TuningRequest {
  std::string algorithm = "auto";  // forced where it has the operation and the hardware allows it
  std::string protocol = "auto";
  int channels = 0;        // 0: NCCL's
  Bytes buffer = kBuffer;  // of a block, for the Simple protocol
  bool sharp = false;      // whether `auto` may use the network's switches (NCCL_COLLNET_ENABLE)
  bool pxn = true;         // whether messages may leave by other GPUs' NICs (NCCL_P2P_PXN_LEVEL)
};

struct TuningChoice {
  const CollectiveAlgorithm* algorithm = nullptr;
  Protocol protocol = Protocol::simple;
  std::int32_t channels = 1;  // blocks that run
  CollectiveOp op = CollectiveOp::all_reduce;
};

// Whether the algorithm has the operation and the hardware allows it there.
[[nodiscard]] bool possible(const CommunicatorLayout& layout, const CollectiveAlgorithm& algorithm, CollectiveOp op);

// NCCL's estimate in seconds; infinite where the pair is not allowed. At least two members.
[[nodiscard]] double estimated_seconds(const CommunicatorLayout& layout, const CollectiveAlgorithm& algorithm,
                                       Protocol protocol, CollectiveOp op, Bytes bytes);

[[nodiscard]] TuningChoice choose(const CommunicatorLayout& layout, CollectiveOp op, Bytes bytes,
                                  const TuningRequest& request);

// Point-to-point messages (all-to-all is made of them) are not priced: LL up to 16 KiB, Simple above, or as forced.
[[nodiscard]] Protocol transfer_protocol(Bytes bytes, const std::string& forced);

// Small operations run on fewer channels, so that every thread has something to do.
[[nodiscard]] std::int32_t channels_for(const CommunicatorLayout& layout, const CollectiveAlgorithm& algorithm,
                                        Protocol protocol, Bytes bytes, int forced);

// How many of the layout's rings carry the plan, and what the algorithm is told of them. A block carries one ring, or
// one of the two trees of a ring.
[[nodiscard]] std::int32_t rings_for(const CommunicatorLayout& layout, const TuningChoice& choice);
[[nodiscard]] PlanInput plan_input(const CommunicatorLayout& layout, CollectiveOp op, std::int32_t rings);

// Chunks of pipelined phases. Trees under Simple: one of the eight steps of a block's buffer (src/enqueue.cc), however
// small the operation, so that a tree fills slowly at medium sizes; LL and LL128 carry a flag with every line, so that
// a block forwards what its threads move in one pass. Chains of broadcast and reduce: as fine as the pipeline likes,
// between the row's bounds, under Simple too: by NCCL's source they have the steps of trees, but 8 A100 show no such
// fill (microsoft/superbenchmark logs: 6 % off with fine chunks, 58 % with whole steps).
// NVLS moves a loop of 128 KiB per member and channel (16 channels) through the switch before it begins the next. NCCL
// cuts operations below 1 GiB finer, and each loop then costs more; a loop of 16 MiB (eight GPUs) at all sizes stands
// for both. Chosen on logs of 8 H100: within 7 % of them from 4 MiB up, 5 to 13 % short at 2 MiB.
[[nodiscard]] ChunkRule chunks_for(const CommunicatorLayout& layout, const TuningChoice& choice, Bytes buffer);

// The most that one edge of a ring's share may carry on the wire over hops of this kind, given the blocks that run;
// infinite if nothing caps.
[[nodiscard]] double wire_cap(const CommunicatorLayout& layout, const TuningChoice& choice, std::int32_t rings,
                              Hop hop);

}  // namespace orrery
