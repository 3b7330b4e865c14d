// The slow twin of FluidNetwork: the same interface and the same results, to the bit, by the plainest means. Every
// solve is a full one, every activity keeps its own account, nothing is found but by looking at everything. Tests
// compare the two at every instant.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/fluid/activity.hpp"
#include "sim/fluid/rate.hpp"
#include "sim/fluid/sharing.hpp"

namespace orrery {

// See FluidNetwork for what the functions mean.
class ReferenceNetwork {
 public:
  ResourceId add_resource(Rate capacity);
  ResourceId add_resource(BytesPerSecond capacity) { return add_resource(rate_from(capacity)); }
  [[nodiscard]] std::size_t resource_count() const { return resources_.size(); }

  void set_capacity(Instant now, ResourceId resource, Rate capacity);

  // Starts an activity of `work` units. It crosses each resource at most once, with a count of at least 1. No work, or
  // neither a crossing nor a cap: it completes at this very instant.
  ActivityId start(Instant now, std::int64_t work, Rate cap, std::span<const Crossing> crossings, std::uint64_t tag);

  void set_cap(Instant now, ActivityId activity, Rate cap);

  // Ends an activity without a completion. What it has done remains counted as served.
  void cancel(Instant now, ActivityId activity);

  // Whether something changed that may change rates.
  [[nodiscard]] bool needs_solve() const { return dirty_; }

  // Shares the resources anew among the activities that run at `now`.
  void solve(Instant now);

  // When the next activity will have done its work, at the present rates, rounded up; kNever if none will.
  [[nodiscard]] Instant next_completion() const;

  // The activities whose work is done at `now`, in the order in which they were started; they exist no more. The span
  // is valid until the next call of pop_completed.
  [[nodiscard]] std::span<const Completion> pop_completed(Instant now);

  [[nodiscard]] bool running(ActivityId activity) const;
  [[nodiscard]] std::size_t activity_count() const { return active_.size(); }

  // Rates as of the last solve. An activity that started since has none.
  [[nodiscard]] Rate rate(ActivityId activity) const;
  [[nodiscard]] Rate usage(ResourceId resource) const;

  // The work that is left, rounded up to units, or exactly.
  [[nodiscard]] std::int64_t remaining(ActivityId activity, Instant now) const;
  [[nodiscard]] Ticks remaining_ticks(ActivityId activity, Instant now) const;

  // What the activities have done on a resource so far, times their counts.
  [[nodiscard]] Ticks served_ticks(ResourceId resource, Instant now) const;
  [[nodiscard]] double served(ResourceId resource, Instant now) const;

 private:
  struct Resource {
    Rate capacity;
    Ticks served_by_ended = 0;
  };
  struct Activity {
    std::vector<Crossing> crossings;
    std::uint64_t order = 0;  // how many were started before
    std::uint64_t tag = 0;
    Ticks work = 0;
    Ticks remaining = 0;  // at `since`
    Instant since{};
    Rate rate{};
    Rate cap{};
    std::uint32_t generation = 0;
    bool idle_work = false;
  };

  [[nodiscard]] const Activity& at(ActivityId activity) const;
  Activity& at(ActivityId activity);
  static Ticks remaining_of(const Activity& activity, Instant now);
  void change_at(Instant now);
  void end(std::uint32_t slot, Ticks done);

  std::vector<Resource> resources_;
  std::vector<Activity> slots_;
  std::vector<std::uint32_t> free_slots_;
  std::vector<std::uint32_t> active_;  // slots in order of start
  std::vector<Completion> completed_;
  std::uint64_t started_ = 0;
  Instant changed_at_{};
  bool dirty_ = false;
};

}  // namespace orrery
