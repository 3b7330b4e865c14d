// What joins the nodes: switches, the cables between them, and the path from one switch to another, by formula.
// Internal to this folder; a fabric kind derives from Fabric, or fills in the shape of a Clos (clos.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/base/units.hpp"
#include "topology/cluster.hpp"
#include "topology/topology.hpp"

namespace orrery {

// Nodes of one group as the fabric sees them.
struct FabricPorts {
  int nodes = 0;
  int nics = 0;                // of each node
  BytesPerSecond nominal{};    // of one port
  BytesPerSecond bandwidth{};  // payload
};

struct FabricInput {
  FabricSpec spec;
  Duration switch_latency{};
  std::vector<FabricPorts> groups;  // in the order in which nodes are numbered

  [[nodiscard]] int nodes() const;
  [[nodiscard]] int nics_max() const;             // of one node
  [[nodiscard]] BytesPerSecond port_max() const;  // nominal, of one NIC
  [[nodiscard]] BytesPerSecond node_max() const;  // nominal, of all NICs of one node
};

// One direction of a cable or bundle between two switches.
struct FabricLink {
  int from = 0;
  int to = 0;
  BytesPerSecond bandwidth{};  // payload
  Duration latency{};          // with that of the switch it enters
};

class Fabric {
 public:
  virtual ~Fabric() = default;

  [[nodiscard]] virtual int switches() const = 0;
  [[nodiscard]] virtual std::string switch_name(int index) const = 0;

  // Links 2i and 2i + 1 are the two directions of one cable or bundle.
  [[nodiscard]] virtual std::int64_t links() const = 0;
  [[nodiscard]] virtual FabricLink link(int index) const = 0;

  // What the NIC ports through which all traffic over the link must go can carry together, payload in one direction:
  // those below the lower end of the link. Infinity where that is not known.
  [[nodiscard]] virtual BytesPerSecond ports_behind(int index) const = 0;

  // The switch that a NIC is plugged into, and the NIC's number among all, counted along the switches.
  [[nodiscard]] virtual int switch_of(int node, int nic) const = 0;
  [[nodiscard]] virtual std::int64_t port_index(int node, int nic) const = 0;

  // Appends the links from one NIC's switch to another's, as ids from `first` upwards. `choice` modulo the number of
  // equal paths picks one of them.
  virtual void route(int from, int to, std::uint64_t choice, int first, std::vector<LinkId>& links) const = 0;

  // See Topology::bisection_bandwidth.
  [[nodiscard]] virtual BytesPerSecond bisection_bandwidth() const = 0;
};

}  // namespace orrery
