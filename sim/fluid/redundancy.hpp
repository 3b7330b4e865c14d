// Resources that can never decide a rate, so that a solver need not look at them.
//
// Claim. If every activity that crosses resource l also crosses resource m, with c(f,m) >= c(f,l), and C_m <= C_l, then
// the rates are the same without l.
//
// Proof. At any moment of progressive filling let F_l be the sum of c(f,l) * x_f over fixed activities and n_l the sum
// of c(f,l) over unfixed ones, and F_m, n_m likewise. The users of l are among those of m, with no larger counts, so
// F_m >= F_l and n_m >= n_l. While n_l > 0, hence n_m > 0, and as C_m - F_m >= 0,
//     (C_m - F_m) / n_m  <=  (C_l - F_l) / n_l,
// and the same holds rounded down. So l attains the least value r of a round only if m does: m then saturates at r
// too, and fixes at r all its unfixed activities, among them all those of l. Leaving l out changes no round. Induction
// over rounds and, since the proof holds whatever other resources there are, over resources that are left out one after
// another, each with a dominator that was still there.
//
// Second claim. Let M be a set of resources such that every activity that crosses l crosses them together at least as
// often, c(f,l) <= sum over m in M of c(f,m), and let their capacities together be at most C_l. Then the use of l is
// within C_l whatever the rates are, as long as those of M are: the rates without l are feasible with l, and since they
// are max-min fair among more rates than l allows, they are max-min fair with l. (In rounded rates, l could have
// stopped activities early by a fraction of a step: 1/64 unit a second. So a model with l and one without may differ in
// the last bit, and it is left out for good.) FluidNetwork::leave_out takes the promise; who knows the routes knows M:
// of a bundle that carries the traffic of a leaf's hosts, the hosts' ports.
//
// In a fat tree with one route for each destination, the links down to a host's leaf that carry that host's traffic
// only are dominated by the link to the host: a quarter of all links.
//
// The simulator does not use this: it needs all routes before the run, and those of collectives are known only when
// the first of each size begins, so marking belongs where a run's communicators are all made beforehand.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "sim/fluid/sharing.hpp"

namespace orrery {

// [resources] A dominator that is not itself redundant, for each resource that some route crosses and that is redundant
// if no other routes are ever taken. For FluidNetwork::mark_redundant. Of resources that dominate each other, that with
// the higher id is kept. O(sum over crossings of the length of their route).
[[nodiscard]] std::vector<std::optional<ResourceId>> find_dominators(std::span<const Rate> capacities,
                                                                     std::span<const std::vector<Crossing>> routes);

}  // namespace orrery
