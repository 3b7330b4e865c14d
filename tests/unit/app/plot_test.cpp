// The plots draw what the writers write. Without matplotlib on the machine, that they say so.
#include <doctest/doctest.h>

#include <filesystem>

#include "sim/results/files.hpp"
#include "sim/results/metrics.hpp"
#include "sim/results/trace.hpp"
#include "sim/study/sweep.hpp"
#include "sim/study/sweep_files.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/unit/app/outcome.hpp"
#include "tests/unit/results/made_run.hpp"

using namespace orrery;

namespace {

int plot(const std::string& folder) { return test::command({"plot", folder, "--quiet"}).status; }

bool have_matplotlib() { return std::filesystem::exists("/usr/lib/python3/dist-packages/matplotlib"); }

// What a sweep over GPUs leaves behind.
void write_sweep(const std::string& folder) {
  const std::vector<SweepAxis> axes{{"cluster.gpus", {"4", "8", "16"}, -1}};
  const auto simulate = [](const SweepPoint& point) -> Result<Summary> {
    RunFacts facts = made::facts();
    facts.gpus = std::stoll(point.set[0].value);
    return summarize(made::run(), made::workload(), facts);
  };
  SweepOptions options;
  options.threads = 1;
  options.out = folder;
  REQUIRE(run_sweep(grid(axes), simulate, options).file_problems.empty());
}

}  // namespace

TEST_CASE("plots are drawn from the files that a run and a sweep write, the same each time") {
  const test::TemporaryFolder folder;
  REQUIRE(write_file(folder.path + "/trace.json", trace_json(made::run(), made::workload())).empty());
  REQUIRE(
      write_file(folder.path + "/metrics.csv", metrics_csv(metrics_over_time(made::run(), made::workload()))).empty());
  write_sweep(folder.path);
  if (!have_matplotlib()) {
    CHECK(plot(folder.path) == kFailedRun);
    return;
  }
  REQUIRE(plot(folder.path) == kOk);
  for (const char* name : {"speedup", "breakdown", "utilization", "timeline"}) {
    for (const char* ending : {".svg", ".png"}) {
      CHECK_MESSAGE(std::filesystem::exists(folder.path + "/" + name + ending), name << ending);
    }
  }
  const std::string svg = *read_file(folder.path + "/speedup.svg");
  const std::string png = *read_file(folder.path + "/timeline.png");
  REQUIRE(plot(folder.path) == kOk);
  CHECK(*read_file(folder.path + "/speedup.svg") == svg);
  CHECK(*read_file(folder.path + "/timeline.png") == png);
}

TEST_CASE("a folder without results has nothing to draw") {
  const test::TemporaryFolder folder;
  CHECK(plot(folder.path) != kOk);
}
