// Folded Clos networks of one to three tiers, which all the built-in fabrics are.
//
// Shape. Leaves in pods of equal size; every leaf has `leaf_uplinks` cables, one to each aggregation switch of its pod
// (a spine, when there is only one pod); every aggregation switch has `pod_uplinks` cables, one to each core switch of
// its plane: core switch (a, b) joins the aggregation switches number a of all pods. So between two leaves of one pod
// there are `leaf_uplinks` equal paths, between pods leaf_uplinks * pod_uplinks, and choosing the cables on the way up
// fixes those on the way down. All leaves are alike, even the last one when it has fewer nodes.
//
// Adaptive routing sprays packets over all of these evenly, so parallel switches and cables carry equal loads and can
// be merged: one spine (or one aggregation switch a pod, one core) and one bundle between, with the summed bandwidth.
//
// Cost: no tables. Every route, name and capacity is arithmetic on switch numbers.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "sim/base/problem.hpp"
#include "topology/fabric.hpp"

namespace orrery {

struct ClosShape {
  std::int64_t leaves = 1;
  std::int64_t leaves_per_pod = 1;
  int leaf_uplinks = 0;  // cables; 0: there is one leaf
  int pod_uplinks = 0;   // cables of one aggregation switch; 0: there is one pod

  // NIC i of node n is plugged into leaf (n / nodes_per_leaf) * rails + i % rails.
  int nodes_per_leaf = 1;
  int rails = 1;

  // fmt patterns. {0}: leaf, {1}: unit of rails, {2}: rail.
  std::string leaf_name = "leaf{0}";
  // {0}: number in its pod, empty for merged ones, {1}: pod.
  std::string middle_name = "spine{0}";
};

// The number of cables that a switch needs upwards: enough that capacity below is at most `oversubscription` times the
// capacity above. Adds a problem with `key` and returns 0 where less than one cable is left.
[[nodiscard]] int uplinks_needed(BytesPerSecond below, BytesPerSecond cable, double oversubscription, const char* key,
                                 Problems& problems);

// The fabric of this shape; null, with a problem added, where it has more switches or links than ids can number.
[[nodiscard]] std::unique_ptr<Fabric> make_clos(const FabricInput& input, const ClosShape& shape, Problems& problems);

class Clos final : public Fabric {
 public:
  Clos(const FabricInput& input, ClosShape shape);

  [[nodiscard]] int switches() const override { return core_first_ + cores_; }
  [[nodiscard]] std::string switch_name(int index) const override;
  [[nodiscard]] std::int64_t links() const override { return leaf_links_ + pod_links_; }
  [[nodiscard]] FabricLink link(int index) const override;
  [[nodiscard]] BytesPerSecond ports_behind(int index) const override;
  [[nodiscard]] int switch_of(int node, int nic) const override;
  [[nodiscard]] std::int64_t port_index(int node, int nic) const override;
  void route(int from, int to, std::uint64_t choice, int first, std::vector<LinkId>& links) const override;
  [[nodiscard]] BytesPerSecond bisection_bandwidth() const override;

 private:
  [[nodiscard]] int pod_of(int leaf) const { return leaf / leaves_per_pod_; }
  [[nodiscard]] BytesPerSecond ports_of_leaf(int leaf) const;

  FabricInput input_;
  ClosShape shape_;
  int nodes_ = 0;
  int leaves_ = 1;
  int leaves_per_pod_ = 1;
  std::int64_t ports_per_leaf_ = 0;
  int pods_ = 1;
  int leaf_lanes_ = 0;  // links up from a leaf; one when merged
  int pod_lanes_ = 0;   // links up from an aggregation switch
  int middles_ = 0;     // aggregation switches of one pod
  int core_first_ = 0;  // switches are numbered leaves, aggregation pod by pod, core
  int cores_ = 0;
  std::int64_t leaf_links_ = 0;
  std::int64_t pod_links_ = 0;
  BytesPerSecond leaf_bandwidth_{};  // of one link up from a leaf
  BytesPerSecond pod_bandwidth_{};
  Duration link_latency_{};
};

}  // namespace orrery
