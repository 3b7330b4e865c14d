// The kinds of fabric, one row each: name, parameters, builder. The scenario loader, --help, the catalogue listing and
// the checks in Topology::build read this table. To add a kind: a value of FabricKind, one file in topology/fabrics,
// one row here.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "sim/base/problem.hpp"
#include "topology/cluster.hpp"

namespace orrery {

class Fabric;
struct FabricInput;

// The member of FabricSpec that a parameter sets; its type says how a value is read.
using FabricField = std::variant<LinkSpec FabricSpec::*, std::optional<Duration> FabricSpec::*, int FabricSpec::*,
                                 double FabricSpec::*, Routing FabricSpec::*>;

struct FabricParameter {
  std::string_view name;  // key under `cluster.fabric`
  FabricField field;
  double least = 0;  // range of numbers, both ends included; of durations in seconds
  double most = 0;
  std::string_view default_text;  // as it would be written in a scenario
  std::string_view doc;
};

// Makes the fabric, or adds to `problems` and returns null. The ranges of the parameters have been checked.
using FabricBuilder = std::unique_ptr<Fabric> (*)(const FabricInput& input, Problems& problems);

struct FabricInfo {
  FabricKind kind{};
  std::string_view name;
  std::string_view doc;
  std::span<const FabricParameter> parameters;
  FabricBuilder build = nullptr;
};

std::unique_ptr<Fabric> build_single_switch(const FabricInput& input, Problems& problems);
std::unique_ptr<Fabric> build_leaf_spine(const FabricInput& input, Problems& problems);
std::unique_ptr<Fabric> build_fat_tree(const FabricInput& input, Problems& problems);
std::unique_ptr<Fabric> build_rail_optimized(const FabricInput& input, Problems& problems);

namespace fabric_parameters {

inline constexpr FabricParameter kLink{
    "link", &FabricSpec::link, 0, 0, "the nodes' NIC link", "cable between two switches (catalogue name or inline)"};
inline constexpr FabricParameter kSwitchLatency{"switch_latency", &FabricSpec::switch_latency,           0, 1e-3,
                                                "the link's",     "time that each switch on a path adds"};
inline constexpr FabricParameter kNodesPerLeaf{
    "nodes_per_leaf", &FabricSpec::nodes_per_leaf, 1, 4096, "32", "nodes whose NICs share a leaf"};
inline constexpr FabricParameter kNodesPerUnit{
    "nodes_per_leaf", &FabricSpec::nodes_per_leaf, 1, 4096, "32", "nodes of one unit, with one leaf per rail"};
inline constexpr FabricParameter kLeavesPerPod{
    "leaves_per_pod", &FabricSpec::leaves_per_pod, 1, 4096, "32", "leaves that share aggregation switches"};
inline constexpr FabricParameter kOversubscription{
    "oversubscription", &FabricSpec::oversubscription, 1, 1000, "1", "down over up capacity of a leaf"};
inline constexpr FabricParameter kCoreOversubscription{"core_oversubscription",
                                                       &FabricSpec::core_oversubscription,
                                                       1,
                                                       1000,
                                                       "1",
                                                       "down over up capacity of an aggregation switch"};
inline constexpr FabricParameter kRouting{"routing", &FabricSpec::routing, 0,
                                          0,         "adaptive",           "how one of several equal paths is chosen"};

inline constexpr std::array kSingleSwitch{kSwitchLatency};
inline constexpr std::array kLeafSpine{kLink, kSwitchLatency, kNodesPerLeaf, kOversubscription, kRouting};
inline constexpr std::array kFatTree{
    kLink, kSwitchLatency, kNodesPerLeaf, kLeavesPerPod, kOversubscription, kCoreOversubscription, kRouting};
inline constexpr std::array kRailOptimized{kLink, kSwitchLatency, kNodesPerUnit, kOversubscription, kRouting};

}  // namespace fabric_parameters

inline constexpr std::array kFabrics{
    FabricInfo{FabricKind::single_switch, "single-switch", "every NIC on one non-blocking switch",
               fabric_parameters::kSingleSwitch, build_single_switch},
    FabricInfo{FabricKind::leaf_spine, "leaf-spine", "two tiers: nodes on leaves, leaves joined by spines",
               fabric_parameters::kLeafSpine, build_leaf_spine},
    FabricInfo{FabricKind::fat_tree, "fat-tree", "three tiers: leaves, pods of aggregation switches, core",
               fabric_parameters::kFatTree, build_fat_tree},
    FabricInfo{FabricKind::rail_optimized, "rail-optimized",
               "NIC i of every node of a unit on leaf i of the unit, leaves joined by spines",
               fabric_parameters::kRailOptimized, build_rail_optimized},
};

struct RoutingInfo {
  Routing routing{};
  std::string_view name;
  std::string_view doc;
};

inline constexpr std::array kRoutings{
    RoutingInfo{Routing::adaptive, "adaptive", "equal paths act as one bundle (packet spraying)"},
    RoutingInfo{Routing::ecmp, "ecmp", "each flow hashed, with the run's seed, onto one of the equal paths"},
    RoutingInfo{Routing::fixed, "fixed", "one of the equal paths by the destination's index (D-mod-K)"},
};

struct WiringInfo {
  GpuWiring wiring{};
  std::string_view name;
  std::string_view doc;
};

inline constexpr std::array kWirings{
    WiringInfo{GpuWiring::none, "none", "GPUs reach one another over PCIe only"},
    WiringInfo{GpuWiring::nvswitch, "nvswitch", "all GPUs on one non-blocking NVSwitch plane"},
    WiringInfo{GpuWiring::mesh, "mesh", "direct NVLinks between pairs of GPUs (mesh_links)"},
};

// The row of a kind. Every FabricKind has one.
[[nodiscard]] const FabricInfo& fabric_info(FabricKind kind);

}  // namespace orrery
