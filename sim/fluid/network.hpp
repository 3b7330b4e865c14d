// Activities that share resources max-min fairly while time passes.
//
// Problem. Transfers, kernels and copies progress at rates that depend on all others that run at the same time. Who
// simulates them wants to say "start" and to hear "done", with results that do not depend on the order of calls.
//
// Method. Rates come from the max-min problem of sharing.hpp, kept up to date by IncrementalSharing. Most activities of
// a cluster need no solver: nothing that they cross is short. Call a_f the rate that activity f would have alone, the
// least of its cap and floor(C_l / c(f,l)), and the load of resource l the sum of c(f,l) * (a_f + 1) over those that
// run there.
//
// Claim. A resource whose load is within its capacity saturates in no round of progressive filling, so that rates are
// the same to the bit without it; and an activity that is the only one on each of its other resources has the rate a_f.
// Proof. No rate is above a_f. Let l be such a resource with open activities, of which f has the least a_f. What l
// would give in this round is at least floor(sum over open ones of c * (a + 1) / sum of their c) >= a_f + 1. But f has
// a cap or a resource m with a_f = floor(C_m / c(f,m)), which would give it no more than a_f; and m is not l, as the
// load of f alone on m is above C_m. So l is not the least in this round. Induction over rounds.
//
// So a resource is calm while it has one activity or a load within its capacity. Activities that find only calm
// resources run alone: the end is a division. When a resource becomes tight, those on it enter the sharing, with all
// their tight resources, and it stays tight until nobody is left.
//
// Invariants. Rates are constant between solves. Progress is exact (rate.hpp); an activity ends at the first picosecond
// at which its work is done. What is recorded at one instant is solved once, and the order of the calls within the
// instant has no influence on rates or times, nor has the way in which equal activities are counted: k activities with
// count 1 or one with count k. Completions are handed out in the order in which the activities were started.
//
// What can never decide. Let M be a set of resources such that every activity that crosses resource l crosses them
// together at least as often, c(f,l) <= sum over m in M of c(f,m), and let their capacities together be at most C_l.
// Then the use of l is within C_l whatever the rates are, as long as those of M are: the rates without l are feasible
// with l, and since they are max-min fair among more rates than l allows, they are max-min fair with l. (In rounded
// rates, l could have stopped activities early by a fraction of a step: 1/64 unit a second. So a model with l and one
// without may differ in the last bit, and it is left out for good.) leave_out() takes the promise; who knows the routes
// knows M: of a bundle that carries the traffic of a leaf's hosts, the hosts' ports.
//
// Cost. An undisturbed start and end: O(crossings). A shared one: O(crossings) and its part of a solve. Memory is used
// again.
//
// Left out: weights and priorities between activities, rates that do not use resources in fixed proportion.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/fluid/activity.hpp"
#include "sim/fluid/incremental_sharing.hpp"
#include "sim/fluid/lone_queue.hpp"
#include "sim/fluid/rate.hpp"
#include "sim/fluid/sharing.hpp"

namespace orrery {

// How the network solves. Results are the same to the bit; the choice is one of speed, and of having twins to compare.
struct FluidOptions {
  bool lone_fast_path = true;
  // Solve fully when more than 1/full_share of the resources in use is touched at once. 1: always, 0: never.
  std::int64_t full_share = 4;

  [[nodiscard]] static FluidOptions full() { return {.lone_fast_path = false, .full_share = 1}; }
};

// Build: add all resources. Then, at each instant, any number of pop_completed, start, set_cap, set_capacity and
// cancel; solve once, if needs_solve(); next_completion() tells when to come back. Time must not pass while a solve is
// due (checked). FluidDriver does this on an engine.
class FluidNetwork {
 public:
  explicit FluidNetwork(FluidOptions options = {}) : options_(options), sharing_(options.full_share) {}

  // Resources are added before the first activity is started. Ids count up from 0.
  ResourceId add_resource(Rate capacity);
  ResourceId add_resource(BytesPerSecond capacity) { return add_resource(rate_from(capacity)); }
  [[nodiscard]] std::size_t resource_count() const { return resources_.size(); }

  // A promise, before the first start, that what activities do on `resource` is at every moment within its capacity
  // whatever their rates, because it is bounded by the capacities of others that they cross (above). The solver leaves
  // it out; usage and service are still known. Its capacity must not be changed.
  void leave_out(ResourceId resource);

  void set_capacity(Instant now, ResourceId resource, Rate capacity);
  [[nodiscard]] Rate capacity(ResourceId resource) const { return Rate(resources_[resource.index()].capacity); }

  // Starts an activity of `work` units (>= 0). It names each resource at most once, with a count of at least 1: callers
  // add up. Without work, or with neither a crossing nor a cap, it completes at this very instant.
  ActivityId start(Instant now, std::int64_t work, Rate cap, std::span<const Crossing> crossings, std::uint64_t tag);

  // For activities that run again and again over the same resources: one that rests, until run() starts it. When it has
  // done its work or is cancelled it rests again, under the same id, and what it has done remains counted as served.
  // Starting it costs no more than to look at its resources. discard() forgets a resting one.
  ActivityId keep(Rate cap, std::span<const Crossing> crossings, std::uint64_t tag);
  void run(Instant now, ActivityId resting, std::int64_t work);
  void discard(ActivityId resting);

  // These need a running activity.
  void set_cap(Instant now, ActivityId activity, Rate cap);
  void cancel(Instant now, ActivityId activity);  // without a completion; what it has done remains counted as served

  // Whether something changed that may change rates.
  [[nodiscard]] bool needs_solve() const { return dirty_; }
  void solve(Instant now);

  // When the next activity will have done its work, at the present rates; kNever if none will. While a solve is due,
  // only completions of the present instant are reliable.
  [[nodiscard]] Instant next_completion();

  // The activities whose work is done at `now`, in the order in which they were started; they exist no more. The span
  // is valid until the next call of pop_completed.
  [[nodiscard]] std::span<const Completion> pop_completed(Instant now);

  [[nodiscard]] bool running(ActivityId activity) const;
  [[nodiscard]] std::size_t activity_count() const { return activity_count_; }

  // Rates as of the last solve: not to be asked for while one is due (checked).
  [[nodiscard]] Rate rate(ActivityId activity) const;
  [[nodiscard]] Rate usage(ResourceId resource) const;

  // The work that is left: rounded up to units, or exactly.
  [[nodiscard]] std::int64_t remaining(ActivityId activity, Instant now) const;
  [[nodiscard]] Ticks remaining_ticks(ActivityId activity, Instant now) const;

  // What activities have done on the resource so far, times their counts: the integral of its usage, less the fraction
  // of a picosecond's worth by which the last step of an ended activity was longer than its work. O(activities on it).
  [[nodiscard]] Ticks served_ticks(ResourceId resource, Instant now) const;
  [[nodiscard]] double served(ResourceId resource, Instant now) const;  // in units

  [[nodiscard]] const SharingStatistics& statistics() const { return sharing_.statistics(); }

 private:
  enum class State : std::uint8_t { ended, resting, idle_work, lone, shared };

  // What every start and end looks at.
  struct Resource {
    Int128 load = 0;
    std::int64_t capacity = 0;
    std::uint32_t running = 0;    // activities that cross it
    std::uint32_t first = kNone;  // calm: first of the list of their uses; else kTight
  };
  struct Account {
    Ticks served_by_ended = 0;
    bool decides = true;  // false: the solver leaves it out
  };

  struct Activity {
    Ticks left = 0;  // at `since`, for a lone activity
    Instant since{};
    Instant end = kNever;  // of a lone activity
    Rate alone{};          // its rate if nobody else ran
    Rate cap{};
    std::int64_t work = 0;
    std::uint64_t order = 0;  // how many were started before
    std::uint64_t tag = 0;
    Ticks served_before = 0;  // kept: by its runs that have ended
    // Its uses: those that take part in the sharing, one kept for the cap, the others of resources that may decide, and
    // those of resources that never do.
    std::uint32_t first_use = 0;
    std::uint32_t in_sharing = 0;
    std::uint32_t deciding = 0;  // in all, the cap's apart
    std::uint32_t left_out = 0;
    std::uint32_t generation = 0;
    State state = State::ended;
    bool cap_attached = false;
    bool alone_known = false;
    bool kept = false;

    [[nodiscard]] bool progresses() const { return state == State::lone || state == State::shared; }
    [[nodiscard]] std::uint32_t cap_use() const { return first_use + in_sharing; }
    [[nodiscard]] std::uint32_t end_use() const { return first_use + 1 + deciding + left_out; }
  };

  static constexpr std::uint32_t kNone = 0xffffffff;
  static constexpr std::uint32_t kTight = 0xfffffffe;

  static std::uint32_t link_of(ResourceId resource) { return static_cast<std::uint32_t>(resource.value()); }
  [[nodiscard]] Use& use(std::uint32_t index) { return sharing_.uses()[index]; }
  [[nodiscard]] const Use& use(std::uint32_t index) const { return sharing_.uses()[index]; }
  [[nodiscard]] std::uint32_t slot_of(ActivityId activity) const;
  void pass_time(Instant now);

  std::uint32_t allocate(Rate cap, std::span<const Crossing> crossings, std::uint64_t tag);
  void begin(Instant now, std::uint32_t slot, std::int64_t work);
  [[nodiscard]] Rate rate_alone(const Activity& activity) const;
  [[nodiscard]] std::uint32_t resting_slot(ActivityId id) const;
  void count_served(const Activity& activity, Ticks done);
  void forget(std::uint32_t slot);
  void no_longer_alone(const Activity& activity);
  void store_uses(std::uint32_t slot, std::span<const Crossing> crossings);
  void wait_for_pop(std::uint32_t slot);
  void place(Instant now, std::uint32_t slot, Ticks left);
  void run_alone(Instant now, std::uint32_t slot, Ticks left);
  void share(Instant now, std::uint32_t slot, Ticks left);
  void promote(Instant now, std::uint32_t slot);
  void join_sharing(Instant now, std::uint32_t slot, Ticks left);
  void gather_tight(Activity& activity);
  void left_sharing(std::uint32_t slot);
  void leave_resources(std::uint32_t slot);
  void take_out(Instant now, std::uint32_t slot);
  void list(std::uint32_t index);
  void unlist(std::uint32_t index);
  void moved(std::uint32_t index);
  [[nodiscard]] bool is_tight(std::uint32_t link) const { return resources_[link].first == kTight; }
  [[nodiscard]] Int128 load_of(const Activity& activity, const Use& use) const {
    return static_cast<Int128>(activity.alone.count() + 1) * use.count;
  }
  void release(std::uint32_t slot, Ticks done);
  [[nodiscard]] Ticks left_of(std::uint32_t slot, Instant now) const;
  void collect_lone(Instant now);
  [[nodiscard]] bool holds(const LoneQueue::Entry& entry) const;
  [[nodiscard]] Rate rate_of(std::uint32_t slot) const;
  template <class Function>
  void for_each_use_of(ResourceId resource, Function&& function) const;

  FluidOptions options_;
  IncrementalSharing sharing_;  // its links are the resources, then the caps of activities that share
  std::vector<Resource> resources_;
  std::vector<Account> accounts_;     // [resources]
  std::vector<Activity> activities_;  // [slots]
  std::vector<std::uint32_t> owner_;  // [uses] the slot that a use belongs to
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> without_work_;  // slots that complete at once
  LoneQueue lone_queue_;
  std::size_t lone_count_ = 0;
  Instant next_lone_ = kNever;   // the first end in lone_queue_ that holds,
  bool next_lone_known_ = true;  // if known
  std::vector<std::uint32_t> promoted_;
  std::vector<std::uint32_t> done_;
  std::vector<Completion> completed_;
  std::size_t activity_count_ = 0;  // that run
  std::size_t kept_count_ = 0;
  std::uint64_t started_ = 0;
  Instant now_{};  // of the last change
  bool dirty_ = false;
};

}  // namespace orrery
