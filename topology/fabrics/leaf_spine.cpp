// Two tiers: all NICs of a node on one leaf, every leaf joined to every spine.
#include "topology/clos.hpp"
#include "topology/registry.hpp"

namespace orrery {

std::unique_ptr<Fabric> build_leaf_spine(const FabricInput& input, Problems& problems) {
  const FabricSpec& spec = input.spec;
  ClosShape shape;
  shape.nodes_per_leaf = spec.nodes_per_leaf;
  shape.leaves = divide_up(input.nodes(), spec.nodes_per_leaf);
  shape.leaves_per_pod = shape.leaves;
  if (shape.leaves > 1) {
    shape.leaf_uplinks = uplinks_needed(input.node_max() * spec.nodes_per_leaf, spec.link.bandwidth,
                                        spec.oversubscription, "cluster.fabric.oversubscription", problems);
    if (shape.leaf_uplinks == 0) return nullptr;
  }
  return make_clos(input, shape, problems);
}

}  // namespace orrery
