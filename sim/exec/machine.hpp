// The simulated machine of one run: the clock and event queue, the fluid network, and which resource stands for which
// link or GPU memory. Kernels and traffic share it, and so contend.
#pragma once

#include <cstdint>
#include <vector>

#include "sim/base/units.hpp"
#include "topology/topology.hpp"

namespace orrery {

// Scaffold of the contract: what the executor and the traffic layer may ask. The executor's author completes it on top
// of sim/engine and sim/fluid.
//
//   Instant now() const;
//   const Topology& topology() const;
//   ResourceId link(LinkId);          // the fluid resource of a link (of its class), made on first use
//   std::int64_t links_in_class(LinkId);   // 1 when unfolded
//   ResourceId memory(GpuId);         // the fluid resource of a GPU's memory bandwidth
//   timers:   at(Instant, Phase, Owner, target) -> the owner's handle(target) is called then
//   flows:    start_flow(work, cap, crossings, Owner, target) -> the owner's flow_completed(target) is called at its
//   end run()     until no event is left
class Machine;

}  // namespace orrery
