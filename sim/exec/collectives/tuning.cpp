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
  const bool one_each = layout.members() == layout.nodes;
  const CostFamily network_row = one_each ? CostFamily::tree : family;
  const double inter = seconds(hop_latency(network_row, protocol, Hop::network));
  if (family == CostFamily::tree) {
    const double per_node = static_cast<double>(layout.members()) / layout.nodes;
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

// Bus bandwidth in bytes per second.
double bus_bandwidth(const CommunicatorLayout& layout, CostFamily family, Protocol protocol, double bytes) {
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
  if (algorithm.single_node_switch) {
    return layout.switch_reduces && layout.members() > 2 && in_switch_efficiency(layout.generation) > 0;
  }
  if (protocol == Protocol::ll128) return layout.intra == Hop::nvlink;
  return true;
}

}  // namespace

bool possible(const CommunicatorLayout& layout, const CollectiveAlgorithm& algorithm, CollectiveOp op) {
  return algorithm.has(op) && (!algorithm.single_node_switch || layout.switch_reduces);
}

double estimated_seconds(const CommunicatorLayout& layout, const CollectiveAlgorithm& algorithm, Protocol protocol,
                         CollectiveOp op, Bytes bytes) {
  if (!algorithm.has(op) || !allowed(layout, algorithm, protocol)) return kForbidden;
  const double size = static_cast<double>(bytes.count());
  const double bus = bus_bandwidth(layout, algorithm.family, protocol, size);
  const double n = layout.members();
  const bool by_rounds = algorithm.family != CostFamily::tree;
  double rounds = rounds_of(layout, op).all;
  if (op == CollectiveOp::broadcast || op == CollectiveOp::reduce) rounds = n;
  const double to_algorithm = by_rounds ? n / rounds : 0.5;
  return latency(layout, algorithm.family, protocol, op, size) + size / (bus * to_algorithm);
}

std::int32_t channels_for(const CommunicatorLayout& layout, const CollectiveAlgorithm& algorithm, Protocol protocol,
                          Bytes bytes, int forced) {
  const std::int32_t most = forced > 0 ? forced : layout.channels;
  const ProtocolRow& row = row_of(protocol);
  if (row.thread_threshold == 0 || algorithm.family == CostFamily::in_switch || forced > 0) return most;
  std::int64_t threshold = row.thread_threshold;
  if (protocol == Protocol::ll && algorithm.family == CostFamily::ring) threshold *= layout.members();
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
    if (forced != nullptr ? forced != &algorithm : !(algorithm.chosen_by_auto && possible(layout, algorithm, op)))
      continue;
    for (std::size_t p = 0; p < kProtocols; ++p) {
      const auto protocol = static_cast<Protocol>(p);
      if (forced_protocol >= 0 ? static_cast<int>(p) != forced_protocol : !protocol_rows()[p].chosen_by_auto) continue;
      // A forced protocol outside NCCL's model is priced as Simple.
      const Protocol priced = protocol == Protocol::ideal ? Protocol::simple : protocol;
      const double time = estimated_seconds(layout, algorithm, priced, op, bytes);
      if (best.algorithm == nullptr || time < best_time) {
        best = {&algorithm, protocol, 1};
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
  if (!choice.algorithm->follows_rings) return 1;
  const bool pairs = choice.algorithm->family == CostFamily::tree && layout.nodes > 1;
  return std::min(layout.rings(), pairs ? std::max(1, choice.channels / 2) : choice.channels);
}

PlanInput plan_input(const CommunicatorLayout& layout, CollectiveOp op, std::int32_t rings) {
  return {op, std::span(layout.orders).first(static_cast<std::size_t>(rings)), layout.node_of};
}

ChunkRule chunks_for(const CommunicatorLayout& layout, const TuningChoice& choice, Bytes buffer) {
  if (choice.algorithm->family == CostFamily::in_switch) {
    constexpr std::int64_t kPerMember = std::int64_t{16} * (128 << 10);
    return {Bytes(kPerMember * layout.members()), Bytes(kPerMember * layout.members())};
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
  if (family == CostFamily::in_switch) cap = kForbidden;
  // A tree's block carries what goes up and what comes down; two trees share the blocks of a ring.
  const bool across = layout.nodes > 1;
  const double streams = family == CostFamily::tree && choice.algorithm->name == "tree" ? (across ? 4 : 2) : 1;
  const ProtocolRow& row = row_of(choice.protocol);
  return cap / (rings * streams) * static_cast<double>(row.wire) / static_cast<double>(row.payload);
}

}  // namespace orrery
