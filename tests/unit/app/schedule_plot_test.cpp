// `orrery plot --schedule`: the schedule of a scenario as a file and a drawing.
#include <doctest/doctest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/app/command.hpp"
#include "sim/results/files.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/unit/app/outcome.hpp"

using namespace orrery;

namespace {

constexpr const char* kScenario = R"(
cluster: {node: dgx-a100-80gb, gpus: 4}
model: {layers: 8, hidden: 1024, heads: 8}
training: {sequence_length: 512, global_batch: 8}
parallelism: {pipeline: 4, schedule: 1f1b}
)";

bool have_matplotlib() { return std::filesystem::exists("/usr/lib/python3/dist-packages/matplotlib"); }

}  // namespace

TEST_CASE("a schedule is drawn on paper and as simulated, with every slot of every stage in order") {
  const test::TemporaryFolder folder;
  const std::string file = folder.write("pipeline.yaml", kScenario);
  for (const char* kind : {"1f1b", "dualpipe"}) {
    CAPTURE(kind);
    const std::string out = folder.path + "/" + kind;
    const auto done = test::command(
        {"plot", "--schedule", file, "--set", std::string("parallelism.schedule=") + kind, "--out", out, "--quiet"});
    CHECK(done.status == (have_matplotlib() ? kOk : kFailedRun));
    const auto json = nlohmann::json::parse(*read_file(out + "/schedule.json"));
    CHECK(json["schedule"] == kind);
    for (const char* drawing : {"ideal", "run"}) {
      CAPTURE(drawing);
      REQUIRE(json[drawing]["slots"].size() == 4);
      for (const auto& stage : json[drawing]["slots"]) {
        double before = 0;
        for (const auto& slot : stage) {
          CHECK(slot["begin"].get<double>() >= before);
          CHECK(slot["end"].get<double>() > slot["begin"].get<double>());
          before = slot["end"].get<double>();
        }
        CHECK(before <= json[drawing]["step"].get<double>());
      }
    }
    // Eight forward passes and as many backward ones on the four stages of 1F1B.
    if (std::string(kind) == "1f1b") CHECK(json["ideal"]["slots"][0].size() == 16);
    if (have_matplotlib()) CHECK(std::filesystem::exists(out + "/schedule.png"));
  }
}

TEST_CASE("plot says what it needs: a folder or a schedule, and a pipeline for one") {
  const test::TemporaryFolder folder;
  const std::string file = folder.write("alone.yaml", kScenario);
  CHECK(test::command({"plot"}).status == kBadInput);
  CHECK(test::command({"plot", folder.path, "--schedule", file}).status == kBadInput);
  CHECK(test::command({"plot", "--schedule", folder.path + "/none.yaml"}).status == kBadInput);
  CHECK(test::command({"plot", "--schedule", file, "--set", "parallelism.pipeline=1"}).status == kBadInput);
}
