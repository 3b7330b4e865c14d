#include "sim/exec/collectives/plan.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/check.hpp"

namespace orrery {

namespace {

// ceil(a x b / c) without overflow of the product.
std::int64_t share_of(std::int64_t a, std::int64_t b, std::int64_t c) {
  const std::int64_t whole = a / c;
  const std::int64_t rest = a % c;
  return whole * b + divide_up(rest * b, c);
}

// Edges on the longest chain of lag-0 feeders within one phase.
std::int32_t depth_of(const Plan& plan, const PlanPhase& phase) {
  std::vector<std::int32_t> depth(static_cast<std::size_t>(phase.edge_count), 1);
  std::int32_t deepest = 1;
  for (std::int32_t i = 0; i < phase.edge_count; ++i) {
    const PlanEdge& edge = plan.edges[static_cast<std::size_t>(phase.first_edge + i)];
    for (const std::int32_t feeder : plan.feeders_of(edge)) {
      const std::int32_t local = feeder - phase.first_edge;
      if (local < 0 || edge.lag != 0) continue;
      ORRERY_CHECK(local < i, "a feeder without lag comes before the edge that it feeds", feeder, i);
      depth[static_cast<std::size_t>(i)] =
          std::max(depth[static_cast<std::size_t>(i)], depth[static_cast<std::size_t>(local)] + 1);
    }
    deepest = std::max(deepest, depth[static_cast<std::size_t>(i)]);
  }
  return deepest;
}

}  // namespace

PhaseSize size_of(const PlanPhase& phase, Bytes bytes, const ChunkRule& rule) {
  const std::int64_t payload = share_of(bytes.count(), phase.share, phase.parts);
  if (phase.repetitions > 0) return {phase.repetitions, Bytes(divide_up(payload, phase.repetitions))};
  const std::int64_t wanted = payload / (kChunksPerHop * phase.depth);
  const std::int64_t chunk = std::clamp(wanted, rule.chunk_min.count(), rule.chunk_max.count());
  const std::int64_t chunks = std::max<std::int64_t>(1, divide_up(payload, chunk));
  return {chunks, Bytes(divide_up(payload, chunks))};
}

std::int64_t repetitions_of(const PlanEdge& edge, const PhaseSize& size) {
  return edge.length >= 0 ? edge.length : size.repetitions;
}

PlanTotals totals_of(const Plan& plan, Bytes bytes, const ChunkRule& rule) {
  PlanTotals totals;
  for (const PlanPhase& phase : plan.phases) {
    const PhaseSize size = size_of(phase, bytes, rule);
    std::int64_t messages = 0;
    std::int64_t payloads = 0;
    for (const PlanEdge& edge : plan.edges_of(phase)) {
      const std::int64_t repetitions = repetitions_of(edge, size);
      messages += repetitions;
      if (plan.weights.empty()) {
        payloads += repetitions;
      } else {
        for (std::int64_t r = 0; r < repetitions; ++r) payloads += plan.weight(edge, r);
      }
    }
    totals.messages += messages;
    totals.bytes += payloads * size.payload.count();
  }
  return totals;
}

std::int64_t Plan::heaviest() const { return weights.empty() ? 1 : *std::max_element(weights.begin(), weights.end()); }

std::int32_t PlanBuilder::add_weights(std::span<const std::int64_t> weights, bool weighs_sender) {
  const auto row = static_cast<std::int32_t>(plan_.weights.size()) / plan_.members;
  plan_.weights.insert(plan_.weights.end(), weights.begin(), weights.end());
  plan_.weighs_sender = weighs_sender;
  return row;
}

PlanBuilder::PlanBuilder(std::int32_t members, std::int32_t channels) {
  plan_.members = members;
  plan_.channels = channels;
}

void PlanBuilder::begin_phase(const PlanPhase& phase) {
  plan_.phases.push_back(phase);
  plan_.phases.back().first_edge = static_cast<std::int32_t>(plan_.edges.size());
  plan_.phases.back().edge_count = 0;
}

std::int32_t PlanBuilder::add_edge(const PlanEdge& edge, std::span<const std::int32_t> feeders) {
  ORRERY_CHECK(!plan_.phases.empty(), "an edge belongs to a phase");
  const auto index = static_cast<std::int32_t>(plan_.edges.size());
  plan_.edges.push_back(edge);
  feeders_.emplace_back(feeders.begin(), feeders.end());
  ++plan_.phases.back().edge_count;
  return index;
}

Plan PlanBuilder::finish() && {
  for (std::size_t i = 0; i < plan_.edges.size(); ++i) {
    PlanEdge& edge = plan_.edges[i];
    edge.first_feeder = static_cast<std::int32_t>(plan_.feeders.size());
    edge.feeder_count = static_cast<std::int32_t>(feeders_[i].size());
    plan_.feeders.insert(plan_.feeders.end(), feeders_[i].begin(), feeders_[i].end());
  }
  for (PlanPhase& phase : plan_.phases) {
    if (phase.chain == Chain::draining) phase.depth = depth_of(plan_, phase);
  }
  return std::move(plan_);
}

}  // namespace orrery
