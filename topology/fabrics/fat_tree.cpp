// Three tiers: leaves of a pod share its aggregation switches, pods meet in the core. A cluster that fits into one pod
// has no core. Al-Fares, Loukissas and Vahdat, "A scalable, commodity data center network architecture", 2008.
#include <algorithm>

#include "topology/clos.hpp"
#include "topology/registry.hpp"

namespace orrery {

std::unique_ptr<Fabric> build_fat_tree(const FabricInput& input, Problems& problems) {
  const FabricSpec& spec = input.spec;
  ClosShape shape;
  shape.nodes_per_leaf = spec.nodes_per_leaf;
  shape.leaves = divide_up(input.nodes(), spec.nodes_per_leaf);
  shape.leaves_per_pod = spec.leaves_per_pod;
  shape.middle_name = "pod{1}.agg{0}";
  const std::size_t before = problems.size();
  if (shape.leaves > 1) {
    shape.leaf_uplinks = uplinks_needed(input.node_max() * spec.nodes_per_leaf, spec.link.bandwidth,
                                        spec.oversubscription, "cluster.fabric.oversubscription", problems);
  }
  if (shape.leaves > spec.leaves_per_pod) {
    // One cable comes up from each leaf of the pod.
    shape.pod_uplinks = uplinks_needed(spec.link.bandwidth * spec.leaves_per_pod, spec.link.bandwidth,
                                       spec.core_oversubscription, "cluster.fabric.core_oversubscription", problems);
  }
  if (problems.size() > before) return nullptr;
  return make_clos(input, shape, problems);
}

}  // namespace orrery
