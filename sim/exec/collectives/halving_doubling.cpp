// Recursive halving and doubling (Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations
// in MPICH", 2005): log2 n stages instead of n - 1 rounds, with the same bytes when n is a power of two.
//
// Halving: partners m/2, m/4, ... 1 apart exchange the half of what they still hold that the other keeps, and add up.
// Doubling: partners 1, 2, ... m/2 apart exchange all they have. An all_reduce is a halving and then a doubling.
// Here m is the largest power of two up to n. Positions are dealt to m leaders, one or two neighbours to each; the
// second of two hands its data to the leader first and gets its result from it last.
//
// Every stage is a phase of single messages between positions of the first channel's order, so that members of a node,
// which are neighbours in it, are partners in the stages with small distances. In a reduce_scatter or all_gather
// over n != m members the leaders' blocks differ by a piece; all messages of a stage are counted as large as its
// largest.
#include <algorithm>
#include <bit>
#include <utility>
#include <vector>

#include "sim/exec/collectives/algorithm.hpp"

namespace orrery {

namespace {

class Stages {
 public:
  explicit Stages(const PlanInput& input)
      : order_(input.orders[0]),
        n_(input.members()),
        m_(static_cast<std::int32_t>(std::bit_floor(static_cast<std::uint32_t>(n_)))),
        pieces_(input.op == CollectiveOp::all_reduce ? m_ : n_),
        builder_(n_, 1),
        received_(static_cast<std::size_t>(n_)) {}

  [[nodiscard]] std::int32_t leaders() const { return m_; }
  [[nodiscard]] Plan finish() && { return std::move(builder_).finish(); }

  // The second members hand over (all pieces, or their own alone), or get back.
  void fold_in(bool all, std::int64_t combine) {
    if (n_ == m_) return;
    begin(all ? pieces_ : 1);
    for (std::int32_t c = 0; c < m_; ++c) {
      if (has_second(c)) add(leader(c) + 1, leader(c), all ? 0 : leader(c) + 1, all ? pieces_ : 1, combine);
    }
    end();
  }
  void fold_out(bool all) {
    if (n_ == m_) return;
    begin(all ? pieces_ : 1);
    for (std::int32_t c = 0; c < m_; ++c) {
      if (has_second(c)) add(leader(c), leader(c) + 1, all ? 0 : leader(c) + 1, all ? pieces_ : 1, 0);
    }
    end();
  }

  // Leaders `distance` apart exchange: halving, the block that the partner keeps; doubling, the block that each has.
  void exchange(std::int32_t distance, bool halving) {
    std::int32_t widest = 0;
    for (std::int32_t c = 0; c < m_; c += distance) widest = std::max(widest, first(c + distance) - first(c));
    begin(widest);
    for (std::int32_t c = 0; c < m_; ++c) {
      const std::int32_t other = c ^ distance;
      const std::int32_t block = (halving ? other : c) / distance * distance;
      add(leader(c), leader(other), first(block), first(block + distance) - first(block), halving ? kAlways : 0);
    }
    end();
  }

 private:
  // Position of leader c; position n for c = m.
  [[nodiscard]] std::int32_t leader(std::int32_t c) const {
    return static_cast<std::int32_t>(std::int64_t{c} * n_ / m_);
  }
  [[nodiscard]] bool has_second(std::int32_t c) const { return leader(c + 1) - leader(c) == 2; }
  // First of the pieces that leader c keeps.
  [[nodiscard]] std::int32_t first(std::int32_t c) const { return pieces_ == n_ ? leader(c) : c; }

  void begin(std::int32_t widest) {
    builder_.begin_phase({.chain = Chain::draining, .share = widest, .parts = pieces_, .repetitions = 1});
  }
  void add(std::int32_t from, std::int32_t to, std::int32_t first_piece, std::int32_t width, std::int64_t combine) {
    // The receiver takes a message when it is through with the stages before (rendezvous).
    std::vector<std::int32_t> feeders = received_[static_cast<std::size_t>(from)];
    const std::vector<std::int32_t>& before = received_[static_cast<std::size_t>(to)];
    feeders.insert(feeders.end(), before.begin(), before.end());
    const std::int32_t edge = builder_.add_edge({.from = order_[static_cast<std::size_t>(from)],
                                                 .to = order_[static_cast<std::size_t>(to)],
                                                 .content = {first_piece, 0, width, 0, combine}},
                                                feeders);
    arriving_.emplace_back(to, edge);
  }
  // A member sends what it had before the stage: arrivals count from the next stage on.
  void end() {
    for (const auto& [to, edge] : arriving_) received_[static_cast<std::size_t>(to)].push_back(edge);
    arriving_.clear();
  }

  const std::vector<std::int32_t>& order_;
  std::int32_t n_;
  std::int32_t m_;
  std::int32_t pieces_;
  PlanBuilder builder_;
  std::vector<std::vector<std::int32_t>> received_;              // [positions] edges so far
  std::vector<std::pair<std::int32_t, std::int32_t>> arriving_;  // (position, edge) in this stage
};

}  // namespace

Plan plan_halving_doubling(const PlanInput& input) {
  Stages stages(input);
  const bool gathers = input.op == CollectiveOp::all_gather;
  const bool scatters = input.op == CollectiveOp::reduce_scatter;
  stages.fold_in(!gathers, gathers ? 0 : kAlways);
  if (!gathers) {
    for (std::int32_t distance = stages.leaders() / 2; distance >= 1; distance /= 2) stages.exchange(distance, true);
  }
  if (!scatters) {
    for (std::int32_t distance = 1; distance < stages.leaders(); distance *= 2) stages.exchange(distance, false);
  }
  stages.fold_out(!scatters);
  return std::move(stages).finish();
}

}  // namespace orrery
