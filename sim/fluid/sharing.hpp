// Max-min fair sharing, the problem without time: its definition, the plain solver and the certificate.
//
// Activity f progresses at rate x_f and uses c(f,l) * x_f of every resource l that it crosses, with integer counts
// c >= 1. Capacities bound what is used:  sum over f of c(f,l) * x_f <= C_l, and caps bound x_f <= cap_f.
// Among the allocations that keep the bounds, the max-min fair one is that in which no rate can be raised without
// lowering one that is no larger (Bertsekas and Gallager, "Data Networks", 2nd ed. 1992, section 6.5.2).
//
// In integers, progressive filling defines it. A cap is a resource of its own with capacity cap_f, crossed once.
// Repeat until every rate is fixed:
//   r = min over resources with unfixed activities of  floor((C_l - used by fixed ones) / sum of unfixed counts);
//   all resources that attain r saturate, with level r; all their unfixed activities are fixed at r.
// Resources that never saturate have the level kUnsaturated. The levels rise from round to round, x_f is the least
// level among the resources of f, and the result does not depend on the numbering of anything: resources that tie
// saturate together. k equal activities get what one with its counts times k gets.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sim/base/ids.hpp"
#include "sim/fluid/rate.hpp"

namespace orrery {

using ResourceId = Id<struct ResourceTag>;

// One use of a resource by an activity. An activity names a resource at most once: callers add up.
struct Crossing {
  ResourceId resource{};
  std::int64_t count = 1;
};

inline constexpr Rate kUnsaturated = Rate(std::numeric_limits<std::int64_t>::max());

struct SharingProblem {
  std::vector<Rate> capacity;      // [resources]
  std::vector<Rate> cap;           // [activities]
  std::vector<std::size_t> first;  // [activities + 1] activity f has crossings [first[f], first[f + 1])
  std::vector<Crossing> crossings;

  ResourceId add_resource(Rate of) {
    capacity.push_back(of);
    return ResourceId(capacity.size() - 1);
  }
  void add_activity(Rate capped_at, std::span<const Crossing> crossed) {
    if (first.empty()) first.push_back(0);
    cap.push_back(capped_at);
    crossings.insert(crossings.end(), crossed.begin(), crossed.end());
    first.push_back(crossings.size());
  }
  [[nodiscard]] std::size_t activity_count() const { return cap.size(); }
  [[nodiscard]] std::span<const Crossing> crossings_of(std::size_t activity) const {
    return std::span(crossings).subspan(first[activity], first[activity + 1] - first[activity]);
  }
};

struct SharingSolution {
  std::vector<Rate> rate;   // [activities]; kUncapped for an activity that nothing limits
  std::vector<Rate> level;  // [resources]
};

// Progressive filling as defined above, each round by a scan of all resources. O(rounds * resources + crossings).
[[nodiscard]] SharingSolution solve_full(const SharingProblem& problem);

// Whether `rates` is the max-min fair allocation up to the rounding of the definition: no capacity or cap is exceeded,
// and every activity is at its cap or crosses a resource on which nobody has a larger rate and which cannot give each
// of its activities one step more (what is left is less than the sum of the counts). Needs no other solver. Returns
// what is wrong with the first activity or resource that fails, or nothing.
[[nodiscard]] std::optional<std::string> certificate_failure(const SharingProblem& problem,
                                                             std::span<const Rate> rates);

}  // namespace orrery
