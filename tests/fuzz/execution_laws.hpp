// What must hold for every run of a small case, whatever the numbers.
//
//   ends         execute() gives a result: a drawn case cannot deadlock
//   schedule     every task of every rank begins when the last thing that it waits for is over, neither before nor
//   after
//                (kernels: or when the kernels before it on the GPU are over); sides of a communication begin and end
//                together; a task takes no less than its work alone; the step ends with its last task
//   path         the critical path reaches from the step's start to its end, and each part of it waited for the one
//                before; folded runs too
//   times        the parts of a rank's time add up to the step
//   memory       ends where it began, never holds less than the program does, peaks where it is said to
//   messages     those of the plans of all collectives and one for each transfer, and no fewer bytes than any algorithm
//                needs; as many flows at message fidelity
//   bytes        what enters a switch, NIC or socket leaves it, and each GPU sends and receives what its role says
//   capacity     no link and no memory serves more than its capacity over the step
//   repetition   a second run, and a run that records nothing, have the same fingerprint
//   folding      a folded run is the same, at both fidelities
//   fidelities   both move the same messages, and the same bytes over every link
//
// The schedule law implies that a step is no shorter than its critical path.
#pragma once

#include <string>
#include <vector>

#include "sim/results/run_result.hpp"
#include "tests/fuzz/small_case.hpp"

namespace orrery::fuzz {

// The laws that the case breaks, with values; empty when all is well. Runs the case seven times.
[[nodiscard]] std::vector<std::string> broken_laws(const SmallCase& drawn);

// The part that looks at one result of an execution of the case at the given fidelity.
[[nodiscard]] std::vector<std::string> broken_schedule_laws(const SmallCase& drawn, const RunResult& result);

}  // namespace orrery::fuzz
