// A frozen cluster: devices, directed links, and the route between any two GPUs.
//
// Nothing here grows with the square of the cluster. A node's inside is a small graph (Boost.Graph) that is solved once
// per kind of node; the fabric's routes follow by formula from node, rail and leaf numbers. A link's id is the base of
// its node or fabric tier plus a local number, so 131,072 GPUs need tables of a few entries per node only.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/ids.hpp"
#include "sim/base/problem.hpp"
#include "sim/base/units.hpp"
#include "topology/cluster.hpp"

namespace orrery {

struct ExplicitGraph;

struct GpuTag;
using GpuId = Id<GpuTag>;  // numbered through the cluster, node after node
struct NodeTag;
using NodeId = Id<NodeTag>;
struct LinkTag;
using LinkId = Id<LinkTag>;

// `memory`: between a socket and its memory, reads and writes together; `drive`: from or to a node's local drives.
enum class LinkKind : std::uint8_t { nvlink, pcie, socket, nic, fabric, memory, drive };
inline constexpr std::size_t kLinkKinds = 7;
[[nodiscard]] std::string_view name_of(LinkKind kind);

// One direction of a cable, or of a bundle of equal cables that adaptive routing uses as one.
struct LinkInfo {
  LinkKind kind = LinkKind::nvlink;
  BytesPerSecond bandwidth{};  // payload, of the whole bundle
  Duration latency{};          // includes that of the fabric switch which the link enters, if any
};

struct Route {
  std::vector<LinkId> links;  // in the order travelled; empty within one GPU
  Duration latency{};         // sum of the links' latencies
};

// How a route is to be chosen where there is a choice. NICs matter between nodes only.
struct RouteOptions {
  int from_nic = -1;             // node-local NIC to leave by; -1: the nearest to the sending GPU
  int to_nic = -1;               // node-local NIC to arrive at; -1: the nearest to the receiving GPU
  std::uint64_t flow_label = 0;  // ecmp: hashed together with the end points and the seed
};

class Topology {
 public:
  // Checks the spec (keys of problems are relative to `cluster`: "cluster.fabric.oversubscription") and builds it.
  // `seed` decides ECMP hashes. O(nodes + links per node kind).
  [[nodiscard]] static Result<Topology> build(const ClusterSpec& spec, std::uint64_t seed = 1);

  Topology(Topology&&) noexcept;
  Topology& operator=(Topology&&) noexcept;
  ~Topology();

  [[nodiscard]] int gpus() const;
  [[nodiscard]] int nodes() const;
  [[nodiscard]] int links() const;
  [[nodiscard]] std::array<std::int64_t, kLinkKinds> links_by_kind() const;
  [[nodiscard]] const ClusterSpec& spec() const;

  [[nodiscard]] NodeId node_of(GpuId gpu) const;
  [[nodiscard]] int local_index(GpuId gpu) const;  // within its node
  [[nodiscard]] GpuId gpu(NodeId node, int local_index) const;
  [[nodiscard]] const GpuSpec& gpu_spec(GpuId gpu) const;
  [[nodiscard]] const NodeSpec& node_spec(NodeId node) const;

  // Node-local NIC nearest to the GPU (fewest PCIe hops; GPUs at equal distance are dealt the NICs in turn); -1 where
  // the node has none.
  [[nodiscard]] int nearest_nic(GpuId gpu) const;

  // Number of the fabric's switch that a NIC is plugged into.
  [[nodiscard]] int leaf_of(NodeId node, int nic) const;

  // What GPU-to-GPU traffic inside a node runs over: nvlink where every pair's route is NVLink alone (over a third GPU
  // at most), else pcie.
  [[nodiscard]] LinkKind intra_node_kind(NodeId node) const;

  [[nodiscard]] LinkInfo link(LinkId link) const;
  // What the NIC ports, in the link's direction, through which all traffic over it must go can carry together; infinity
  // where there are no such ports or they are not known. A link of the fabric that carries more never limits anything.
  [[nodiscard]] BytesPerSecond ports_behind(LinkId link) const;
  // The other direction of the same cable or bundle.
  [[nodiscard]] static LinkId reverse(LinkId link) { return LinkId(link.value() ^ 1); }
  // "node3.gpu2->nvswitch", "leaf4->spine": for reports.
  [[nodiscard]] std::string link_name(LinkId link) const;
  // The link with this name, for scenarios that slow one down; invalid if there is none.
  [[nodiscard]] LinkId find_link(std::string_view name) const;
  // The link with this name, or all links that touch the device with this name ("node3.gpu2", "leaf4"; for a NIC,
  // "node3.nic0", both directions of its port only). Empty if there is none. O(links of the node, or of the fabric).
  [[nodiscard]] std::vector<LinkId> find_links(std::string_view name) const;

  [[nodiscard]] Route route(GpuId from, GpuId to, const RouteOptions& options = {}) const;

  // The memory of the socket that the GPU is attached to: one link for reads and writes. Empty where it is not known.
  [[nodiscard]] Route host_memory(GpuId gpu) const;
  // From the node's local drives, and to them; without the memory at the other end. Empty where there are none.
  [[nodiscard]] Route drive_read(GpuId gpu) const;
  [[nodiscard]] Route drive_write(GpuId gpu) const;

  // Between a GPU's memory and its socket (the PCIe path).
  [[nodiscard]] Route host_to_device(GpuId gpu) const;
  [[nodiscard]] Route device_to_host(GpuId gpu) const;

  // What the first half of the cluster can send to the second, one direction: payload, NIC ports included. Halves are
  // whole leaves (whole units of a rail-optimised fabric), the first of them floor(n / 2) in number; of a cluster on
  // one leaf, nodes. Zero for one node.
  [[nodiscard]] BytesPerSecond bisection_bandwidth() const;

  // Memory that the tables of routes and links hold.
  [[nodiscard]] std::size_t table_bytes() const;

 private:
  friend ExplicitGraph materialize(const Topology& topology);

  struct Impl;
  explicit Topology(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace orrery
