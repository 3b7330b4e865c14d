#include "sim/exec/collectives/protocol.hpp"

#include <algorithm>
#include <limits>
#include <numeric>

#include "sim/base/check.hpp"

namespace orrery {

namespace {

using namespace literals;

// The largest chunk is the payload of one of the eight steps of a channel's buffer: 4 MiB for Simple, 512 KiB with half
// of it flags for LL, 120 x 640 x 64 B with a 16th of it flags for LL128. The smallest of LL and LL128 is what one warp
// moves in a pass, since each waits for its own flags alone: 8 B a thread, or 16 lines of 120 B; of Simple, 512 threads
// of 32 B.
constexpr std::array<ProtocolRow, kProtocols> kRows{{
    {.name = "ll",
     .doc = "8-byte stores, half of them flags: least latency, half of the bandwidth",
     .wire = 2,
     .payload = 1,
     .chosen_by_auto = true,
     .threads = 512,
     .thread_threshold = 8,
     .chunks = {Bytes(256), Bytes(32 << 10)}},
    {.name = "ll128",
     .doc = "128-byte lines with 8 bytes of flag: low latency, most of the bandwidth",
     .wire = 128,
     .payload = 120,
     .chosen_by_auto = true,
     .threads = 640,
     .thread_threshold = 8,
     .chunks = {Bytes(1920), Bytes(576'000)}},
    {.name = "simple",
     .doc = "plain data in slices with fences: all of the bandwidth, most latency",
     .chosen_by_auto = true,
     .threads = 512,
     .thread_threshold = 64,
     .chunks = {Bytes(16 << 10), Bytes(512 << 10)}},
    {.name = "ideal", .doc = "no overhead: for comparison with closed forms", .chunks = {Bytes(1), Bytes(512 << 10)}},
}};

constexpr std::array kLibraries{
    LibraryRow{.name = "nccl", .doc = "2.30, whose constants these are; fits logs of 2023 and later"},
    // Fitted: the smallest rows of the logs in microsoft/superbenchmark (tests/data, nccl-tests of 2021, 8 A100): 34.0
    // to 35.0 us for five operations, where the constants give 10.8 and (all_reduce) 15.0.
    LibraryRow{.name = "nccl-2021",
               .doc = "before 2.10, one process for all GPUs: cooperative launches add 22 us",
               .base = Duration(22'000'000)},
};

// [protocol] in nanoseconds.
using Latencies = std::array<std::int64_t, 3>;
constexpr Latencies kBaseRing{6'600, 14'000, 8'400};
constexpr Latencies kBaseTree{6'800, 14'000, 8'400};
constexpr std::array<Latencies, 3> kHopRing{{{600, 1'900, 3'400}, {1'000, 2'500, 5'700}, {2'700, 4'000, 14'000}}};
constexpr std::array<Latencies, 3> kHopTree{{{600, 1'250, 4'000}, {1'000, 1'900, 4'000}, {5'000, 8'500, 14'000}}};
// NCCL prices NVLS on one node at 25 us in all: two hops, into the switch and out of it.
constexpr std::int64_t kHopInSwitch = 12'500;

// What NCCL prices across nodes with the help of switches: two hops inside the nodes before the network and two after
// it share what it says for all of them together, the ways into and out of the network's switches likewise.
struct SwitchedHops {
  std::int64_t inside = 0;
  std::int64_t network = 0;
};
constexpr SwitchedHops kHopNvlsTree{25'000 / 4, 20'900};
constexpr SwitchedHops kHopNvlsSharp{25'000 / 4, 18'000 / 2};
constexpr SwitchedHops kHopSharp{3'700, 31'000 / 2};
constexpr SwitchedHops kHopSharpChain{2'800, 30'000 / 2};

// Null for families that no switch helps, and for NVLS on one node.
const SwitchedHops* switched_hops(CostFamily family) {
  switch (family) {
    case CostFamily::nvls_tree:
      return &kHopNvlsTree;
    case CostFamily::nvls_sharp:
      return &kHopNvlsSharp;
    case CostFamily::sharp:
      return &kHopSharp;
    case CostFamily::sharp_chain:
      return &kHopSharpChain;
    default:
      return nullptr;
  }
}

// A hop that ends in the network's switches is half of one from node to node.
bool ends_in_network(CostFamily family) { return switched_hops(family) != nullptr && family != CostFamily::nvls_tree; }

// What the hop constants contain of wire time, on the machines they were made for: NVLink through a switch, a PCIe
// switch, and InfiniBand through one switch (RDMA write of a few bytes between two hosts: 1.8 to 2.0 us, perftest).
constexpr std::array<std::int64_t, 3> kWire{500, 300, 2'000};

// [generation][nodes: one, two, more] in GB/s; llMaxBws of tuning.cc. NCCL picks the row by the GPU on one node and by
// the host's CPU on more, Intel's being that of Volta and AMD's that of Ampere: the CPUs of a DGX of each generation.
constexpr std::array<std::array<double, 3>, kGpuGenerations> kLowLatencyMax{
    {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 39, 20.4}, {282, 39, 20.4}}};
constexpr std::array<std::array<double, 3>, kGpuGenerations> kRingLl128{
    {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {40, 40, 40}}};
constexpr std::array<std::array<double, 3>, kGpuGenerations> kTreeLl128{
    {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}}};
constexpr std::array<std::array<double, 3>, kGpuGenerations> kTreeSimple{
    {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}}};
constexpr std::array<std::array<double, 3>, kGpuGenerations> kNvlsTree{
    {{0, 0, 0}, {0, 0, 0}, {0, 57.7, 45.5}, {0, 96, 80}}};

std::size_t scale_index(int nodes) { return static_cast<std::size_t>(std::clamp(nodes, 1, 3) - 1); }
std::size_t index(GpuGeneration generation) { return static_cast<std::size_t>(generation); }
std::size_t index(Protocol protocol) { return static_cast<std::size_t>(protocol); }
Duration from_nanoseconds(std::int64_t ns) { return Duration(ns * 1000); }
BytesPerSecond from_gigabytes(double rate) { return BytesPerSecond(rate * 1e9); }

}  // namespace

std::span<const ProtocolRow> protocol_rows() { return kRows; }

const ProtocolRow& row_of(Protocol protocol) { return kRows[index(protocol)]; }

std::span<const LibraryRow> library_rows() { return kLibraries; }

const LibraryRow* find_library(std::string_view name) {
  for (const LibraryRow& row : kLibraries) {
    if (row.name == name) return &row;
  }
  return nullptr;
}

int find_protocol(std::string_view name) {
  for (std::size_t i = 0; i < kRows.size(); ++i) {
    if (kRows[i].name == name) return static_cast<int>(i);
  }
  return -1;
}

Bytes wire_bytes(Protocol protocol, Bytes payload) {
  const ProtocolRow& row = row_of(protocol);
  const std::int64_t whole = payload.count() / row.payload * row.wire;
  return Bytes(whole + divide_up(payload.count() % row.payload * row.wire, row.payload));
}

Duration hop_latency(CostFamily family, Protocol protocol, Hop hop) {
  if (protocol == Protocol::ideal) return Duration::zero();
  if (family == CostFamily::in_switch) return from_nanoseconds(kHopInSwitch);
  if (const SwitchedHops* hops = switched_hops(family)) {
    return from_nanoseconds(hop == Hop::network ? hops->network : hops->inside);
  }
  const auto& table = family == CostFamily::tree ? kHopTree : kHopRing;
  return from_nanoseconds(table[static_cast<std::size_t>(hop)][index(protocol)]);
}

Duration base_latency(CostFamily family, Protocol protocol) {
  const bool switched = family == CostFamily::in_switch || switched_hops(family) != nullptr;
  if (protocol == Protocol::ideal || switched) return Duration::zero();
  return from_nanoseconds((family == CostFamily::tree ? kBaseTree : kBaseRing)[index(protocol)]);
}

Duration software_latency(CostFamily family, Protocol protocol, Hop hop) {
  const std::int64_t half = hop == Hop::network && ends_in_network(family) ? 2 : 1;
  const Duration wire = from_nanoseconds(kWire[static_cast<std::size_t>(hop)] / half);
  return std::max(Duration::zero(), hop_latency(family, protocol, hop) - wire);
}

BytesPerSecond low_latency_cap(GpuGeneration generation, int nodes) {
  return from_gigabytes(kLowLatencyMax[index(generation)][scale_index(nodes)]);
}

BytesPerSecond channel_cap(CostFamily family, Protocol protocol, GpuGeneration generation, int nodes) {
  const std::size_t scale = scale_index(nodes);
  const bool tree = family == CostFamily::tree;
  if (protocol == Protocol::ll128) return from_gigabytes((tree ? kTreeLl128 : kRingLl128)[index(generation)][scale]);
  if (protocol == Protocol::simple && tree) return from_gigabytes(kTreeSimple[index(generation)][scale]);
  return BytesPerSecond(std::numeric_limits<double>::infinity());
}

BytesPerSecond block_cap(GpuGeneration generation) { return from_gigabytes(kTreeSimple[index(generation)][0]); }

double in_switch_efficiency(GpuGeneration generation) {
  if (generation == GpuGeneration::hopper) return 0.85;
  return generation == GpuGeneration::blackwell ? 0.74 : 0;
}

InSwitchLoss in_switch_loss(GpuGeneration generation) {
  const double efficiency = in_switch_efficiency(generation);
  if (efficiency <= 0) return {};
  const auto percent = static_cast<std::int64_t>(100 * efficiency + 0.5);
  const std::int64_t common = std::gcd(percent, std::int64_t{100});
  return {percent / common, 100 / common};
}

BytesPerSecond nvls_tree_cap(GpuGeneration generation, int nodes) {
  return from_gigabytes(kNvlsTree[index(generation)][scale_index(nodes)]);
}

}  // namespace orrery
