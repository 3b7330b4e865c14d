// The inside of one kind of node: its devices and links, and the routes among its GPUs, NICs and sockets, solved once.
//
// Routes follow the order of preference by which NCCL ranks paths: NVLink; NVLink through one other GPU (its NVB); one
// PCIe switch; an NVLink hop to a GPU beside the wanted NIC (its PXN); the root complex; another socket. Among equals
// the wider NVLink wins, then the GPU that owns the NIC, then the lower number.
//
// Internal to this folder. Indices of GPUs, NICs and links are node-local.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "topology/cluster.hpp"
#include "topology/topology.hpp"

namespace orrery {

enum class DeviceKind : std::uint8_t { gpu, nvswitch, pcie_switch, socket, memory, drives, nic, fabric };

struct Device {
  DeviceKind kind = DeviceKind::gpu;
  int index = 0;  // among devices of this kind

  friend bool operator==(const Device&, const Device&) = default;
};

// "gpu3", "nvswitch".
[[nodiscard]] std::string name_of(Device device);

// Links 2i and 2i + 1 are the two directions of one cable. The NICs' ports, to and from the fabric, come last.
struct NodeLink {
  int from = 0;  // indices into NodeTemplate::devices
  int to = 0;
  LinkInfo info;
};

// Sequences of links, by number.
class PathTable {
 public:
  void add(std::span<const int> links, Duration latency) {
    links_.insert(links_.end(), links.begin(), links.end());
    ends_.push_back(static_cast<std::uint32_t>(links_.size()));
    latencies_.push_back(latency);
  }
  [[nodiscard]] std::span<const int> links(int path) const {
    const auto i = static_cast<std::size_t>(path);
    const std::uint32_t begin = i == 0 ? 0 : ends_[i - 1];
    return std::span(links_).subspan(begin, ends_[i] - begin);
  }
  [[nodiscard]] Duration latency(int path) const { return latencies_[static_cast<std::size_t>(path)]; }
  [[nodiscard]] std::size_t bytes() const {
    return links_.size() * sizeof(int) + ends_.size() * (sizeof(std::uint32_t) + sizeof(Duration));
  }

 private:
  std::vector<int> links_;
  std::vector<std::uint32_t> ends_;
  std::vector<Duration> latencies_;
};

struct NodeTemplate {
  int gpus = 0;
  int nics = 0;
  std::vector<Device> devices;  // sorted by kind, then index
  std::vector<NodeLink> links;

  PathTable gpu_to_gpu;          // [gpu * gpus + gpu]
  PathTable gpu_to_nic;          // [gpu * nics + nic]
  PathTable gpu_to_host;         // [gpu]: to its socket
  std::vector<int> nearest_nic;  // by GPU; -1 without NICs
  std::vector<int> host_of;      // by GPU: index of its socket
  bool nvlink_everywhere = false;
  int first_memory_link = -1;  // of socket 0, to its memory; the others follow as cables do. -1: not known
  int drive_link = -1;         // from the drives; -1: there are none

  [[nodiscard]] int first(DeviceKind kind) const;  // index of the first device of a kind
  [[nodiscard]] int port_out(int nic) const;       // link from the NIC to the fabric
  [[nodiscard]] int port_in(int nic) const { return port_out(nic) + 1; }
  [[nodiscard]] static int reverse(int link) { return link ^ 1; }
  // The memory link of a GPU's socket, which serves reads and writes; -1: not known.
  [[nodiscard]] int memory_link(int gpu) const {
    return first_memory_link < 0 ? -1 : first_memory_link + 2 * host_of[static_cast<std::size_t>(gpu)];
  }
  [[nodiscard]] std::size_t bytes() const;
};

// The links of a checked node. `switch_latency` is that of the fabric switch beyond the NICs' ports.
[[nodiscard]] NodeTemplate node_devices(const NodeSpec& spec, Duration switch_latency);

// Adds the routes. Returns what cannot be reached ("gpu3 cannot reach nic0"), empty when all is well. O(gpus * links *
// log links + gpus^2 * (1 + NVLink neighbours)).
[[nodiscard]] std::string solve_routes(NodeTemplate& node);

}  // namespace orrery
