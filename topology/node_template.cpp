#include "topology/node_template.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "sim/base/check.hpp"

namespace orrery {

namespace {

LinkInfo info_of(LinkKind kind, const LinkSpec& link) { return {kind, link.payload_bandwidth(), link.latency}; }

// Adds the devices of one kind and returns the index of the first.
int add_devices(NodeTemplate& node, DeviceKind kind, int count) {
  const int first = static_cast<int>(node.devices.size());
  for (int i = 0; i < count; ++i) node.devices.push_back({kind, i});
  return first;
}

void add_cable(NodeTemplate& node, int a, int b, LinkInfo info) {
  node.links.push_back({a, b, info});
  node.links.push_back({b, a, info});
}

// Drives that one file is spread over.
LinkInfo striped(const LinkSpec& drive, int drives) {
  LinkInfo info = info_of(LinkKind::drive, drive);
  info.bandwidth = info.bandwidth * drives;
  return info;
}

// The place that item `index` of `count` gets when they are dealt evenly, in order, to `places`.
int dealt(int index, int count, int places) {
  return static_cast<int>(static_cast<std::int64_t>(index) * places / count);
}

}  // namespace

std::string name_of(Device device) {
  switch (device.kind) {
    case DeviceKind::gpu:
      return fmt::format("gpu{}", device.index);
    case DeviceKind::nvswitch:
      return "nvswitch";
    case DeviceKind::pcie_switch:
      return fmt::format("pcie{}", device.index);
    case DeviceKind::socket:
      return fmt::format("socket{}", device.index);
    case DeviceKind::memory:
      return fmt::format("memory{}", device.index);
    case DeviceKind::drives:
      return "drives";
    case DeviceKind::nic:
      return fmt::format("nic{}", device.index);
    case DeviceKind::fabric:
      return "fabric";
  }
  return {};
}

int NodeTemplate::first(DeviceKind kind) const {
  const auto found =
      std::find_if(devices.begin(), devices.end(), [kind](const Device& device) { return device.kind == kind; });
  return static_cast<int>(found - devices.begin());
}

int NodeTemplate::port_out(int nic) const { return static_cast<int>(links.size()) - 2 * (nics - nic); }

std::size_t NodeTemplate::bytes() const {
  return devices.size() * sizeof(Device) + links.size() * sizeof(NodeLink) +
         (nearest_nic.size() + host_of.size()) * sizeof(int) + gpu_to_gpu.bytes() + gpu_to_nic.bytes() +
         gpu_to_host.bytes();
}

NodeTemplate node_devices(const NodeSpec& spec, Duration switch_latency) {
  NodeTemplate node;
  node.gpus = spec.gpus;
  node.nics = spec.nics;
  const bool nvswitch = spec.wiring == GpuWiring::nvswitch;
  const int pcie_switches = spec.sockets * spec.switches_per_socket;
  const int gpu_first = add_devices(node, DeviceKind::gpu, spec.gpus);
  const int nvswitch_first = add_devices(node, DeviceKind::nvswitch, nvswitch ? 1 : 0);
  const int pcie_first = add_devices(node, DeviceKind::pcie_switch, pcie_switches);
  const int socket_first = add_devices(node, DeviceKind::socket, spec.sockets);
  const bool memory_known = spec.memory_link.bandwidth.count() > 0;
  const int memory_first = add_devices(node, DeviceKind::memory, memory_known ? spec.sockets : 0);
  const int drives_first = add_devices(node, DeviceKind::drives, spec.drives > 0 ? 1 : 0);
  const int nic_first = add_devices(node, DeviceKind::nic, spec.nics);
  const int fabric = add_devices(node, DeviceKind::fabric, 1);

  const LinkInfo nvlink = info_of(LinkKind::nvlink, spec.nvlink);
  for (int gpu = 0; nvswitch && gpu < spec.gpus; ++gpu) add_cable(node, gpu_first + gpu, nvswitch_first, nvlink);
  for (const MeshEdge& edge : spec.mesh_links) {
    LinkInfo bundle = nvlink;
    bundle.bandwidth = bundle.bandwidth * edge.links;
    add_cable(node, gpu_first + edge.a, gpu_first + edge.b, bundle);
  }
  const LinkInfo pcie = info_of(LinkKind::pcie, spec.pcie);
  const int parents = pcie_switches > 0 ? pcie_switches : spec.sockets;
  const int parent_first = pcie_switches > 0 ? pcie_first : socket_first;
  for (int gpu = 0; gpu < spec.gpus; ++gpu) {
    add_cable(node, gpu_first + gpu, parent_first + dealt(gpu, spec.gpus, parents), pcie);
  }
  for (int nic = 0; nic < spec.nics; ++nic) {
    add_cable(node, nic_first + nic, parent_first + dealt(nic, spec.nics, parents), pcie);
  }
  for (int i = 0; i < pcie_switches; ++i) {
    add_cable(node, pcie_first + i, socket_first + i / spec.switches_per_socket, pcie);
  }
  const LinkInfo socket = info_of(LinkKind::socket, spec.socket_link);
  for (int a = 0; socket.bandwidth.count() > 0 && a < spec.sockets; ++a) {
    for (int b = a + 1; b < spec.sockets; ++b) add_cable(node, socket_first + a, socket_first + b, socket);
  }
  if (memory_known) node.first_memory_link = static_cast<int>(node.links.size());
  for (int i = 0; memory_known && i < spec.sockets; ++i) {
    add_cable(node, socket_first + i, memory_first + i, info_of(LinkKind::memory, spec.memory_link));
  }
  if (spec.drives > 0) {
    node.drive_link = static_cast<int>(node.links.size());
    node.links.push_back({drives_first, socket_first, striped(spec.drive_read, spec.drives)});
    node.links.push_back({socket_first, drives_first, striped(spec.drive_write, spec.drives)});
  }
  for (int nic = 0; nic < spec.nics; ++nic) {
    LinkInfo port = info_of(LinkKind::nic, spec.nic);
    port.latency += spec.nic.adapter_latency;
    add_cable(node, nic_first + nic, fabric, port);
    node.links[node.links.size() - 2].info.latency += switch_latency;
  }
  return node;
}

}  // namespace orrery
