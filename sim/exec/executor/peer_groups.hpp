// The communicators that transfers go over. Those of a rank to its peers of one name ("pipeline", whether next or
// previous) go over one, whose ranks are all that such transfers join.
#pragma once

#include <vector>

#include "sim/graph/peer_name.hpp"
#include "sim/graph/workload.hpp"

namespace orrery {

// [peer kinds][ranks] How many ranks the communicator of a rank's transfers of that kind has, itself among them.
// O(ranks x peer kinds).
[[nodiscard]] std::vector<std::vector<int>> transfer_communicator_sizes(const Workload& workload);

}  // namespace orrery
