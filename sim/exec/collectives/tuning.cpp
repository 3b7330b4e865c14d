#include "sim/exec/collectives/tuning.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "sim/base/check.hpp"

namespace orrery {

namespace {

constexpr double kForbidden = std::numeric_limits<double>::infinity();

// Factors on the tree's bandwidth for sizes of 64 B, 128 B, ... 256 MiB: its dip at medium sizes.
constexpr std::array<std::array<double, 24>, 3> kTreeDip{{
    {1, 1, 1, 1, .9, .8, .7, .7, .7, .7, .6, .5, .4, .4, .5, .6, .7, .8, .9, 1, 1, 1, 1, 1},
    {1, 1, 1, 1, 1, .9, .8, .8, .8, .7, .6, .6, .6, .6, .6, .6, .8, .9, .9, .9, .9, 1, 1, 1},
    {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9, .9},
}};

double seconds(Duration d) { return to_seconds(d); }

int floor_log2(std::int32_t n) { return static_cast<int>(std::bit_width(static_cast<std::uint32_t>(n))) - 1; }

// Rounds of a ring, and how many of them cross between nodes.
struct Rounds {
  double all = 0;
  double inter = 0;
};
Rounds rounds_of(const CommunicatorLayout& layout, CollectiveOp op) {
  const double n = layout.members();
  const double nodes = layout.nodes;
  if (op == CollectiveOp::all_reduce) return {2 * (n - 1), nodes > 1 ? 2 * (nodes - 1) : 0};
  if (op == CollectiveOp::broadcast || op == CollectiveOp::reduce) return {n, nodes > 1 ? nodes - 1 : 0};
  return {n - 1, nodes > 1 ? nodes - 1 : 0};
}

double latency(const CommunicatorLayout& layout, CostFamily family, Protocol protocol, CollectiveOp op, double bytes) {
  const double intra = seconds(hop_latency(family, protocol, layout.intra));
  const double base = seconds(base_latency(family, protocol));
  if (family == CostFamily::in_switch) return base + 2 * intra;
  const double per_node = static_cast<double>(layout.members()) / layout.nodes;
  const double network = seconds(hop_latency(family, protocol, Hop::network));
  constexpr double kEachDirectPeer = 0.4e-6;
  switch (family) {
    case CostFamily::nvls_tree:
      return 4 * intra + 2 * floor_log2(layout.nodes) * network;
    case CostFamily::nvls_sharp:
      return 4 * intra + 2 * network;
    case CostFamily::sharp:
      return 2 * (std::min(1.0, per_node - 1) * intra + kEachDirectPeer * (per_node - 1)) + 2 * network;
    case CostFamily::sharp_chain:
      return 2 * (per_node - 1) * intra + 2 * network;
    default:
      break;
  }
  const bool one_each = layout.members() == layout.nodes;
  const CostFamily network_row = one_each ? CostFamily::tree : family;
  const double inter = seconds(hop_latency(network_row, protocol, Hop::network));
  if (family == CostFamily::tree) {
    return base + 2 * ((per_node - 1) * intra + floor_log2(layout.nodes) * inter);
  }
  const Rounds rounds = rounds_of(layout, op);
  constexpr double kNetOverhead = 1e-6;
  const double overhead = layout.nodes > 1 ? kNetOverhead * (protocol == Protocol::simple ? 3 : 1) : 0;
  if (op == CollectiveOp::broadcast || op == CollectiveOp::reduce) {
    return base + (layout.nodes > 1 ? inter : intra);
  }
  double total = base + (rounds.all - rounds.inter) * std::max(intra, overhead) + rounds.inter * inter;
  const bool large = bytes / (static_cast<double>(layout.channels) * layout.members()) >= 64;
  if (protocol == Protocol::simple && layout.nodes > 1 && op == CollectiveOp::all_reduce && large) {
    total *= layout.generation == GpuGeneration::volta ? 1.9 : 1.4;
  }
  return total;
}

bool is_sharp(CostFamily family) { return family == CostFamily::sharp || family == CostFamily::sharp_chain; }

// Bus bandwidth of what switches reduce, inside and between the nodes, in bytes per second.
double switched_bandwidth(const CommunicatorLayout& layout, CostFamily family) {
  const double heads = layout.heads;
  const double inside = layout.planned_inside.count() / heads;
  const double between = layout.planned.count() / heads;
  if (is_sharp(family)) {
    if (family == CostFamily::sharp_chain) return heads * inside;
    const double crowding = layout.members() / (layout.nodes * heads);
    const double softened = crowding - (crowding - 1) / 2;
    return heads * inside / softened * (layout.generation >= GpuGeneration::hopper ? 0.85 : 1);
  }
  const double nvls = 2 * inside * in_switch_efficiency(layout.generation) * (heads - 1) / heads;
  if (family == CostFamily::nvls_sharp) return heads * std::min(nvls, between);
  const double both_ways = layout.nodes <= 2 ? 2 : 1;
  return heads * std::min({nvls, both_ways * between, nvls_tree_cap(layout.generation, layout.nodes).count()});
}

// Bus bandwidth in bytes per second.
double bus_bandwidth(const CommunicatorLayout& layout, CostFamily family, Protocol protocol, double bytes) {
  if (is_sharp(family) || mixes_switches_and_network(family)) return switched_bandwidth(layout, family);
  const double planned = (family == CostFamily::tree ? layout.planned_tree : layout.planned).count();
  const double channels = layout.searched_channels;
  const double low_latency = low_latency_cap(layout.generation, layout.nodes).count();
  const double cap = channels * channel_cap(family, protocol, layout.generation, layout.nodes).count();
  if (family == CostFamily::in_switch) {
    const double lost = (channels - 1) / channels;
    return 2 * planned * in_switch_efficiency(layout.generation) * lost;
  }
  if (family == CostFamily::ring) {
    if (protocol == Protocol::ll) return std::min(low_latency, planned / 2);
    return protocol == Protocol::ll128 ? std::min(0.92 * planned, cap) : planned;
  }
  const double simple = std::min(
      0.92 * planned, channels * channel_cap(family, Protocol::simple, layout.generation, layout.nodes).count());
  double bus = simple;
  if (protocol == Protocol::ll) bus = std::min(simple / 3.8, low_latency);
  if (protocol == Protocol::ll128) bus = std::min(simple * (layout.nodes == 1 ? 7. / 9 : 120. / 128), cap);
  const int step = std::max(0, static_cast<int>(std::bit_width(static_cast<std::uint64_t>(bytes))) - 7);
  if (step < 24) bus *= kTreeDip[static_cast<std::size_t>(protocol)][static_cast<std::size_t>(step)];
  return bus;
}

// NCCL's buffers and flags allow LL128 on NVLink, and across nodes when the NIC is near.
bool allowed(const CommunicatorLayout& layout, const CollectiveAlgorithm& algorithm, Protocol protocol) {
  if (algorithm.simple_only && protocol != Protocol::simple) return false;
  if (algorithm.need.met != nullptr && !algorithm.need.met(layout)) return false;
  if (algorithm.family == CostFamily::in_switch || mixes_switches_and_network(algorithm.family)) {
    return layout.members() > 2 && in_switch_efficiency(layout.generation) > 0 &&
           (layout.nodes == 1 || layout.heads > 1);
  }
  if (protocol == Protocol::ll128) return layout.intra == Hop::nvlink;
  return true;
}

}  // namespace

bool possible(const CommunicatorLayout& layout, const CollectiveAlgorithm& algorithm, CollectiveOp op) {
  return algorithm.has(op) && (algorithm.need.met == nullptr || algorithm.need.met(layout));
}

double estimated_seconds(const CommunicatorLayout& layout, const CollectiveAlgorithm& algorithm, Protocol protocol,
                         CollectiveOp op, Bytes bytes) {
  if (!algorithm.has(op) || !allowed(layout, algorithm, protocol)) return kForbidden;
  const double size = static_cast<double>(bytes.count());
  const double bus = bus_bandwidth(layout, algorithm.family, protocol, size);
  const double n = layout.members();
  const bool by_rounds = algorithm.family != CostFamily::tree && !is_sharp(algorithm.family);
  double rounds = rounds_of(layout, op).all;
  if (op == CollectiveOp::broadcast || op == CollectiveOp::reduce) rounds = n;
  const double to_algorithm = by_rounds ? n / rounds : 0.5;
  return latency(layout, algorithm.family, protocol, op, size) + size / (bus * to_algorithm);
}

std::int32_t channels_for(const CommunicatorLayout& layout, const CollectiveAlgorithm& algorithm, Protocol protocol,
                          Bytes bytes, int forced) {
  const std::int32_t most = forced > 0 ? forced : layout.channels;
  const ProtocolRow& row = row_of(protocol);
  const bool nvls = algorithm.family == CostFamily::in_switch || mixes_switches_and_network(algorithm.family);
  if (row.thread_threshold == 0 || nvls || forced > 0) return most;
  std::int64_t threshold = row.thread_threshold;
  if (protocol == Protocol::ll && algorithm.family == CostFamily::ring) threshold *= layout.members();
  constexpr std::int64_t kSharpThreshold = 512;  // NCCL_COLLNET thresholds of src/graph/tuning.cc
  if (is_sharp(algorithm.family)) threshold = kSharpThreshold;
  const std::int64_t enough = bytes.count() / (row.threads * threshold);
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(enough, 1, most));
}

Protocol transfer_protocol(Bytes bytes, const std::string& forced) {
  const int protocol = find_protocol(forced);
  if (protocol >= 0) return static_cast<Protocol>(protocol);
  constexpr std::int64_t kLowLatencyMost = 16 << 10;  // NCCL_P2P_LL_THRESHOLD, src/enqueue.cc
  return bytes.count() <= kLowLatencyMost ? Protocol::ll : Protocol::simple;
}

TuningChoice choose(const CommunicatorLayout& layout, CollectiveOp op, Bytes bytes, const TuningRequest& request) {
  const CollectiveAlgorithm* forced = find_collective_algorithm(request.algorithm);
  if (forced != nullptr && !possible(layout, *forced, op)) forced = nullptr;
  int forced_protocol = find_protocol(request.protocol);
  if (op == CollectiveOp::all_to_all) {
    forced_protocol = static_cast<int>(transfer_protocol(bytes / layout.members(), request.protocol));
  }

  TuningChoice best;
  double best_time = kForbidden;
  for (const CollectiveAlgorithm& algorithm : collective_algorithm_rows()) {
    const bool offered = algorithm.chosen_by_auto && (request.sharp || !algorithm.uses_network_switches);
    if (forced != nullptr ? forced != &algorithm : !(offered && possible(layout, algorithm, op))) continue;
    for (std::size_t p = 0; p < kProtocols; ++p) {
      const auto protocol = static_cast<Protocol>(p);
      if (forced_protocol >= 0 ? static_cast<int>(p) != forced_protocol : !protocol_rows()[p].chosen_by_auto) continue;
      // A forced protocol outside NCCL's model is priced as Simple.
      const Protocol priced = protocol == Protocol::ideal ? Protocol::simple : protocol;
      const double time = estimated_seconds(layout, algorithm, priced, op, bytes);
      if (best.algorithm == nullptr || time < best_time) {
        best = {&algorithm, protocol, 1, op};
        best_time = time;
      }
    }
  }
  ORRERY_CHECK(best.algorithm != nullptr, "every operation has an algorithm", static_cast<int>(op));
  if (best.algorithm->simple_only && best.protocol != Protocol::ideal) best.protocol = Protocol::simple;
  best.channels = channels_for(layout, *best.algorithm, best.protocol, bytes, request.channels);
  return best;
}

std::int32_t rings_for(const CommunicatorLayout& layout, const TuningChoice& choice) {
  if (!choice.algorithm->follows_rings || choice.op == CollectiveOp::all_to_all) return 1;
  const CostFamily family = choice.algorithm->family;
  const bool pairs = layout.nodes > 1 && (family == CostFamily::tree || family == CostFamily::nvls_tree);
  return std::min(layout.rings(), pairs ? std::max(1, choice.channels / 2) : choice.channels);
}

PlanInput plan_input(const CommunicatorLayout& layout, CollectiveOp op, std::int32_t rings) {
  return {op, std::span(layout.orders).first(static_cast<std::size_t>(rings)), layout.node_of};
}

namespace {

// NVLSTree's chunks have 32 to 256 KiB, CollNet's 32 KiB to a step of the buffer (src/enqueue.cc). The channels that
// serve one rail, or one of its two trees, are one edge of the plan.
ChunkRule switched_chunks(const CommunicatorLayout& layout, const TuningChoice& choice, Bytes buffer) {
  const std::int64_t trees = choice.algorithm->family == CostFamily::nvls_tree ? 2 : 1;
  const std::int64_t side_by_side = std::max<std::int64_t>(1, choice.channels / (rings_for(layout, choice) * trees));
  const std::int64_t most =
      mixes_switches_and_network(choice.algorithm->family) ? 256 << 10 : buffer.count() / kBufferSteps;
  constexpr std::int64_t kLeast = 32 << 10;
  return {Bytes(kLeast * side_by_side), Bytes(std::max(most, kLeast) * side_by_side)};
}

}  // namespace

ChunkRule chunks_for(const CommunicatorLayout& layout, const TuningChoice& choice, Bytes buffer) {
  if (choice.algorithm->family == CostFamily::in_switch) {
    constexpr std::int64_t kPerMember = std::int64_t{16} * (128 << 10);
    return {Bytes(kPerMember * layout.members()), Bytes(kPerMember * layout.members())};
  }
  if (mixes_switches_and_network(choice.algorithm->family) || is_sharp(choice.algorithm->family)) {
    return switched_chunks(layout, choice, buffer);
  }
  if (choice.algorithm->family != CostFamily::tree || choice.protocol != Protocol::simple) {
    return row_of(choice.protocol).chunks;
  }
  // Blocks that follow one tree side by side are one edge of the plan.
  const std::int64_t streams = std::int64_t{rings_for(layout, choice)} * (layout.nodes > 1 ? 2 : 1);
  const Bytes chunk(divide_up(buffer.count() / kBufferSteps * choice.channels, streams));
  return {chunk, chunk};
}

double wire_cap(const CommunicatorLayout& layout, const TuningChoice& choice, std::int32_t rings, Hop hop) {
  if (choice.protocol == Protocol::ideal) return kForbidden;
  const CostFamily family = choice.algorithm->family;
  const double blocks = choice.channels;
  // What NCCL's tables say for several nodes is a matter of the network.
  const int nodes = hop == Hop::network ? layout.nodes : 1;
  double cap = kForbidden;
  if (choice.protocol == Protocol::ll) {
    cap = low_latency_cap(layout.generation, nodes).count();
  } else {
    cap = blocks * (choice.protocol == Protocol::simple
                        ? block_cap(layout.generation).count()
                        : channel_cap(family, choice.protocol, layout.generation, nodes).count() / 2);
  }
  // Copies by the switches, and what waits for them, run on all threads: no cap is named.
  if (family == CostFamily::in_switch || is_sharp(family) || mixes_switches_and_network(family)) cap = kForbidden;
  // A tree's block carries what goes up and what comes down; two trees share the blocks of a ring.
  const bool across = layout.nodes > 1;
  const double streams = family == CostFamily::tree && choice.algorithm->name == "tree" ? (across ? 4 : 2) : 1;
  const ProtocolRow& row = row_of(choice.protocol);
  return cap / (rings * streams) * static_cast<double>(row.wire) / static_cast<double>(row.payload);
}

}  // namespace orrery
