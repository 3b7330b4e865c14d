// A comparison as a whole, on a small scenario: what is run, what is told, and that it is the same with any number of
// threads.
#include "sim/study/compare.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sim/results/critical_path.hpp"
#include "sim/results/files.hpp"
#include "sim/study/compare_files.hpp"
#include "sim/study/compare_text.hpp"
#include "sim/study/simulate.hpp"
#include "tests/fuzz/path_laws.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace orrery;
using nlohmann::json;

namespace {

constexpr const char* kSmall = R"(name: small
cluster: {node: dgx-a100-80gb, gpus: 8}
model: gpt3-125m
training: {sequence_length: 1024, global_batch: 32, micro_batch: 2, precision: bf16}
parallelism: {data: 2, pipeline: 4, schedule: 1f1b}
compare:
  base: 1f1b
  gpipe: {parallelism.schedule: gpipe}
  no pipeline: {parallelism.pipeline: 1, parallelism.data: 8}
  recomputed: {training.recompute: full}
  impossible: {parallelism.pipeline: 5}
  nothing else: {}
)";

// Without what a run's own clock says.
std::string without_wall(const std::string& text) {
  json j = json::parse(text);
  for (json& run : j["runs"]) {
    if (run.contains("summary")) run["summary"]["simulation"].erase("wall_s");
  }
  return j.dump();
}

const Explanation& of(const Comparison& comparison, const std::string& name) {
  for (const Explanation& explanation : comparison.explanations) {
    if (explanation.variant == name) return explanation;
  }
  FAIL("no explanation of " << name);
  return comparison.explanations.front();
}

}  // namespace

TEST_CASE("a comparison runs the base and every variant, and explains what differs") {
  const test::TemporaryFolder folder;
  const std::string file = folder.write("small.yaml", kSmall);
  const Result<Comparison> comparison = compare_file(file, {}, {.threads = 2, .out = folder.path + "/out"});
  REQUIRE_MESSAGE(comparison.ok(), to_string(comparison.problems()));
  REQUIRE(comparison->runs.size() == 6);
  CHECK(comparison->runs[0].name == "1f1b");
  CHECK(comparison->runs[4].name == "impossible");
  // Listed with its problem, and explained by nobody.
  CHECK_FALSE(comparison->runs[4].summary.has_value());
  CHECK(comparison->runs[4].error.find("pipeline") != std::string::npos);
  CHECK(comparison->failures() == 1);
  CHECK(comparison->explanations.size() == 4);

  for (const Explanation& explanation : comparison->explanations) {
    CAPTURE(explanation.text);
    double sum = 0;
    for (const Difference& difference : explanation.differences) sum += difference.seconds();
    CHECK(sum == doctest::Approx(explanation.variant_s - explanation.base_s).epsilon(1e-4));
  }
  CHECK(of(*comparison, "nothing else").differences.empty());
  CHECK(of(*comparison, "nothing else").text.find("to the picosecond") != std::string::npos);
  // Every forward pass before the first backward pass: the activations of all micro-batches are held.
  bool more_activations = false;
  for (const MemoryDifference& d : of(*comparison, "gpipe").memory) {
    more_activations = more_activations || (d.tag == "activations" && d.variant_bytes > d.base_bytes);
  }
  CHECK(more_activations);
  const Difference& recomputed = of(*comparison, "recomputed").differences.at(0);
  CHECK(recomputed.work == Work::compute);
  CHECK(recomputed.cause == Cause::variant_only);
  CHECK(recomputed.phase == "recompute");

  // The files say what the result does.
  const std::string text = *read_file(folder.path + "/out/comparison.json");
  CHECK(text == comparison_json(*comparison));
  CHECK(*read_file(folder.path + "/out/comparison.txt") == comparison_text(*comparison));
  CHECK(read_file(folder.path + "/out/runs/no-pipeline.json").ok());
  CHECK(read_file(folder.path + "/out/comparison.csv")->find("step.time_s") != std::string::npos);
}

TEST_CASE("the JSON of a comparison holds runs and an explanation whose differences add up") {
  const test::TemporaryFolder folder;
  const Result<Comparison> comparison = compare_file(folder.write("small.yaml", kSmall), {}, {});
  REQUIRE(comparison.ok());
  const json j = json::parse(comparison_json(*comparison));
  CHECK(j["runs"].size() == 6);
  CHECK(j["runs"][1]["name"] == "gpipe");
  CHECK(j["runs"][1]["set"] == json{{"parallelism.schedule", "gpipe"}});
  CHECK(j["runs"][4].contains("error"));
  CHECK_FALSE(j["runs"][4].contains("summary"));
  CHECK(j["explanation"]["base"] == "1f1b");
  CHECK(j["explanation"]["text"].get<std::string>().find("no pipeline takes") != std::string::npos);
  for (const json& pair : j["explanation"]["pairs"]) {
    double sum = 0;
    for (const json& difference : pair["differences"]) sum += difference["seconds"].get<double>();
    CHECK(sum == doctest::Approx(pair["variant_s"].get<double>() - pair["base_s"].get<double>()).epsilon(1e-4));
  }
  // Each run's shares of the critical path are its step.
  for (const json& run : j["runs"]) {
    if (!run.contains("work")) continue;
    double path = 0;
    for (const json& work : run["work"]) path += work["critical_path_s"].get<double>();
    CHECK(path == doctest::Approx(run["summary"]["step"]["time_s"].get<double>()).epsilon(1e-12));
  }
}

TEST_CASE("a comparison is the same with any number of threads, and folded or not") {
  const test::TemporaryFolder folder;
  const std::string file = folder.write("small.yaml", kSmall);
  const std::string one = comparison_json(*compare_file(file, {}, {.threads = 1}));
  CHECK(without_wall(one) == without_wall(comparison_json(*compare_file(file, {}, {.threads = 4}))));
  const Result<Comparison> folded = compare_file(file, {}, {});
  const Result<Comparison> unfolded = compare_file(file, {}, {.fold = false});
  REQUIRE(folded->explanations.size() == unfolded->explanations.size());
  for (std::size_t i = 0; i < folded->explanations.size(); ++i) {
    CHECK(folded->explanations[i].variant_s == unfolded->explanations[i].variant_s);
  }
}

TEST_CASE("--set changes the base and so all variants, and a variant goes over it") {
  const test::TemporaryFolder folder;
  const std::string file = folder.write("small.yaml", kSmall);
  const Result<Comparison> comparison =
      compare_file(file, {{{"parallelism.schedule", "gpipe"}, {"training.precision", "fp32"}}}, {});
  REQUIRE(comparison.ok());
  CHECK(comparison->runs[0].summary->plan.schedule == "gpipe");
  CHECK(comparison->runs[3].summary->plan.schedule == "gpipe");
  CHECK(comparison->runs[3].summary->plan.precision == "fp32");
  CHECK(comparison->runs[3].summary->plan.recompute == "full");
}

TEST_CASE("a scenario without variants is told what to add") {
  const test::TemporaryFolder folder;
  std::string text = kSmall;
  text.resize(text.find("compare:"));
  const Result<Comparison> comparison = compare_file(folder.write("plain.yaml", text), {}, {});
  REQUIRE_FALSE(comparison.ok());
  CHECK(comparison.problems()[0].key == "compare");
}

TEST_CASE("tables and paragraphs keep to a hundred columns, whatever the number of variants") {
  const test::TemporaryFolder folder;
  std::string text = kSmall;
  for (int i = 0; i < 12; ++i) {
    text += "  a variant with a long name " + std::to_string(i) + ": {training.seed_of_nothing: 1}\n";
  }
  const std::size_t wrong = text.find("training.seed_of_nothing");
  REQUIRE(wrong != std::string::npos);
  while (text.find("training.seed_of_nothing") != std::string::npos) {
    text.replace(text.find("training.seed_of_nothing"), std::string("training.seed_of_nothing").size(),
                 "simulation.seed");
  }
  const Result<Comparison> comparison = compare_file(folder.write("many.yaml", text), {}, {});
  REQUIRE(comparison.ok());
  std::string told = comparison_text(*comparison);
  // What a reader of scenarios says stands as it says it, with the file's path.
  const std::size_t said = told.find("impossible cannot be run");
  REQUIRE(said != std::string::npos);
  told.erase(said, told.find("\n\n", said) + 2 - said);
  std::size_t longest = 0;
  for (std::size_t at = 0; at < told.size();) {
    const std::size_t end = std::min(told.find('\n', at), told.size());
    longest = std::max(longest, end - at);
    at = end + 1;
  }
  CHECK(longest <= 100);
  CHECK(told.find("\n\n\n") == std::string::npos);
}

TEST_CASE("files are named after runs, without what file names cannot have") {
  CHECK(file_name_of("bf16, recomputed") == "bf16-recomputed");
  CHECK(file_name_of("../../etc") == "-..-etc");
  CHECK(file_name_of("///") == "run");
}

TEST_CASE("the critical path of every small scenario that ships has no gap") {
  int walked = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(ORRERY_SOURCE_DIR) + "/scenarios")) {
    if (entry.path().extension() != ".yaml") continue;
    const Result<Scenario> scenario = load_scenario(entry.path().string(), for_running({}));
    REQUIRE(scenario.ok());
    if (scenario->gpus > 64) continue;
    CAPTURE(entry.path().string());
    const Result<Simulation> simulation = simulate(*scenario, {.record_all = true});
    REQUIRE(simulation.ok());
    for (const std::string& law : fuzz::broken_path_laws(simulation->run, simulation->workload)) FAIL_CHECK(law);
    ++walked;
  }
  CHECK(walked >= 5);
}
