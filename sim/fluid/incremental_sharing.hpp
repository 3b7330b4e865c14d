// Max-min sharing that is kept up to date by local repair, with the work accounts that go with it.
//
// Problem. Flows come and go by the hundred thousand. Each change alters a few dozen of thousands of rates, and a full
// solve looks at all of them. The result must be that of sharing.hpp to the bit.
//
// The level of a link, locally. Call d_f the least level among the *other* links of flow f. Progressive filling gives
// link l the least fixed point of
//     r <- floor((C - sum of c*d over flows with d < r) / sum of c over flows with d >= r),
// approached from below, or kUnsaturated if all its flows have d < r. The level depends only on lower levels. So, by
// induction over levels, when every link satisfies its own equation, all levels are those of the full solution. It does
// not matter in which order this was brought about.
//
// Method. Each link keeps what it takes to see in O(1) whether its equation still holds: `used` (sum of c*x),
// `at_level` (sum of c over flows whose rate x is this link's level g) and the slack C - used. Flows below g have x =
// d, so g is a fixed point exactly if 0 <= slack < at_level; an unsaturated link needs slack >= 0. A change updates
// these sums and queues the links that fail, each under a lower bound of the level at which it will matter. The link
// with the least key is evaluated and, unless another one comes first, takes its new level; its flows take new rates,
// which are passed to their other links. Levels below the current key are final, so a link is rarely expanded twice.
// This is Ramalingam and Reps' dynamic fixed-point scheme ("An incremental algorithm for a generalization of the
// shortest-path problem", 1996) with levels in the place of distances.
//
// The least fixed point. Because of floors, a second, lower fixed point may exist: let flows with d in [r, g) count
// n_mid; it takes at_level * (g - r - 1) < n_mid, so some flow's rate must lie in (g - uses, g), where uses is the sum
// of all counts. A link that may have such a flow is flagged `near` and is always evaluated from below; only that
// evaluation clears the flag. An unsaturated link, or one at whose level nobody is left (at_level = 0), can have a
// fixed point anywhere below, but only if slack < uses. `window` is a bound of uses that grows in powers of two, so
// that the flag need not be reconsidered at every arrival.
//
// Own flows. Every flow has one bottleneck, a link whose level is the flow's rate; the link's list of members begins
// with these own flows. A rising level concerns only them.
//
// Caps are links of their own, with one flow and count 1.
//
// Work. A link has a clock: the integral of its level. An own flow ends when the clock reaches its target, so that a
// new level moves all targets at once, and only the first own flow of each link is in the queue of completions. Levels
// are integers and so are times: the account is exact, and equal to one kept per flow.
//
// Fallback. When a quarter of the links is touched at once, everything that hangs together with them is solved by
// progressive filling with a heap, component by component. When repair does not come to rest, or provisional sums do
// not fit in 64 bits, everything is.
//
// Cost. Per solve O(changed links * their members) in practice; progressive filling O((links + uses) log links).
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/fluid/indexed_heap.hpp"
#include "sim/fluid/rate.hpp"
#include "sim/fluid/sharing.hpp"
#include "sim/fluid/use_pool.hpp"

namespace orrery {

// Counts of what the solver did.
struct SharingStatistics {
  std::int64_t solves = 0;
  std::int64_t full_solves = 0;
  std::int64_t evaluations = 0;
  std::int64_t expansions = 0;
  std::int64_t rate_changes = 0;
};

class IncrementalSharing {
 public:
  // `full_share`: solve fully when more than 1/full_share of the links in use is touched; 0: never for that reason;
  // 1: always.
  explicit IncrementalSharing(std::int64_t full_share) : full_share_(full_share) {}

  std::uint32_t add_link(std::int64_t capacity);
  void remove_link(std::uint32_t link);  // it must have no flows
  [[nodiscard]] std::int64_t capacity(std::uint32_t link) const { return links_[link].capacity; }
  void set_capacity(std::uint32_t link, std::int64_t capacity);

  [[nodiscard]] bool in_use(std::uint32_t link) const { return !members_[link].empty(); }
  [[nodiscard]] std::int64_t used(std::uint32_t link) const { return links_[link].used; }

  UsePool& uses() { return uses_; }
  [[nodiscard]] const UsePool& uses() const { return uses_; }

  // Flow `flow` (a small integer that the caller chooses) with `count` uses from `first_use` on. Its rate is
  // provisional until the next solve.
  void insert(std::uint32_t flow, std::uint32_t first_use, std::uint32_t count, Ticks remaining, Instant now);

  // The same for the only flow on all its links, none of which has a flow: it gets its final rate at once, and nothing
  // has to be solved.
  void insert_alone(std::uint32_t flow, std::uint32_t first_use, std::uint32_t count, Ticks remaining, Instant now);

  void remove(std::uint32_t flow);

  [[nodiscard]] std::int64_t rate(std::uint32_t flow) const { return flows_[flow].rate; }
  [[nodiscard]] Ticks remaining(std::uint32_t flow, Instant now) const;

  void solve(Instant now);

  // The earliest completion as of the last solve, kNever if there is none.
  [[nodiscard]] Instant next_completion() const {
    return completions_.empty() ? kNever : Instant(Duration(completions_.top().key));
  }

  // Removes the flows that have done their work at `now` and appends them to `done`, in no particular order.
  void remove_completed(Instant now, std::vector<std::uint32_t>& done);

  [[nodiscard]] const SharingStatistics& statistics() const { return statistics_; }

 private:
  static constexpr std::int64_t kOpen = kUnsaturated.count();
  static constexpr std::uint32_t kNone = 0xffffffff;

  struct Link {
    std::int64_t capacity = 0;
    std::int64_t used = 0;      // sum of count * rate
    std::int64_t at_level = 0;  // sum of the counts of flows whose rate is the level
    std::int64_t own_uses = 0;  // sum of the counts of own flows
    std::int64_t uses = 0;      // sum of all counts
    std::int64_t window = 1;    // a power of two, at least `uses`
    std::uint32_t own = 0;      // number of own flows: the first members
    bool near = false;
    bool touched = false;
    bool retime = false;  // in retimed_
  };

  // The clock of a link, in ticks of work done for each own flow.
  struct Clock {
    Ticks value = 0;  // at `since`; advances with the level from there
    Instant since{};
    std::uint32_t first = kNone;  // the own flow with the least target, if known
  };

  struct Member {
    std::uint32_t flow;
    std::uint32_t use;
  };

  struct Flow {
    Ticks target = 0;  // of the bottleneck's clock
    std::int64_t rate = 0;
    std::uint32_t first_use = 0;
    std::uint32_t use_count = 0;
    std::uint32_t bottleneck = kNone;  // a use
    std::uint32_t running_position = 0;
  };

  struct Term {
    std::int64_t level;
    std::int64_t count;
  };

  // How far a flow may go without the link of `use`, and the use that then limits it.
  struct Limit {
    std::int64_t level;
    std::uint32_t use;
  };

  // Membership.
  void add_running(std::uint32_t flow, std::uint32_t first_use, std::uint32_t count);
  void join(std::uint32_t flow, std::uint32_t use, std::int64_t rate);
  void leave(std::uint32_t flow, std::uint32_t use);
  void make_own(std::uint32_t use);
  void make_common(std::uint32_t use);
  void swap_members(std::uint32_t link, std::uint32_t a, std::uint32_t b);
  void touch_later(std::uint32_t link);
  void add_used(Link& link, std::int64_t rate, std::int64_t count);

  // Local repair.
  bool repair();
  void requeue(std::uint32_t link);
  void process(std::uint32_t link);
  std::int64_t evaluate_from_below(std::uint32_t link);
  std::int64_t evaluate_rising(std::uint32_t link);
  void lower(std::uint32_t link, std::int64_t level);
  void raise(std::uint32_t link, std::int64_t level);
  void change_rate(std::uint32_t flow, std::int64_t rate, std::uint32_t except);
  void refresh_near(std::uint32_t link);
  [[nodiscard]] Limit limit_elsewhere(const Flow& flow, std::uint32_t use) const;
  void touch_marked();

  // Progressive filling.
  void fill(bool everything);
  void fill_component(std::uint32_t link);
  void open(std::uint32_t link);
  void saturate_least();
  void fix_members(std::uint32_t link, std::int64_t level);
  void take_stock(std::uint32_t link);

  // Clocks.
  [[nodiscard]] Ticks clock_at(std::uint32_t link, Instant now) const;
  void set_level(std::uint32_t link, std::int64_t level);
  void assign(std::uint32_t flow, std::uint32_t use, Ticks remaining, Instant now);
  void unassign(std::uint32_t flow);
  void reassign(std::uint32_t flow, std::uint32_t use);
  void retime_later(std::uint32_t link);
  void retime(std::uint32_t link);

  std::vector<std::int64_t> levels_;  // [links] kept apart: what is looked up most
  std::vector<Link> links_;
  std::vector<Clock> clocks_;
  std::vector<std::vector<Member>> members_;
  std::vector<std::uint32_t> free_links_;
  std::vector<Flow> flows_;
  std::vector<std::uint32_t> running_;
  UsePool uses_;

  IndexedHeap queue_;        // links to look at, by the least level that may be concerned
  IndexedHeap completions_;  // links by the moment at which their first own flow ends
  std::vector<std::uint32_t> touched_;
  std::vector<std::uint32_t> retimed_;
  std::vector<Term> terms_;
  std::vector<std::pair<std::int64_t, std::uint32_t>> filling_;
  std::vector<std::uint32_t> saturated_;
  std::vector<std::uint32_t> busy_links_;

  std::int64_t full_share_;
  std::int64_t links_in_use_ = 0;
  Instant now_{};
  bool full_due_ = false;  // repair cannot be trusted: a sum may not fit, or a provisional rate is void
  SharingStatistics statistics_;
};

}  // namespace orrery
