// `orrery import`, in-process, from another framework's plan to a simulated step.
#include <doctest/doctest.h>

#include "sim/results/files.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/unit/app/outcome.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

constexpr const char* kPlan = R"({
  "train_batch_size": 32,
  "train_micro_batch_size_per_gpu": 2,
  "bf16": {"enabled": true},
  "zero_optimization": {"stage": 0},
  "wall_clock_breakdown": false
})";

std::vector<std::string> import_words(const std::string& file, std::vector<std::string> more = {}) {
  std::vector<std::string> words{"import",        file, "--model", "gpt3-125m", "--cluster",
                                 "dgx-a100-80gb", "x",  "1",       "--set",     "training.sequence_length=512"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

}  // namespace

TEST_CASE("an imported plan runs") {
  const TemporaryFolder folder;
  const std::string plan = folder.write("ds.json", kPlan);
  const std::string scenario = folder.path + "/made/here.yaml";
  const Outcome imported = command(import_words(plan, {"--out", scenario}));
  REQUIRE_MESSAGE(imported.status == kOk, imported.err);
  CHECK(imported.err.empty());
  CHECK(contains(imported.out, "training.global_batch: 32"));
  CHECK(contains(imported.out, "wrote " + scenario));
  const Outcome run = command({"run", scenario, "--json"});
  REQUIRE_MESSAGE(run.status == kOk, run.err);
  CHECK(contains(run.out, "\"tokens\": 16384"));  // 32 x 512
}

TEST_CASE("without a file to write, an import's scenario is all of the output and the report goes beside it") {
  const TemporaryFolder folder;
  const std::string plan = folder.write("ds.json", kPlan);
  const Outcome imported = command(import_words(plan));
  REQUIRE_MESSAGE(imported.status == kOk, imported.err);
  CHECK(contains(imported.err, "understood"));
  const std::string scenario = folder.write("s.yaml", imported.out);
  CHECK(command({"run", scenario, "--json", "-q"}).status == kOk);
  CHECK(command(import_words(plan, {"-q"})).err.empty());
}

TEST_CASE("an import that lacks something asks for it, and writes nothing") {
  const TemporaryFolder folder;
  const std::string plan = folder.write("ds.json", kPlan);
  const std::string scenario = folder.path + "/s.yaml";
  const Outcome imported = command({"import", plan, "--out", scenario});
  CHECK(imported.status == kBadInput);
  CHECK(contains(imported.err, plan + ":1:1: error: "));
  for (const char* asked :
       {"--cluster 'dgx-a100-80gb x 4'", "--model llama2-7b", "--set training.sequence_length=4096"}) {
    CHECK_MESSAGE(contains(imported.err, asked), imported.err);
  }
  CHECK_FALSE(read_file(scenario).ok());
  CHECK(command({"import", folder.path + "/none.json"}).status == kBadInput);
  CHECK(command({"import", plan, "--format", "nemo"}).status == kBadInput);
}
