// Many simulations of one scenario over a grid of settings, on all cores, and what grows how with the number of GPUs.
//
// Points are independent: a pool of threads takes them in grid order, and results stand in grid order whatever finished
// first. With an output folder, results.json and results.csv are rewritten as points finish, and a sweep that is
// started again takes over every finished point whose settings and inputs are the same.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scenarios/load.hpp"
#include "scenarios/scenario.hpp"
#include "sim/base/problem.hpp"
#include "sim/results/summary.hpp"
#include "sim/study/growth.hpp"

namespace orrery {

struct SweepPoint {
  std::string name;                     // "gpus=16, tensor=4": the keys' last words
  std::vector<Override> set;            // one per axis, in the order of the grid's dimensions
  std::vector<std::size_t> dimensions;  // [set]: which dimension of the grid each belongs to
};

// Every combination of the axes' values; the first axis varies slowest. Axes that advance together (zip_group) are one
// dimension, in the place of the first of them, as long as the shortest. One nameless point when there are no axes.
[[nodiscard]] std::vector<SweepPoint> grid(std::span<const SweepAxis> axes);

struct SweepRun {
  SweepPoint point;
  std::string key;                 // of settings and inputs; equal keys, equal results
  std::optional<Summary> summary;  // absent when the point failed, or has not been run
  std::string error;               // why it failed
  bool reused = false;             // taken over from an earlier sweep
};

// How a quantity grows with the number of GPUs while all other settings stay as `others` says.
struct Growth {
  std::string quantity;           // "messages", "bytes", "exposed_communication_s"
  std::vector<std::string> axes;  // the keys that change with the number of GPUs
  std::vector<Override> others;
  std::optional<PowerLaw> law;     // absent where fewer than three sizes are played out alike
  std::vector<std::int64_t> gpus;  // of the points that the law rests on
  std::string played;              // how those are played out: "ring, message"; empty where all points are alike
  int unlike = 0;                  // points that are played out in other ways, and so are no part of the law
};

// One law per quantity, per dimension of the grid along which the number of GPUs changes, per combination of the other
// settings. A law needs points that are played out alike: where `auto` takes another collective algorithm or fidelity
// along the way, it rests on the way that most points take (of equally many, the one that larger clusters take).
[[nodiscard]] std::vector<Growth> growth_of(std::span<const SweepRun> runs);

struct SweepResult {
  std::vector<SweepRun> runs;  // in grid order
  std::vector<Growth> growth;
  Problems file_problems;  // result files that could not be written or read back

  [[nodiscard]] std::size_t failures() const;
};

struct SweepProgress {
  std::size_t finished = 0;
  std::size_t total = 0;
  std::size_t failed = 0;
  std::optional<double> remaining_s;  // estimate from the points simulated so far
};

struct SweepOptions {
  int threads = 0;     // 0: as many as the machine has cores
  bool fold = true;    // see SimulationOptions
  std::string out;     // folder for results.json and results.csv; empty: none
  std::string inputs;  // a digest of everything beside the settings that a point's result depends on
  std::function<void(const SweepProgress&)> progress;  // called from one thread at a time; may be empty
};

// Simulates one point. Called from several threads at once.
using PointSimulator = std::function<Result<Summary>(const SweepPoint&)>;

[[nodiscard]] SweepResult run_sweep(std::span<const SweepPoint> points, const PointSimulator& simulate_point,
                                    const SweepOptions& options);

// The sweep that a scenario file asks for in its `sweep:` block. Problems: those of the file, or that it has no axes.
// `options.inputs` is filled in here.
[[nodiscard]] Result<SweepResult> sweep_file(const std::string& path, const LoadOptions& load, SweepOptions options);

// What a finished sweep's growth laws say, a line each, and once per line of points how many are left out; empty
// without laws.
[[nodiscard]] std::string explain(std::span<const Growth> growth);

}  // namespace orrery
