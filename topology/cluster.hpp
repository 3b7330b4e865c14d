// What a cluster is, before it is built: nodes (GPUs, wiring, NICs) and the fabric between them. Plain data, filled in
// from the catalogue or a scenario, and checked by Topology::build.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "topology/gpu.hpp"

namespace orrery {

// One direction of a link.
struct LinkSpec {
  std::string name;
  BytesPerSecond bandwidth{};  // nominal
  double efficiency = 1.0;     // fraction of nominal that payload reaches (headers, flow control), measured
  Duration latency{};          // of the cable and the ports at both ends, from sender to receiver
  Duration adapter_latency{};  // that a NIC adds where such a link leaves or enters a node, in software and hardware
  Duration switch_latency{};   // that a switch made for such links adds
  // Whether a switch made for such links adds up what its ports send and hands the sum back (SHARP), at their rate.
  bool in_network_reduction = false;

  [[nodiscard]] BytesPerSecond payload_bandwidth() const { return BytesPerSecond(bandwidth.count() * efficiency); }
};

enum class GpuWiring : std::uint8_t {
  none,      // GPUs reach one another over PCIe only
  nvswitch,  // all GPUs on one non-blocking switch plane; `nvlink` is one GPU's total into the switch, per direction
  mesh,      // direct NVLink bundles; `nvlink` is ONE link per direction, `mesh_links` says how many between which
};

struct MeshEdge {
  int a = 0;
  int b = 0;
  int links = 1;
};

struct NodeSpec {
  std::string name;
  GpuSpec gpu;
  int gpus = 1;
  GpuWiring wiring = GpuWiring::none;
  LinkSpec nvlink;
  std::vector<MeshEdge> mesh_links;

  // PCIe tree: sockets, each with switches_per_socket PCIe switches; GPUs and NICs are dealt evenly to the switches, in
  // order. 0 switches: GPUs and NICs have root ports of their own, and are dealt evenly to the sockets.
  int sockets = 1;
  int switches_per_socket = 1;
  LinkSpec pcie;         // of a GPU, a NIC, and a switch's uplink
  LinkSpec socket_link;  // between any two sockets, per direction; bandwidth 0: not joined (the trays of a rack)

  int nics = 1;
  LinkSpec nic;  // the NIC's port; its adapter_latency counts once on the way out and once on the way in

  // What the CPUs have. `memory_link` is the memory of ONE socket, one direction for all: reads and writes share it.
  // Bandwidth 0: unknown, as are the others at 0.
  Bytes host_memory{};  // of the node
  LinkSpec memory_link;
  // Local drives, striped: together as wide as all of them.
  int drives = 0;
  LinkSpec drive_read;  // of one drive
  LinkSpec drive_write;
  Bytes drive_capacity{};  // of one

  Watts host_power{};            // of everything but the GPUs, at load; 0: unknown
  double cost_usd_per_hour = 0;  // cloud price of the whole node; 0: unknown
  std::string source;
};

struct NodeGroup {
  NodeSpec node;
  int count = 1;
};

enum class FabricKind : std::uint8_t {
  single_switch,   // every NIC on one non-blocking switch
  leaf_spine,      // nodes_per_leaf nodes on each leaf, leaves joined by spines
  fat_tree,        // three tiers: leaf, aggregation (pods), core
  rail_optimized,  // NIC i of every node of a unit on rail leaf i; leaves joined by spines
};

enum class Routing : std::uint8_t {
  adaptive,  // the equal paths between two switches act as one bundle (packet spraying)
  ecmp,      // each flow hashed, with the run's seed, onto one of the equal paths
  fixed,     // the path chosen by the destination's index modulo the number of equal paths (D-mod-K)
};

struct FabricSpec {
  FabricKind kind = FabricKind::single_switch;
  LinkSpec link;                           // between switches; its bandwidth is that of one cable
  std::optional<Duration> switch_latency;  // added by each switch on the path; unset: that of `link`, or of the NICs
  int nodes_per_leaf = 32;                 // leaf_spine, fat_tree: nodes per leaf; rail_optimized: nodes per unit
  int leaves_per_pod = 32;                 // fat_tree
  double oversubscription = 1;             // down over up capacity at the leaf; 1 = non-blocking
  double core_oversubscription = 1;        // fat_tree: at the aggregation tier
  Routing routing = Routing::adaptive;
};

struct ClusterSpec {
  std::vector<NodeGroup> groups;  // at least one; nodes are numbered through, group after group
  FabricSpec fabric;
};

}  // namespace orrery
