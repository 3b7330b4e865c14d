// Proves the collective algorithms on symbolic data: whatever the order in which permitted messages move, everybody
// ends with what the operation promises. Counts messages and bytes against the textbook figures.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/exec/collectives/algorithm.hpp"
#include "sim/exec/collectives/layout.hpp"

namespace orrery {
namespace {

constexpr ChunkRule kChunks{Bytes(4), Bytes(1024)};

struct Group {
  std::vector<std::vector<std::int32_t>> orders;
  std::vector<std::int32_t> node_of;

  [[nodiscard]] PlanInput input(CollectiveOp op) const { return {op, orders, node_of}; }
};

// n members on nodes of `per_node` (the last may have fewer), each channel's order rotated within the nodes.
Group make_group(std::int32_t n, std::int32_t per_node, std::int32_t channels) {
  Group group;
  for (std::int32_t i = 0; i < n; ++i) group.node_of.push_back(i / per_node);
  for (std::int32_t c = 0; c < channels; ++c) {
    std::vector<std::int32_t> order(static_cast<std::size_t>(n));
    std::iota(order.begin(), order.end(), 0);
    for (std::int32_t begin = 0; begin < n; begin += per_node) {
      const std::int32_t end = std::min(begin + per_node, n);
      std::rotate(order.begin() + begin, order.begin() + begin + c % (end - begin), order.begin() + end);
    }
    group.orders.push_back(order);
  }
  return group;
}

// Whether every channel carries two trees of half of its data each.
bool two_trees(const Plan& plan) {
  const PlanPhase& phase = plan.phases[0];
  return phase.share == 1 && phase.parts == 2 * plan.channels && phase.repetitions == 0;
}

// How often each member's contribution is in a piece of data.
using Sum = std::vector<int>;

class SymbolicRun {
 public:
  SymbolicRun(const Plan& plan, const Group& group, CollectiveOp op, Bytes bytes, std::uint64_t seed)
      : plan_(plan), op_(op), n_(plan.members), random_(seed, "symbolic run") {
    for (std::size_t i = 0; i < plan.phases.size(); ++i) {
      const PhaseSize size = size_of(plan.phases[i], bytes, kChunks);
      for (const PlanEdge& edge : plan.edges_of(plan.phases[i])) total_.push_back(repetitions_of(edge, size));
      phase_.resize(total_.size(), i);
      pieces_ = std::max(pieces_, piece_count(plan.phases[i], size));
    }
    sent_.assign(plan.edges.size(), 0);
    delivered_.assign(plan.edges.size(), 0);
    in_flight_.resize(plan.edges.size());
    fill(group);
  }

  // Moves one permitted message after another, in random order, until none is left.
  void run() {
    while (true) {
      std::vector<std::size_t> can_leave;
      std::vector<std::size_t> can_arrive;
      for (std::size_t e = 0; e < plan_.edges.size(); ++e) {
        if (may_leave(e)) can_leave.push_back(e);
        if (!in_flight_[e].empty()) can_arrive.push_back(e);
      }
      if (can_leave.empty() && can_arrive.empty()) return;
      const std::size_t choice = random_.below(can_leave.size() + can_arrive.size());
      if (choice < can_leave.size()) {
        leave(can_leave[choice]);
      } else {
        arrive(can_arrive[choice - can_leave.size()]);
      }
    }
  }

  [[nodiscard]] bool all_moved() const { return delivered_ == total_; }
  [[nodiscard]] std::int32_t pieces() const { return pieces_; }
  // What `member` holds of a piece of a stream (one stream per channel; per tree in double trees).
  [[nodiscard]] const Sum& at(std::int32_t member, std::size_t stream, std::int32_t piece) const {
    return data_[static_cast<std::size_t>(member)][stream][static_cast<std::size_t>(piece)];
  }
  [[nodiscard]] std::size_t streams() const { return data_[0].size(); }
  // Times that member `from` sent to member `to`.
  [[nodiscard]] int sends(std::int32_t from, std::int32_t to) const {
    return sends_[static_cast<std::size_t>(from) * static_cast<std::size_t>(n_) + static_cast<std::size_t>(to)];
  }
  // all_to_all: what a member holds, by origin and destination.
  [[nodiscard]] std::vector<std::pair<std::int32_t, std::int32_t>> parts(std::int32_t member) const {
    auto held = parts_[static_cast<std::size_t>(member)];
    std::sort(held.begin(), held.end());
    return held;
  }

 private:
  static std::int32_t piece_count(const PlanPhase& phase, const PhaseSize& size) {
    return static_cast<std::int32_t>(std::max<std::int64_t>(size.repetitions, phase.parts));
  }

  void fill(const Group& group) {
    const std::size_t channels = group.orders.size();
    const Sum nothing(static_cast<std::size_t>(n_), 0);
    nodes_ = *std::max_element(group.node_of.begin(), group.node_of.end()) + 1;
    node_of_ = group.node_of;
    data_.assign(
        static_cast<std::size_t>(n_ + nodes_ + 1),
        std::vector<std::vector<Sum>>(2 * channels, std::vector<Sum>(static_cast<std::size_t>(pieces_), nothing)));
    sends_.assign(static_cast<std::size_t>(n_) * static_cast<std::size_t>(n_), 0);
    parts_.resize(static_cast<std::size_t>(n_));
    for (std::int32_t member = 0; member < n_; ++member) {
      for (std::int32_t to = 0; to < n_; ++to) parts_[static_cast<std::size_t>(member)].emplace_back(member, to);
      for (std::size_t stream = 0; stream < 2 * channels; ++stream) {
        for (std::int32_t piece = 0; piece < pieces_; ++piece) {
          // Data that must be overwritten is marked by a contribution that no result may have.
          const bool own_alone = op_ == CollectiveOp::all_gather;
          const std::vector<std::int32_t>& order = group.orders[stream / 2];
          const bool garbage = (own_alone && (piece >= n_ || order[static_cast<std::size_t>(piece)] != member)) ||
                               (op_ == CollectiveOp::broadcast && member != 0);
          data_[static_cast<std::size_t>(member)][stream][static_cast<std::size_t>(piece)]
               [static_cast<std::size_t>(member)] = garbage ? 100 : 1;
        }
      }
    }
  }

  [[nodiscard]] bool may_leave(std::size_t e) const {
    if (sent_[e] == total_[e]) return false;
    const PlanEdge& edge = plan_.edges[e];
    for (const std::int32_t i : plan_.feeders_of(edge)) {
      const auto feeder = static_cast<std::size_t>(i);
      const bool earlier = phase_[feeder] < phase_[e];
      if (delivered_[feeder] < (earlier ? total_[feeder] : sent_[e] - edge.lag + 1)) return false;
    }
    return true;
  }

  // A plan with two trees a channel keeps them apart: the second one's edges come after the first one's.
  [[nodiscard]] std::size_t stream_of(std::size_t e) const {
    const auto channel = static_cast<std::size_t>(plan_.edges[e].channel);
    if (!two_trees(plan_)) return 2 * channel;
    const std::size_t edges_of_tree = plan_.edges.size() / static_cast<std::size_t>(2 * plan_.channels);
    return e / edges_of_tree;
  }

  // What an end of an edge holds: the network is one place, and so is the switch of the other end's node.
  [[nodiscard]] Sum& cell(std::int32_t member, std::int32_t other, std::size_t e, std::int32_t piece) {
    std::int32_t holder = member;
    if (member == kNetwork) holder = n_;
    if (member == kSwitch) holder = n_ + 1 + node_of_[static_cast<std::size_t>(other)];
    return data_[static_cast<std::size_t>(holder)][stream_of(e)][static_cast<std::size_t>(piece)];
  }

  [[nodiscard]] std::vector<std::int32_t> pieces_of(const PlanEdge& edge, std::int64_t r) const {
    std::vector<std::int32_t> result;
    for (std::int32_t w = 0; w < edge.content.width; ++w) {
      std::int64_t turn = edge.content.first + r * edge.content.stride;
      if (edge.content.modulus > 0)
        turn = ((turn % edge.content.modulus) + edge.content.modulus) % edge.content.modulus;
      const std::int64_t piece = edge.content.base + edge.content.scale * turn + edge.content.step * w;
      result.push_back(static_cast<std::int32_t>(piece));
    }
    return result;
  }

  // A message holds what its sender has when it leaves.
  void leave(std::size_t e) {
    const PlanEdge& edge = plan_.edges[e];
    std::vector<Sum> message;
    if (op_ != CollectiveOp::all_to_all) {
      for (const std::int32_t piece : pieces_of(edge, sent_[e])) {
        message.push_back(cell(edge.from, edge.to, e, piece));
      }
    }
    in_flight_[e].push_back(message);
    ++sent_[e];
  }

  void arrive(std::size_t e) {
    const PlanEdge& edge = plan_.edges[e];
    const std::int64_t r = delivered_[e]++;
    const std::vector<Sum> message = in_flight_[e].front();
    in_flight_[e].erase(in_flight_[e].begin());
    const std::int32_t to = plan_.receiver(edge, r);
    if (edge.from >= 0 && to >= 0) {
      ++sends_[static_cast<std::size_t>(edge.from) * static_cast<std::size_t>(n_) + static_cast<std::size_t>(to)];
    }
    if (op_ == CollectiveOp::all_to_all) return pass_on(edge, to, phase_[e]);
    const std::vector<std::int32_t> where = pieces_of(edge, r);
    for (std::size_t i = 0; i < where.size(); ++i) {
      Sum& held = cell(to, edge.from, e, where[i]);
      if (r >= edge.content.combine_until) {
        held = message[i];
      } else {
        for (std::size_t k = 0; k < held.size(); ++k) held[k] += message[i][k];
      }
    }
  }

  // all_to_all: the parts that a message takes along, each once: in the last phase those for the receiver, before it
  // those for members of the receiver's place in their nodes.
  void pass_on(const PlanEdge& edge, std::int32_t to, std::size_t phase) {
    const bool last = phase + 1 == plan_.phases.size();
    auto& held = parts_[static_cast<std::size_t>(edge.from)];
    auto& got = parts_[static_cast<std::size_t>(to)];
    for (std::size_t i = 0; i < held.size();) {
      const std::int32_t per_node = n_ / nodes_;
      if (last ? held[i].second == to : held[i].second % per_node == to % per_node) {
        got.push_back(held[i]);
        held.erase(held.begin() + static_cast<std::ptrdiff_t>(i));
      } else {
        ++i;
      }
    }
  }

  const Plan& plan_;
  CollectiveOp op_;
  std::int32_t n_;
  RandomStream random_;
  std::int32_t pieces_ = 0;
  std::vector<std::int64_t> total_;
  std::vector<std::int64_t> sent_;
  std::vector<std::int64_t> delivered_;
  std::vector<std::vector<std::vector<Sum>>> in_flight_;  // [edges][messages][pieces]
  std::vector<std::vector<std::vector<Sum>>> data_;       // [members and the switch][streams][pieces]
  std::vector<int> sends_;
  std::vector<std::size_t> phase_;  // [edges]
  std::int32_t nodes_ = 0;
  std::vector<std::int32_t> node_of_;
  std::vector<std::vector<std::pair<std::int32_t, std::int32_t>>> parts_;  // [members] (origin, destination)
};

// How many pieces of each stream hold data, in the numbering of Content.
std::int32_t pieces_that_count(const Plan& plan, Bytes bytes) {
  const PhaseSize size = size_of(plan.phases[0], bytes, kChunks);
  const PlanEdge& edge = plan.edges[0];
  const Content& content = edge.content;
  if (content.modulus > 0) {
    std::int32_t most = 0;
    for (const PlanEdge& each : plan.edges) {
      const Content& c = each.content;
      most = std::max(most, c.base + c.scale * (c.modulus - 1) + c.step * (c.width - 1) + 1);
    }
    return most;
  }
  if (edge.content.stride == 0) return static_cast<std::int32_t>(plan.phases[0].parts);
  return static_cast<std::int32_t>(size.repetitions);
}

void check_promise(const SymbolicRun& run, const Plan& plan, const Group& group, CollectiveOp op, Bytes bytes) {
  const std::int32_t n = plan.members;
  const Sum everyone(static_cast<std::size_t>(n), 1);
  const std::int32_t pieces = pieces_that_count(plan, bytes);
  for (std::size_t stream = 0; stream < 2 * static_cast<std::size_t>(plan.channels);
       stream += two_trees(plan) ? 1 : 2) {
    const std::vector<std::int32_t>& order = group.orders[stream / 2];
    for (std::int32_t member = 0; member < n; ++member) {
      for (std::int32_t piece = 0; piece < pieces; ++piece) {
        Sum only(static_cast<std::size_t>(n), 0);
        const Sum& held = run.at(member, stream, piece);
        const bool owns = piece < n && order[static_cast<std::size_t>(piece)] == member;
        switch (op) {
          case CollectiveOp::all_reduce:
            CHECK(held == everyone);
            break;
          case CollectiveOp::reduce_scatter:
            if (owns) CHECK(held == everyone);
            break;
          case CollectiveOp::all_gather:
            only[static_cast<std::size_t>(order[static_cast<std::size_t>(piece)])] = 1;
            CHECK(held == only);
            break;
          case CollectiveOp::broadcast:
            only[0] = 1;
            CHECK(held == only);
            break;
          case CollectiveOp::reduce:
            if (member == 0) CHECK(held == everyone);
            break;
          case CollectiveOp::all_to_all:
            break;
        }
      }
    }
  }
  if (op == CollectiveOp::all_to_all) {
    for (std::int32_t from = 0; from < n; ++from) {
      for (std::int32_t to = 0; to < n; ++to) CHECK(run.sends(from, to) <= (from == to ? 0 : 1));
      std::vector<std::pair<std::int32_t, std::int32_t>> all;
      for (std::int32_t origin = 0; origin < n; ++origin) all.emplace_back(origin, from);
      CHECK(run.parts(from) == all);
    }
  }
}

// Some algorithms need as many members on every node; what hardware they need is not the plan's affair.
bool plans_there(const CollectiveAlgorithm& algorithm, const Group& group) {
  CommunicatorLayout layout;
  layout.node_of = group.node_of;
  layout.nodes = group.node_of.back() + 1;
  layout.node_most = static_cast<std::int32_t>(std::count(group.node_of.begin(), group.node_of.end(), 0));
  layout.even_nodes = std::count(group.node_of.begin(), group.node_of.end(), group.node_of.back()) == layout.node_most;
  layout.one_switch = true;
  layout.switch_reduces = true;
  layout.network_reduces = true;
  return algorithm.need.met == nullptr || algorithm.need.met(layout) || (algorithm.name == "sharp" && layout.nodes > 1);
}

void check_all_ops(const CollectiveAlgorithm& algorithm, std::int32_t n, std::int32_t per_node, std::int32_t channels,
                   std::uint64_t seed) {
  const Group group = make_group(n, per_node, channels);
  for (std::size_t o = 0; o < kCollectiveOps; ++o) {
    const auto op = static_cast<CollectiveOp>(o);
    if (!algorithm.has(op) || !plans_there(algorithm, group)) continue;
    CAPTURE(std::string(algorithm.name));
    CAPTURE(std::string(name_of(op)));
    CAPTURE(n);
    CAPTURE(per_node);
    CAPTURE(channels);
    CAPTURE(seed);
    const Plan plan = algorithm.plan(group.input(op));
    const Bytes bytes(std::int64_t{16} * n * channels);
    SymbolicRun run(plan, group, op, bytes, seed);
    run.run();
    REQUIRE(run.all_moved());
    check_promise(run, plan, group, op, bytes);
  }
}

TEST_CASE("every algorithm keeps the promise of every operation, for 2 to 17 members on any nodes, in any order") {
  for (const CollectiveAlgorithm& algorithm : collective_algorithm_rows()) {
    for (std::int32_t n = 2; n <= 17; ++n) {
      for (const std::int32_t per_node : {1, 2, 3, 8, 17}) {
        check_all_ops(algorithm, n, per_node, 1 + n % 2, static_cast<std::uint64_t>(n));
      }
    }
  }
}

TEST_CASE("every algorithm keeps its promise for larger groups") {
  for (const CollectiveAlgorithm& algorithm : collective_algorithm_rows()) {
    for (const std::int32_t n : {24, 31, 33}) check_all_ops(algorithm, n, 8, 1, 7);
  }
}

TEST_CASE("messages and bytes are the textbook's") {
  constexpr std::int64_t kBytes = 1 << 20;
  for (const std::int32_t n : {2, 4, 8, 16}) {
    CAPTURE(n);
    for (const std::int32_t channels : {1, 2}) {
      const Group group = make_group(n, 8, channels);
      const auto totals = [&](std::string_view name, CollectiveOp op) {
        return totals_of(find_collective_algorithm(name)->plan(group.input(op)), Bytes(kBytes), kChunks);
      };
      // Ring all_reduce: every member sends 2(n-1) messages of S/n (per channel, of S/n/channels).
      CHECK(totals("ring", CollectiveOp::all_reduce).messages == 2 * n * (n - 1) * channels);
      CHECK(totals("ring", CollectiveOp::all_reduce).bytes == 2 * (n - 1) * kBytes);
      CHECK(totals("ring", CollectiveOp::reduce_scatter).messages == n * (n - 1) * channels);
      CHECK(totals("ring", CollectiveOp::all_gather).bytes == (n - 1) * kBytes);
      // Chains: the whole buffer over n - 1 edges.
      CHECK(totals("ring", CollectiveOp::broadcast).bytes == (n - 1) * kBytes);
      CHECK(totals("ring", CollectiveOp::reduce).bytes == (n - 1) * kBytes);
      // Trees: up and down over n - 1 edges.
      CHECK(totals("tree", CollectiveOp::all_reduce).bytes == 2 * (n - 1) * kBytes);
      // Halving: each member sends S/2 + S/4 + ... + S/n = S (n-1)/n; doubling the same; log2 n messages each.
      std::int64_t stages = 0;
      while ((1 << stages) < n) ++stages;
      CHECK(totals("halving_doubling", CollectiveOp::all_reduce).bytes == 2 * (n - 1) * kBytes);
      CHECK(totals("halving_doubling", CollectiveOp::all_reduce).messages == 2 * n * stages);
      CHECK(totals("halving_doubling", CollectiveOp::all_gather).bytes == (n - 1) * kBytes);
      CHECK(totals("halving_doubling", CollectiveOp::reduce_scatter).messages == n * stages);
      // All-to-all: n(n-1) messages of S/n.
      CHECK(totals("pairwise", CollectiveOp::all_to_all).messages == n * (n - 1));
      CHECK(totals("pairwise", CollectiveOp::all_to_all).bytes == (n - 1) * kBytes);
      // In the switch: out and in, the buffer and an n-th of it for every member.
      CHECK(totals("nvls", CollectiveOp::all_reduce).bytes == 2 * (n + 1) * kBytes);
    }
  }
}

TEST_CASE("plans do not grow with the number of messages") {
  const Group group = make_group(4096, 8, 1);
  const Plan ring = plan_ring(group.input(CollectiveOp::all_reduce));
  CHECK(ring.edges.size() == 4096);
  CHECK(totals_of(ring, Bytes(1 << 24), kChunks).messages == std::int64_t{4096} * 2 * 4095);
  const Plan pairwise = plan_pairwise(group.input(CollectiveOp::all_to_all));
  CHECK(pairwise.edges.size() == 4096 * 8);
  CHECK(totals_of(pairwise, Bytes(1 << 24), kChunks).messages == std::int64_t{4096} * 4095);
}

TEST_CASE("no node is an inner node of both trees, and the trees are logarithmic") {
  for (std::int32_t nodes = 2; nodes <= 200; ++nodes) {
    CAPTURE(nodes);
    const Group group = make_group(nodes, 1, 1);
    const Plan plan = plan_tree(group.input(CollectiveOp::all_reduce));
    std::vector<int> children(static_cast<std::size_t>(2 * nodes), 0);
    const std::size_t half = plan.edges.size() / 2;
    std::size_t ups = 0;
    for (std::size_t e = 0; e < plan.edges.size(); ++e) {
      if (plan.edges[e].content.combine_until == 0) continue;
      ++ups;
      ++children[(e < half ? 0U : static_cast<std::size_t>(nodes)) + static_cast<std::size_t>(plan.edges[e].to)];
    }
    CHECK(ups == static_cast<std::size_t>(2 * (nodes - 1)));
    int inner_twice = 0;
    for (std::int32_t x = 0; x < nodes; ++x) {
      const int first = children[static_cast<std::size_t>(x)];
      const int second = children[static_cast<std::size_t>(nodes + x)];
      CHECK(first <= 2);
      CHECK(second <= 2);
      inner_twice += first == 2 && second == 2 ? 1 : 0;
    }
    CHECK(inner_twice == 0);
    // Up and down a tree whose root has one child: 2 (floor(log2 (nodes - 1)) + 1), and no more than one level extra.
    std::int32_t levels = 0;
    while ((2 << levels) <= nodes) ++levels;
    CHECK(plan.phases[0].depth <= 2 * (levels + 1));
  }
}

TEST_CASE("chunks are as many as a pipeline needs, within the limits") {
  const PlanPhase phase{.share = 1, .parts = 2, .depth = 4};
  const ChunkRule rule{Bytes(1000), Bytes(10000)};
  // 2 x 64,000 B in two parts: 64,000 B a stream, 8 x 4 chunks wanted: 2,000 B each.
  CHECK(size_of(phase, Bytes(128000), rule).repetitions == 32);
  CHECK(size_of(phase, Bytes(128000), rule).payload == Bytes(2000));
  // Small: chunks of 1,000 B; large: chunks of 10,000 B.
  CHECK(size_of(phase, Bytes(6000), rule).repetitions == 3);
  CHECK(size_of(phase, Bytes(2000000), rule).repetitions == 100);
  CHECK(size_of(phase, Bytes(1), rule).payload == Bytes(1));
}

TEST_CASE("algorithms have distinct names and are found by them") {
  for (const CollectiveAlgorithm& row : collective_algorithm_rows()) {
    CHECK(find_collective_algorithm(row.name) == &row);
    CHECK(!row.doc.empty());
    CHECK(row.ops != 0);
  }
  CHECK(find_collective_algorithm("auto") == nullptr);
}

}  // namespace
}  // namespace orrery
