// A validated scenario: everything that one YAML file says, with the catalogue's entries filled in. Plain data; what
// was not said has its documented default. Made by load_scenario (scenarios/load.hpp).
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "topology/cluster.hpp"
#include "workloads/model.hpp"
#include "workloads/plan.hpp"

namespace orrery {

// Something slower than its kind.
struct SlowPart {
  std::int64_t gpu = -1;  // global GPU index, or
  std::string link;       // a link's name as Topology::find_link knows it
  double compute = 1;     // factor on the GPU's compute and memory rates
  double bandwidth = 1;   // factor on the link's bandwidth
};

struct VariationSpec {
  double kernel_jitter = 0;  // standard deviation of a kernel sequence's duration, as a fraction
  std::vector<SlowPart> slow;
};

enum class Fidelity : std::uint8_t { automatic, message, coupled };

struct SimulationSpec {
  Fidelity fidelity = Fidelity::automatic;
  std::uint64_t seed = 1;
};

struct CollectivesSpec {
  std::string algorithm = "auto";  // or a row of the collective algorithms' table
  int channels = 0;                // 0: as many as NCCL's search would find
  std::string protocol = "auto";   // ll, ll128, simple
  bool sharp = false;              // auto may let the network's switches reduce (NCCL_COLLNET_ENABLE)
  bool pxn = true;                 // messages may leave by the NIC of another GPU (NCCL_P2P_PXN_LEVEL)
};

// One axis of a sweep: a dotted key and the values (as YAML text) it takes.
struct SweepAxis {
  std::string key;
  std::vector<std::string> values;
  int zip_group = -1;  // axes with the same group (0, 1, ...) advance together; -1: on its own
};

// A dotted key and YAML text: `--set key=value`, or one setting of a variant. `place`: of the latter, as in
// "file.yaml:12:3", for messages; empty: of the command line.
struct Override {
  std::string key;
  std::string value;
  std::string place{};
};

// What is set beside the base for one of the runs that are laid side by side.
struct Variant {
  std::string name;
  std::vector<Override> set;  // in the order of the file
};

// Named variants of the scenario, which itself is the base. No variants: nothing is to be compared.
struct CompareSpec {
  std::string base = "base";  // what the scenario without changes is called
  std::vector<Variant> variants;
};

struct Scenario {
  std::string name;
  std::string file;  // as given on the command line
  ClusterSpec cluster;
  std::int64_t gpus = 0;  // may be fewer than the nodes hold
  ModelSpec model;
  TrainingSpec training;
  ParallelismSpec parallelism;
  VariationSpec variation;
  SimulationSpec simulation;
  CollectivesSpec collectives;
  std::vector<SweepAxis> sweep;
  CompareSpec compare;
  std::vector<std::string> remarks;  // what was assumed or ignored, a line each, for the user to see
};

}  // namespace orrery
