// One step in figures: what summary.json holds and what a person reads first. Made from what was executed (RunResult,
// Workload) and a few facts about the machine that these do not know. What is unknown is absent (std::nullopt), not
// zero.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/base/units.hpp"
#include "sim/graph/workload.hpp"
#include "sim/results/run_result.hpp"

namespace orrery {

// The plan in a few words, so that a result tells by itself what was run.
struct PlanFacts {
  std::int64_t tensor = 1;
  std::int64_t pipeline = 1;
  std::int64_t data = 1;
  std::int64_t global_batch = 0;  // sequences
  std::int64_t micro_batch = 0;
  std::int64_t sequence_length = 0;
  std::string schedule;  // empty: there is no pipeline
  std::string sharding;
  std::string precision;
  std::string recompute;
  std::string framework;
};

// What a node keeps outside of its GPUs for the step: of all nodes the one with the least room left.
struct OffDeviceUse {
  struct Store {
    std::int64_t needed_bytes = 0;
    std::optional<std::int64_t> present_bytes;  // unknown where the catalogue does not know it

    [[nodiscard]] bool fits() const { return needed_bytes <= present_bytes.value_or(needed_bytes); }
  };
  std::int64_t node = 0;  // with the least room in host memory
  Store host_memory;
  Store drives;

  [[nodiscard]] bool fits() const { return host_memory.fits() && drives.fits(); }
};

// What a run is told about the scenario in order to report on it.
struct RunFacts {
  std::string scenario;
  std::string model;
  PlanFacts plan;
  std::int64_t gpus = 0;
  std::int64_t nodes = 0;
  std::string gpu;                   // its catalogue name; "a, b" where kinds are mixed
  FlopsPerSecond peak{};             // sum over the GPUs, in the precision that MFU compares with; zero: unknown
  std::vector<Bytes> memory_limits;  // [rank classes], of the GPU that each runs on; empty: unknown
  double tokens = 0;                 // of the whole training run; zero: not given
  double images = 0;                 // the same of an image model
  std::int64_t images_per_step = 0;  // of an image model
  bool full_recompute = false;       // the forward pass is run again in the backward pass
  std::string fidelity;              // "message" or "coupled"
  std::map<std::string, std::string> algorithms;  // of collectives: {"data all_reduce": "ring"}
  std::string unfolded_because;                   // why hardly any ranks are alike; empty: they are, or nobody asked
  std::optional<Duration> without_slow_parts;     // the step of the same cluster with nothing slow in it
  std::optional<double> wall_s;                   // how long the simulation itself took
  std::optional<OffDeviceUse> off_device;         // absent: nothing is offloaded
  std::vector<std::string> remarks;               // what was assumed or ignored in the scenario
};

struct Summary {
  struct Cluster {
    std::int64_t gpus = 0;
    std::int64_t nodes = 0;
    std::string gpu;
    std::optional<double> peak_tflops_per_gpu;  // mean over the GPUs, in the precision that MFU compares with
  };
  struct Model {
    std::string name;
    std::int64_t parameters = 0;
    std::int64_t active_parameters = 0;
  };
  struct Step {
    double time_s = 0;
    std::int64_t tokens = 0;  // of a model of text; zero: it works on images
    double tokens_per_s = 0;
    double tokens_per_s_per_gpu = 0;
    std::int64_t images = 0;  // of an image model
    double images_per_s = 0;
    double images_per_s_per_gpu = 0;
    double model_tflops_per_gpu = 0;     // forward and backward once, as publications count
    double hardware_tflops_per_gpu = 0;  // recomputation included
    std::optional<double> mfu;           // model FLOPs over what the GPUs could do at peak
    std::optional<double> hfu;
  };
  // Means over GPUs; the parts add up to the step's time.
  struct Breakdown {
    double compute_s = 0;
    std::map<std::string, double> exposed_communication_s;  // by kind
    double bubble_s = 0;   // waiting for other ranks that are not there yet, or having nothing left to do
    double waiting_s = 0;  // of bubble_s: for ranks of the same stage (imbalance, stragglers), not a pipeline's bubble
    double data_stall_s = 0;
    double other_s = 0;

    [[nodiscard]] double exposed_total_s() const;
  };
  struct Communication {
    std::int64_t messages = 0;
    std::int64_t bytes = 0;
    std::map<std::string, TrafficCount> by_kind;
    std::map<std::string, std::int64_t> by_link_kind;
    std::map<std::string, double> utilization_by_link_kind;
    std::vector<LinkUse> busiest_links;
  };
  // Of the rank that has the least room left (with unknown limits: the one that needs most).
  struct Memory {
    std::int64_t peak_bytes = 0;
    std::optional<std::int64_t> limit_bytes;
    std::optional<bool> fits;
    std::vector<std::pair<std::string, std::int64_t>> by_tag;  // largest first, zeros left out
    std::int64_t rank = 0;
    double when_s = 0;
    std::string task;         // that reached the peak; empty: resident before the step
    std::string runs_out_at;  // what is first beyond the limit; empty: it fits, or not even what is resident does
  };
  // The whole training run at this pace, without failures.
  struct Training {
    std::int64_t steps = 0;
    double tokens = 0;
    double images = 0;  // of an image model, in place of tokens
    double time_s = 0;
    std::optional<double> ideal_time_s;
    int ideal_operations = 0;  // per parameter and token, in ideal_time_s: 8, or 6 without recomputation
    double gpu_hours = 0;
  };
  // What the parts that `variation.slow` names cost.
  struct SlowParts {
    double step_without_s = 0;  // the step's time without them
    double lost_s = 0;
  };
  // What steps that were published and simulated say about this one (sim/study/validation/expectation.hpp).
  struct Expectation {
    double low_s = 0;      // one in twenty such steps was shorter
    double typical_s = 0;  // half of them
    double high_s = 0;     // one in twenty was longer
    bool covered = false;  // steps like this one were published; otherwise the band is a guess
    std::string basis;     // which steps, or why none
  };
  struct Simulation {
    std::int64_t events = 0;
    std::int64_t flows = 0;
    std::int64_t ranks = 0;
    std::int64_t rank_classes = 0;  // that were played, each for all ranks that behave alike
    std::string unfolded_because;   // why hardly any do; empty: they do
    std::string fidelity;
    std::map<std::string, std::string> algorithms;  // of collectives: {"data all_reduce": "ring"}
    std::optional<double> wall_s;
  };

  std::string scenario;
  std::string fingerprint;
  Cluster cluster;
  Model model;
  PlanFacts plan;
  Step step;
  Breakdown breakdown;
  Communication communication;
  Memory memory;
  std::optional<OffDeviceUse> off_device;  // absent: nothing is offloaded
  std::optional<Training> training;
  std::optional<SlowParts> slow_parts;
  std::optional<Expectation> expectation;  // absent: nobody asked, or nothing can be said
  Simulation simulation;
  std::vector<std::string> remarks;   // what was assumed or ignored in the scenario
  std::vector<std::string> warnings;  // what the run cannot vouch for

  // Whether it fits into the memory of the GPUs, the nodes and the drives, as far as they are known.
  [[nodiscard]] bool fits() const { return memory.fits.value_or(true) && (!off_device || off_device->fits()); }
};

// What a step's work is counted in: tokens, or images of a model that has no tokens.
struct Throughput {
  std::string_view unit;
  std::int64_t per_step = 0;
  double per_s = 0;
  double per_s_per_gpu = 0;
};
[[nodiscard]] Throughput throughput_of(const Summary::Step& step);

// `run` has at least one rank and a step longer than zero.
[[nodiscard]] Summary summarize(const RunResult& run, const Workload& workload, const RunFacts& facts);

// The least time in which the whole training could be done if every GPU worked at its peak without a pause:
// k P T / (n X), with P parameters that a token passes through, T tokens, and n X the peak of all GPUs together. A
// token costs 2 operations per parameter forward and 4 backward, so k = 6; recomputing the forward pass makes it 8
// (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU Clusters Using Megatron-LM", 2021, eq. 4).
// Selective recomputation repeats no product with a parameter, so it keeps 6. For a dashed line on a plot; no simulated
// figure is derived from it.
[[nodiscard]] int ideal_operations(bool full_recompute);
[[nodiscard]] double ideal_training_time_s(double parameters, double tokens, FlopsPerSecond peak_total,
                                           bool full_recompute);

}  // namespace orrery
