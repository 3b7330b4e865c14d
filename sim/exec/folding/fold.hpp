// Exact folding: one rank stands for all that behave alike.
//
// Claim. Let the elements of cluster_incidence.hpp be divided into the coarsest equitable partition. Then in the
// unfolded run everything that happens to one element of a class happens to all of them at the same instants, and the
// run that has one member of each class, with the sizes of the classes as counts, shows exactly those instants.
//
// Why max-min shares are equal within a class. A settled instant has a set of running activities that is a union of
// classes (induction). Consider progressive filling with integer rates. A link saturates at
// floor((capacity - what is fixed) / open uses). Links of a class have equal capacities and, being equitable, cross
// equally often each class of activities, so if all activities of a class are fixed alike or open alike, these numbers
// are equal for all links of a class: they saturate together, and what they fix are whole classes, since each activity
// of a class crosses equally many links of the class. By induction over rounds, the shares are constant on classes. The
// folded network solves the same rounds: a resource has the capacity of one link, and a class of m activities that
// cross the k links of its class c times each is one activity that crosses the resource m c / k times, which is a
// whole number since every link of the class is crossed that often. Rates are integers and so are sums of rates:
// nothing is rounded differently. (Grohe, Kersting, Mladenov and Selman, "Dimension Reduction via Colour Refinement",
// 2014, show this for linear systems in general.)
//
// Why event times are equal. Suppose it holds up to an instant. What an element does next follows from its own state
// and the times at which its neighbours get on: a rank from its program, its GPU, its noise and its communications; a
// collective from the arrival of its members, by class and number; a message from the message before it and those it
// waits for. Equal states and equal neighbours by class give equal next times. What happens within an instant does not
// depend on an order (executor.hpp), so it does not depend on whether a class is handled once or member by member.
//
// Two things are left out of the incidence. Links that no set of rates could fill decide nothing, and leave rates as
// they are (proof: sim/fluid/network.hpp); were they kept, groups out of step with leaves at full bandwidth would be
// told apart by what never matters. Collectives of so few bytes that a coupled run plays them as a delay cross no
// resource, in the folded and in the unfolded run alike (sim/exec/traffic.cpp), and are labels of their members only.
//
// What breaks symmetry: another program (pipeline stage), another kind of GPU, a slow GPU or link, noise of each rank's
// own, a switch with fewer nodes, groups that are out of step with switches, routes that are hashed. Each splits what
// it can reach and no more. At message fidelity the edges of a ring remember how far they are from the nearest
// irregularity, so that one slow GPU unfolds its ring; a coupled collective progresses at one rate and does not.
//
// Cost: O(n log^2 n) in the total length of all routes at most.
#pragma once

#include "sim/exec/executor/partition.hpp"
#include "sim/exec/folding/cluster_incidence.hpp"
#include "sim/exec/resource_classes.hpp"

namespace orrery {

struct Folded {
  Partition partition;
  ResourceClasses resources;
};

// At message fidelity, also tells the communicators' routed plans which of their edges are alike.
[[nodiscard]] Folded fold(const FoldingInput& input);

}  // namespace orrery
