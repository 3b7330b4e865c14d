// What published steps say about a simulated time: how far reality was from simulations of runs like this one.
//
// The runs of tests/validation fall into classes: what the framework is (as the catalogue calls it), whether products
// are computed in 8, 16 or 32 bits, and whether one node does it all. Of each class a table (scenarios/measured/
// accuracy.csv) holds quantiles of measured / simulated time over its rows without the doubtful ones, no source
// counting for more than kFullSource rows; `orrery validate --out` writes it. A run is covered when its class has
// enough rows and its GPU is among those on which they were measured. For another run nobody has such figures. It gets
// the widest band of all classes, and where its GPU's kernel constants are carried over from a related GPU, a wider one
// still (kCarriedOver): that is a guess with a reason, and the text says so.
//
// Left out: the constants were set while looking at some of these rows (the catalogue names which), and rows of one
// source resemble one another. A band is what was seen, not a guarantee.
#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "scenarios/scenario.hpp"
#include "sim/base/problem.hpp"
#include "sim/results/summary.hpp"

namespace orrery {

struct RunClass {
  std::string framework;
  std::string width;  // "8 bits", "16 bits", "32 bits"
  std::string span;   // "one node", "several nodes"

  friend bool operator==(const RunClass&, const RunClass&) = default;
  friend auto operator<=>(const RunClass&, const RunClass&) = default;
};

[[nodiscard]] RunClass run_class(const Scenario& scenario);

// The names of the GPUs that the scenario runs on, each once.
[[nodiscard]] std::vector<std::string> gpus_of(const Scenario& scenario);

inline constexpr std::array<double, 5> kExpectationShares{0.05, 0.25, 0.5, 0.75, 0.95};

struct ClassAccuracy {
  RunClass of;
  int rows = 0;
  std::vector<std::string> sources;
  std::vector<std::string> gpus;
  std::array<double, kExpectationShares.size()> ratio{};  // measured / simulated, at these shares of the rows
};

// A class of fewer rows covers nothing.
inline constexpr int kLeastRows = 10;

// More rows of one source are no more evidence: they share its cluster, software and mistakes.
inline constexpr double kFullSource = 20;

// How much further either way for constants that are carried over: rates fitted per GPU differ by so much (of peak,
// bf16 or fp16 products: 0.69 on B200, 0.84 on H100, 0.89 on V100, 13 % about their middle).
inline constexpr double kCarriedOver = 1.15;

[[nodiscard]] Result<std::vector<ClassAccuracy>> read_accuracy(const std::string& path);
// Where the table of the repository is.
[[nodiscard]] std::string accuracy_path();

// One run that was simulated and measured.
struct ComparedRun {
  RunClass of;
  std::string source;
  std::vector<std::string> gpus;
  double ratio = 1;  // measured / simulated
};
// By class, in their order. O(runs log runs).
[[nodiscard]] std::vector<ClassAccuracy> accuracy_of(std::span<const ComparedRun> runs);
[[nodiscard]] std::string accuracy_csv(std::span<const ClassAccuracy> classes);

// What the table says about a simulated step. Absent where the table is empty, for image models, of which none is
// published here, and for GPUs that reach their peak and so are no products.
[[nodiscard]] std::optional<Summary::Expectation> expectation_of(const Scenario& scenario, double step_time_s,
                                                                 std::span<const ClassAccuracy> classes);

}  // namespace orrery
