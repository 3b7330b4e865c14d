// NCCL's wire protocols, and what it knows of hop latencies and of what a channel can carry.
//
// LL sends 4 bytes of flag with every 4 of data, so that the receiver sees data arrive without a fence; LL128 sends 8
// bytes of flag in every 128-byte line; Simple sends plain data and synchronises by fences, a slice at a time. `ideal`
// is none of NCCL's: no overhead at all, for comparison with closed forms.
//
// All constants are NCCL v2.30.7's own, from src/graph/tuning.cc (latencies, efficiencies, caps) and
// src/include/{device,collectives}.h (buffer and chunk sizes). NCCL uses them to choose; here the same numbers describe
// what a hop costs, and the choice is made with its formula (tuning.hpp).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>

#include "sim/base/units.hpp"
#include "sim/exec/collectives/algorithm.hpp"
#include "sim/exec/collectives/plan.hpp"

namespace orrery {

enum class Protocol : std::uint8_t { ll, ll128, simple, ideal };
inline constexpr std::size_t kProtocols = 4;

struct ProtocolRow {
  std::string_view name;
  std::string_view doc;
  // Wire bytes per payload byte, as a fraction.
  std::int64_t wire = 1;
  std::int64_t payload = 1;
  bool chosen_by_auto = false;
  int threads = 512;         // of a channel's block, at most
  int thread_threshold = 0;  // bytes per thread below which NCCL uses fewer channels; 0: never fewer
  ChunkRule chunks;          // of pipelined phases
};

[[nodiscard]] std::span<const ProtocolRow> protocol_rows();
[[nodiscard]] const ProtocolRow& row_of(Protocol protocol);
// Index of the row with this name, or -1.
[[nodiscard]] int find_protocol(std::string_view name);

// Bytes on the wire for a payload, rounded up.
[[nodiscard]] Bytes wire_bytes(Protocol protocol, Bytes payload);

// Versions of the library whose operations cost a fixed time more than the constants here say.
struct LibraryRow {
  std::string_view name;
  std::string_view doc;
  Duration base{};  // added to base_latency()
};
[[nodiscard]] std::span<const LibraryRow> library_rows();
// Null if there is no such row.
[[nodiscard]] const LibraryRow* find_library(std::string_view name);

enum class Hop : std::uint8_t { nvlink, pcie, network };

// NCCL's latency of one hop of an algorithm, and its fixed part per operation.
[[nodiscard]] Duration hop_latency(CostFamily family, Protocol protocol, Hop hop);
[[nodiscard]] Duration base_latency(CostFamily family, Protocol protocol);

// The part of a hop's latency that is software: NCCL's constant less the wire time that it contains. The time of the
// route in the simulated topology is added to it, so that a longer route costs more and no part counts twice.
[[nodiscard]] Duration software_latency(CostFamily family, Protocol protocol, Hop hop);

// The generation of GPU by which NCCL picks its caps.
enum class GpuGeneration : std::uint8_t { volta, ampere, hopper, blackwell };
inline constexpr std::size_t kGpuGenerations = 4;

// What all channels together can carry with LL, in payload, when `nodes` take part.
[[nodiscard]] BytesPerSecond low_latency_cap(GpuGeneration generation, int nodes);
// What one of the channels that the search found (two blocks) can carry in LL128, or in Simple along a tree (up and
// down together), in payload; infinite where NCCL names no cap.
[[nodiscard]] BytesPerSecond channel_cap(CostFamily family, Protocol protocol, GpuGeneration generation, int nodes);
// What one block can carry in Simple at most: it matters when there are few. NCCL names no such cap for rings and
// transfers; this is its cap for a searched channel of a tree on one node.
[[nodiscard]] BytesPerSecond block_cap(GpuGeneration generation);

// Share of the NVLink rate that loads, reductions and stores through the switch reach (NVLS); 0: the GPU has none.
[[nodiscard]] double in_switch_efficiency(GpuGeneration generation);

// The same as a fraction: `taken` bytes' worth of NVLink carry `kept` bytes of payload.
struct InSwitchLoss {
  std::int64_t kept = 1;
  std::int64_t taken = 1;
};
[[nodiscard]] InSwitchLoss in_switch_loss(GpuGeneration generation);

// What one channel between nodes can carry where NVSwitches reduce inside them (NVLSTree); 0: NCCL does not use it.
[[nodiscard]] BytesPerSecond nvls_tree_cap(GpuGeneration generation, int nodes);

}  // namespace orrery
