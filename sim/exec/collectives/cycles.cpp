// Finds rings on a mesh of direct links (the hybrid cube mesh of a DGX-1, say) by depth-first search with backtracking
// over whole sets of cycles: take a cycle, look for the rest in what is left, keep the largest set. A budget of steps
// keeps it short on large meshes, where the first cycles found are mostly good; with the eight GPUs of a DGX-1 the
// search ends early, because no set can have more cycles than half of a GPU's links.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "sim/exec/collectives/layout.hpp"

namespace orrery {

namespace {

using Links = std::vector<std::vector<int>>;
using Cycle = std::vector<std::int32_t>;
constexpr int kStepsMax = 200'000;

class Search {
 public:
  explicit Search(const Links& links) : links_(links), used_(links.size(), false) {
    bound_ = links.empty() ? 0 : 1 << 20;
    for (const std::vector<int>& row : links_) {
      int degree = 0;
      for (const int count : row) degree += count;
      bound_ = std::min(bound_, static_cast<std::size_t>(degree / 2));
    }
  }

  std::vector<Cycle> run() {
    extend_set();
    return best_;
  }

 private:
  // Whether to stop: the set cannot be beaten, or the budget is spent.
  [[nodiscard]] bool over() const { return best_.size() >= bound_ || steps_ >= kStepsMax; }

  void extend_set() {
    if (found_.size() > best_.size()) best_ = found_;
    if (over()) return;
    path_.assign(1, 0);
    used_.assign(used_.size(), false);
    used_[0] = true;
    extend_path();
  }

  void extend_path() {
    if (++steps_ >= kStepsMax) return;
    const auto here = static_cast<std::size_t>(path_.back());
    if (path_.size() == links_.size()) {
      if (links_[here][0] > 0) close_cycle();
      return;
    }
    // The neighbour with most links left first: it has links to spare.
    std::vector<std::size_t> next;
    for (std::size_t other = 0; other < links_.size(); ++other) {
      if (!used_[other] && links_[here][other] > 0) next.push_back(other);
    }
    std::stable_sort(next.begin(), next.end(),
                     [&](std::size_t a, std::size_t b) { return links_[here][a] > links_[here][b]; });
    for (const std::size_t other : next) {
      if (over()) return;
      used_[other] = true;
      path_.push_back(static_cast<std::int32_t>(other));
      extend_path();
      path_.pop_back();
      used_[other] = false;
    }
  }

  void close_cycle() {
    const Cycle cycle = path_;
    const std::vector<bool> used = used_;
    take(cycle, -1);
    found_.push_back(cycle);
    extend_set();
    found_.pop_back();
    take(cycle, 1);
    path_ = cycle;
    used_ = used;
  }

  void take(const Cycle& cycle, int change) {
    for (std::size_t i = 0; i < cycle.size(); ++i) {
      const auto a = static_cast<std::size_t>(cycle[i]);
      const auto b = static_cast<std::size_t>(cycle[(i + 1) % cycle.size()]);
      links_[a][b] += change;
      links_[b][a] += change;
    }
  }

  Links links_;
  std::vector<bool> used_;
  Cycle path_;
  std::vector<Cycle> found_;
  std::vector<Cycle> best_;
  std::size_t bound_ = 0;
  int steps_ = 0;
};

}  // namespace

std::vector<std::vector<std::int32_t>> disjoint_cycles(const std::vector<std::vector<int>>& links) {
  if (links.size() < 2) return {};
  if (links.size() == 2) return std::vector<Cycle>(static_cast<std::size_t>(links[0][1]), Cycle{0, 1});
  return Search(links).run();
}

}  // namespace orrery
