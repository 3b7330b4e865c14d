// Two levels of rings, and of exchanges: inside nodes, and between the members that have the same place in their nodes
// (a rail). Libraries above NCCL do it so, as several operations on groups of their own, one after the other: Horovod's
// hierarchical all-reduce (NCCLHierarchicalAllreduce in horovod/common/ops/nccl_operations.cc), two-level all-gathers
// of sharded parameters (hpZ of DeepSpeed's ZeRO++), and the two-dimensional all-to-all of Tutel (MSR, "2DH") and
// DeepSpeed-MoE. With p members on each of N nodes, n = N p:
//
//   all_reduce      reduce_scatter in the node, of n-ths p apart; all_reduce of a p-th by rail; all_gather in the node
//   reduce_scatter  in the node, then by rail
//   all_gather      by rail, then in the node: a NIC carries what it must, (N-1)/n of the result
//   all_to_all      in the node, each member handing another all that goes to its rail; then by rail, p parts in one
//                   message: n (p - 1 + N - 1) messages in place of n (n - 1)
//
// A NIC carries as much as in a flat ring, less what the ring wastes at nodes' ends, but rounds are p + N in place of
// n. Steps are phases: a member begins one when it is through with the one before, and so are those it exchanges with;
// for the exchanges, when its node is. On one node, or with one member a node, it is the flat algorithm.
//
// What it leaves out: the time that a library needs to launch each step's operation.
#include <algorithm>
#include <numeric>
#include <vector>

#include "sim/exec/collectives/two_levels.hpp"

namespace orrery {

namespace {

constexpr std::int32_t kLanes = 8;  // as of the direct exchange (pairwise.cpp)

struct Shape {
  std::int32_t nodes = 1;
  std::int32_t per_node = 1;

  explicit Shape(const PlanInput& input) : nodes(node_count(input)), per_node(input.members() / nodes) {}
  [[nodiscard]] std::int32_t members() const { return nodes * per_node; }
};

std::size_t at(std::int32_t i) { return static_cast<std::size_t>(i); }

// Rings of one kind over all nodes, or over all rails, of every channel: a phase.
class RingPhases {
 public:
  RingPhases(const PlanInput& input, const Shape& shape)
      : input_(input), shape_(shape), builder_(input.members(), input.channels()) {}

  // Adds up (what = reduce_scatter), hands round (all_gather) or both; blocks of n-ths p apart.
  void inside(CollectiveOp what) {
    const std::int32_t p = shape_.per_node;
    begin(what, p, std::int64_t{p} * input_.channels());
    for (std::int32_t channel = 0; channel < input_.channels(); ++channel) {
      for (std::int32_t node = 0; node < shape_.nodes; ++node) {
        add_ring(channel, p, node * p, 1, what, {.width = shape_.nodes, .step = p});
      }
    }
    end();
  }
  // The n-ths that a rail's members hold, one for each node.
  void by_rail(CollectiveOp what) {
    const std::int32_t p = shape_.per_node;
    begin(what, shape_.nodes, std::int64_t{shape_.members()} * input_.channels());
    for (std::int32_t channel = 0; channel < input_.channels(); ++channel) {
      for (std::int32_t rail = 0; rail < p; ++rail) {
        add_ring(channel, shape_.nodes, rail, p, what, {.base = rail, .scale = p});
      }
    }
    end();
  }
  [[nodiscard]] Plan finish() && { return std::move(builder_).finish(); }

 private:
  void begin(CollectiveOp what, std::int32_t length, std::int64_t parts) {
    const std::int64_t rounds = (what == CollectiveOp::all_reduce ? 2 : 1) * (length - 1);
    builder_.begin_phase({.chain = Chain::rotating, .share = rounds, .parts = parts, .repetitions = rounds});
    ending_.assign(at(input_.channels()), std::vector<std::vector<std::int32_t>>(at(shape_.members())));
  }

  // Over the positions begin, begin + stride, ... of the channel's order.
  void add_ring(std::int32_t channel, std::int32_t length, std::int32_t begin, std::int32_t stride, CollectiveOp what,
                Content content) {
    const std::vector<std::int32_t>& order = input_.orders[at(channel)];
    content.stride = -1;
    content.modulus = length;
    content.combine_until = what == CollectiveOp::all_gather ? 0 : length - 1;
    const std::int32_t first_edge = next_edge_;
    for (std::int32_t i = 0; i < length; ++i) {
      const std::int32_t from = begin + i * stride;
      const std::int32_t to = begin + (i + 1) % length * stride;
      content.first = what == CollectiveOp::reduce_scatter ? (i + length - 1) % length : i;
      std::vector<std::int32_t> feeders{first_edge + (i + length - 1) % length};
      if (!before_.empty()) {
        for (const std::int32_t position : {from, to}) {
          const std::vector<std::int32_t>& waits = before_[at(channel)][at(position)];
          feeders.insert(feeders.end(), waits.begin(), waits.end());
        }
      }
      builder_.add_edge(
          {.from = order[at(from)], .to = order[at(to)], .channel = channel, .lag = 1, .content = content}, feeders);
      ending_[at(channel)][at(from)].push_back(next_edge_);
      ending_[at(channel)][at(to)].push_back(next_edge_);
      ++next_edge_;
    }
  }

  void end() { before_ = std::move(ending_); }

  const PlanInput& input_;
  Shape shape_;
  PlanBuilder builder_;
  std::int32_t next_edge_ = 0;
  // [channels][positions] the edges that a member sends or receives by: in the phase before, and in this one.
  std::vector<std::vector<std::vector<std::int32_t>>> before_;
  std::vector<std::vector<std::vector<std::int32_t>>> ending_;
};

// What the messages of the two steps carry in units of a part, [members] each. By receiver: in the node, all that goes
// to the receiver's rail; by rail, as many parts as the sender's node has members. By sender: what it has for the rail,
// that is as many parts as there are nodes; then what its node has.
struct StepWeights {
  std::vector<std::int64_t> inside;
  std::vector<std::int64_t> by_rail;
};

StepWeights step_weights(const PlanInput& input, const Shape& shape) {
  StepWeights weights{std::vector<std::int64_t>(input.weights.size()), std::vector<std::int64_t>(input.weights.size())};
  const std::int32_t p = shape.per_node;
  for (std::int32_t member = 0; member < shape.members(); ++member) {
    const std::int64_t own = input.weights[at(member)];
    std::int64_t of_rail = 0;
    for (std::int32_t node = 0; node < shape.nodes; ++node) of_rail += input.weights[at(node * p + member % p)];
    std::int64_t of_node = 0;
    for (std::int32_t i = 0; i < p; ++i) of_node += input.weights[at(member / p * p + i)];
    weights.inside[at(member)] = input.returns ? own * shape.nodes : of_rail;
    weights.by_rail[at(member)] = input.returns ? of_node : own * p;
  }
  return weights;
}

// `among` members exchange, `lanes` at a time: the payload of a message is a share of `parts`, or, weighed, one unit.
PlanPhase exchange_phase(const PlanInput& input, std::int32_t among, std::int32_t lanes) {
  const std::int32_t rounds = (among - 1 + lanes - 1) / lanes;
  if (input.weights.empty()) {
    return {.chain = Chain::draining, .share = rounds, .parts = among, .repetitions = rounds};
  }
  const std::int64_t units = std::accumulate(input.weights.begin(), input.weights.end(), std::int64_t{0});
  return {.chain = Chain::draining, .share = 1, .parts = std::max<std::int64_t>(1, units), .repetitions = 1};
}

Plan exchange(const PlanInput& input, const Shape& shape) {
  const std::int32_t n = shape.members();
  const std::int32_t p = shape.per_node;
  PlanBuilder builder(n, 1);
  StepWeights weights;
  if (!input.weights.empty()) weights = step_weights(input, shape);
  std::int32_t next_edge = 0;
  const auto add_lanes = [&](std::int32_t among, std::int32_t stride, std::int32_t row, const auto& feeders_of) {
    const std::int32_t lanes = std::min(kLanes, among - 1);
    builder.begin_phase(exchange_phase(input, among, lanes));
    for (std::int32_t member = 0; member < n; ++member) {
      const std::int32_t first = stride == 1 ? member / p * p : 0;
      const std::int32_t span = among * stride;
      for (std::int32_t lane = 0; lane < lanes; ++lane) {
        builder.add_edge({.from = member,
                          .to = first + (member - first + (lane + 1) * stride) % span,
                          .to_stride = lanes * stride,
                          .to_first = first,
                          .to_span = span,
                          .weight_row = row,
                          .length = (among - 1 - lane + lanes - 1) / lanes},
                         feeders_of(member));
        ++next_edge;
      }
    }
  };
  std::int32_t inside_row = 0;
  std::int32_t rail_row = 0;
  if (!input.weights.empty()) {
    inside_row = builder.add_weights(weights.inside, input.returns);
    rail_row = builder.add_weights(weights.by_rail, input.returns);
  }
  add_lanes(p, 1, inside_row, [](std::int32_t) { return std::vector<std::int32_t>(); });
  const std::int32_t edges_of_node = next_edge / shape.nodes;
  add_lanes(shape.nodes, p, rail_row, [&](std::int32_t member) {
    std::vector<std::int32_t> of_node(at(edges_of_node));
    std::iota(of_node.begin(), of_node.end(), member / p * edges_of_node);
    return of_node;
  });
  return std::move(builder).finish();
}

}  // namespace

Plan plan_hierarchical(const PlanInput& input) {
  const Shape shape(input);
  const bool flat = shape.nodes == 1 || shape.per_node == 1;
  if (input.op == CollectiveOp::all_to_all) return flat ? plan_pairwise(input) : exchange(input, shape);
  if (flat) return plan_ring(input);
  RingPhases phases(input, shape);
  switch (input.op) {
    case CollectiveOp::reduce_scatter:
      phases.inside(CollectiveOp::reduce_scatter);
      phases.by_rail(CollectiveOp::reduce_scatter);
      break;
    case CollectiveOp::all_gather:
      phases.by_rail(CollectiveOp::all_gather);
      phases.inside(CollectiveOp::all_gather);
      break;
    default:
      phases.inside(CollectiveOp::reduce_scatter);
      phases.by_rail(CollectiveOp::all_reduce);
      phases.inside(CollectiveOp::all_gather);
      break;
  }
  return std::move(phases).finish();
}

}  // namespace orrery
