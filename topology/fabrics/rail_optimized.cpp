// Rail-optimised: in each unit of nodes, NIC i of every node is plugged into the unit's leaf for rail i, so that equal
// GPUs of all nodes of a unit are one switch apart. Other rails and other units are reached over the spines; traffic to
// another rail can instead change rails inside the node first (RouteOptions::from_nic). NVIDIA DGX SuperPOD reference
// architecture, 2023: units of 32 nodes, 8 rails.
#include <algorithm>

#include "topology/clos.hpp"
#include "topology/registry.hpp"

namespace orrery {

std::unique_ptr<Fabric> build_rail_optimized(const FabricInput& input, Problems& problems) {
  const FabricSpec& spec = input.spec;
  ClosShape shape;
  shape.nodes_per_leaf = spec.nodes_per_leaf;
  shape.rails = std::max(1, input.nics_max());
  shape.leaves = shape.rails * divide_up(input.nodes(), spec.nodes_per_leaf);
  shape.leaves_per_pod = shape.leaves;
  shape.leaf_name = "unit{1}.rail{2}";
  if (shape.leaves > 1) {
    shape.leaf_uplinks = uplinks_needed(input.port_max() * spec.nodes_per_leaf, spec.link.bandwidth,
                                        spec.oversubscription, "cluster.fabric.oversubscription", problems);
    if (shape.leaf_uplinks == 0) return nullptr;
  }
  return make_clos(input, shape, problems);
}

}  // namespace orrery
