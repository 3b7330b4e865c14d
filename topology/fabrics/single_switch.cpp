// Every NIC on one switch that never blocks: small clusters, and the limit that other fabrics are compared with.
#include "topology/clos.hpp"
#include "topology/registry.hpp"

namespace orrery {

std::unique_ptr<Fabric> build_single_switch(const FabricInput& input, Problems& problems) {
  ClosShape shape;
  shape.nodes_per_leaf = input.nodes();
  shape.leaf_name = "switch";
  return make_clos(input, shape, problems);
}

}  // namespace orrery
