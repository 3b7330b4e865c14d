// How NCCL would lay a communicator out on a topology: which rings its channels follow, by which NICs they leave their
// nodes, how many channels there are and how fast each is meant to be.
//
// NCCL searches the topology for as many channels as fit at one of a list of speeds (src/graph/search.cc). The outcome
// for the machines that exist is regular, and is produced here directly:
//   NVSwitch   one ring in the order of the GPUs, at the speed that fills the links best; many channels share it
//   mesh       link-disjoint Hamiltonian cycles over direct links, found by search, each used both ways
//   PCIe       one ring in the order of the GPUs, which is that of the PCIe tree
//   more nodes one channel per NIC next to a member: it enters each node at the member next to that NIC, passes all
//              members of the node, and leaves by the same NIC (the topology hands data over NVLink to that NIC's GPU)
// Channels faster than 25 GB/s are split in two and all are doubled, as NCCL does; copies of one ring are not kept
// apart but counted.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "sim/exec/collectives/protocol.hpp"
#include "topology/topology.hpp"

namespace orrery {

struct CommunicatorLayout {
  std::vector<std::vector<std::int32_t>> orders;  // [rings][members] member indices, node after node
  std::vector<std::vector<std::int32_t>> nics;    // [rings][nodes] node-local NIC of the ring; -1 on a single node
  std::vector<std::int32_t> node_of;              // [members] numbered in the order of the communicator
  std::int32_t nodes = 1;
  std::int32_t searched_channels = 1;  // that NCCL's search would find; its caps count these
  std::int32_t channels = 1;           // after doubling: blocks that run; the rings share them evenly
  BytesPerSecond planned{};            // what the search plans for all channels together
  BytesPerSecond planned_tree{};       // the same for trees: on two nodes, the speed inside them may be higher
  std::int32_t heads = 1;              // channels between nodes before splitting: NICs, several of one GPU as one
  BytesPerSecond planned_inside{};     // of all heads together inside nodes, where NVSwitches join the members
  Hop intra = Hop::nvlink;             // the slowest kind of hop inside a node
  bool one_switch = false;             // the members of each node, two at least, are all on its NVSwitch
  bool switch_reduces = false;         // which reduces and multicasts for all of them (NVLink SHARP)
  bool network_reduces = false;        // the switches between the nodes do (SHARP)
  bool even_nodes = false;             // as many members on every node, numbered node after node
  std::int32_t node_most = 1;          // members of one node
  GpuGeneration generation = GpuGeneration::ampere;

  [[nodiscard]] std::int32_t members() const { return static_cast<std::int32_t>(node_of.size()); }
  [[nodiscard]] std::int32_t rings() const { return static_cast<std::int32_t>(orders.size()); }
};

// At least one member. O(members x NICs per node), plus a bounded search on mesh nodes.
[[nodiscard]] CommunicatorLayout lay_out(const Topology& topology, std::span<const GpuId> members);

// By what the GPU can do: fp8 and NVLink SHARP came with Hopper, bf16 with Ampere; Blackwell has twice Hopper's
// arithmetic.
[[nodiscard]] GpuGeneration generation_of(const GpuSpec& gpu);

// Link-disjoint Hamiltonian cycles over `nodes` vertices with links[a][b] parallel links between a and b; as many as a
// search with a bounded number of steps finds. Two vertices: one cycle per link. Each cycle begins at vertex 0.
[[nodiscard]] std::vector<std::vector<std::int32_t>> disjoint_cycles(const std::vector<std::vector<int>>& links);

}  // namespace orrery
