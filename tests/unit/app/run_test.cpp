// Commands on a small scenario, in-process, from file to files.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "sim/results/files.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/unit/app/outcome.hpp"

using namespace orrery;
using namespace orrery::test;
using nlohmann::json;

namespace {

// A small model on one node: tensor 2, data 4.
constexpr const char* kSmall = R"(name: small
cluster: {node: dgx-a100-80gb, gpus: 8}
model: gpt3-125m
training: {sequence_length: 1024, global_batch: 16, micro_batch: 2, tokens: 1e9 tokens, precision: bf16}
parallelism: {tensor: 2}
sweep:
  cluster.gpus: [2, 4, 8]
)";

// The parts of a summary that depend on the scenario alone.
json reproducible(const std::string& text) {
  json j = json::parse(text);
  j["simulation"].erase("wall_s");
  return j;
}

}  // namespace

TEST_CASE("a scenario runs from file to figures that agree with one another") {
  const TemporaryFolder folder;
  const std::string file = folder.write("small.yaml", kSmall);
  const Outcome outcome = command({"run", file, "--json", "--out", folder.path + "/out"});
  REQUIRE_MESSAGE(outcome.status == kOk, outcome.err);
  const json j = json::parse(outcome.out);
  CHECK(j["scenario"] == "small");
  CHECK(j["cluster"]["gpus"] == 8);
  CHECK(j["step"]["tokens"] == 16 * 1024);
  CHECK(j["step"]["mfu"].get<double>() > 0);
  CHECK(j["step"]["mfu"].get<double>() < 1);
  double parts = j["breakdown"]["compute_s"].get<double>() + j["breakdown"]["bubble_s"].get<double>() +
                 j["breakdown"]["data_stall_s"].get<double>() + j["breakdown"]["other_s"].get<double>();
  for (const json& exposed : j["breakdown"]["exposed_communication_s"]) parts += exposed.get<double>();
  CHECK(parts == doctest::Approx(j["step"]["time_s"].get<double>()).epsilon(1e-9));
  CHECK(j["communication"]["messages"].get<std::int64_t>() > 0);
  CHECK(j["memory"]["fits"] == true);
  CHECK(j["training"]["steps"] == 61036);  // 1e9 / 16384 = 61035.2
  CHECK(j["remarks"].back() == "the sweep block is played by  orrery sweep");

  CHECK(reproducible(*read_file(folder.path + "/out/summary.json")) == reproducible(outcome.out));
  CHECK(json::parse(*read_file(folder.path + "/out/trace.json"))["traceEvents"].size() > 100);
  CHECK(read_file(folder.path + "/out/metrics.prom")->find("gpu_utilization{rank=\"0\"}") != std::string::npos);
  CHECK(read_file(folder.path + "/out/metrics.csv")->find("nccl_allreduce_time_ms") != std::string::npos);
  CHECK(read_file(folder.path + "/out/summary.txt")->find("step time") != std::string::npos);
}

TEST_CASE("recording changes nothing but the files") {
  const TemporaryFolder folder;
  const std::string file = folder.write("small.yaml", kSmall);
  const Outcome plain = command({"run", file, "--json"});
  const Outcome recorded = command({"run", file, "--json", "-q", "--out", folder.path + "/out"});
  CHECK(recorded.err.empty());
  CHECK(reproducible(plain.out) == reproducible(recorded.out));
}

TEST_CASE("two scenarios in one process at the same time do not disturb one another") {
  const TemporaryFolder folder;
  const std::string file = folder.write("small.yaml", kSmall);
  const std::vector<std::vector<std::string>> commands{
      {"run", file, "--json"}, {"run", file, "--json", "--set", "cluster.gpus=4", "--set", "parallelism.tensor=4"}};
  std::vector<std::string> alone;
  for (const auto& words : commands) alone.push_back(command(words).out);
  std::vector<std::string> together(commands.size());
  {
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < commands.size(); ++i) {
      threads.emplace_back([&, i] { together[i] = command(commands[i]).out; });
    }
  }
  for (std::size_t i = 0; i < commands.size(); ++i) CHECK(reproducible(together[i]) == reproducible(alone[i]));
  CHECK(reproducible(alone[0])["fingerprint"] != reproducible(alone[1])["fingerprint"]);
}

TEST_CASE("a sweep runs its grid, and again simulates nothing") {
  const TemporaryFolder folder;
  const std::string file = folder.write("small.yaml", kSmall);
  const std::string out = folder.path + "/sweep";
  const Outcome first = command({"sweep", file, "--out", out, "--threads", "2"});
  REQUIRE_MESSAGE(first.status == kOk, first.err);
  CHECK(first.out.find("gpus=2") < first.out.find("gpus=4"));
  // Two GPUs, one tensor group, have no gradients to reduce: two points are left, and those are no fit.
  CHECK(first.out.find("messages grow with the number of GPUs: not fitted") != std::string::npos);
  CHECK(first.err.find("0 of 3 runs taken over") != std::string::npos);
  const std::string results = *read_file(out + "/results.json");
  const Outcome second = command({"sweep", file, "--out", out, "--json"});
  CHECK(second.err.find("3 of 3 runs taken over") != std::string::npos);
  CHECK(*read_file(out + "/results.json") == results);
  CHECK(json::parse(second.out)["runs"].size() == 3);

  // What sweep says of a point is what run says of it, but for run's remark on the sweep.
  const Outcome run = command({"run", file, "--json", "--set", "cluster.gpus=4"});
  json alone = reproducible(run.out);
  alone.erase("remarks");
  CHECK(reproducible(json::parse(results)["runs"][1]["summary"].dump()) == alone);
}

TEST_CASE("points that cannot be are recorded with their error, and the sweep fails") {
  const TemporaryFolder folder;
  std::string text = kSmall;
  const std::string file = folder.write("small.yaml", text.replace(text.find("[2, 4, 8]"), 9, "[2, 3, 8]"));
  const Outcome outcome = command({"sweep", file, "--json"});
  CHECK(outcome.status == kFailedRun);
  const json j = json::parse(outcome.out);
  REQUIRE(j["runs"].size() == 3);
  CHECK(j["runs"][0].contains("summary"));
  CHECK(j["runs"][1].contains("error"));
  CHECK(outcome.err.find("gpus=3") != std::string::npos);
}

TEST_CASE("a step that does not fit fails, with the report of what is largest") {
  const TemporaryFolder folder;
  const std::string file = folder.write("small.yaml", kSmall);
  const Outcome outcome = command({"run", file, "--set", "model=llama2-70b", "--set", "training.global_batch=8"});
  CHECK(outcome.status == kFailedRun);
  CHECK(outcome.out.find("OUT OF MEMORY: rank") != std::string::npos);
}

TEST_CASE("bad scenarios are bad input, with every mistake at its place") {
  const TemporaryFolder folder;
  const std::string file = folder.write("bad.yaml",
                                        "name: bad\ncluster: {node: dgx-a100-80gb, nodes: 1}\nmodel: gpt3-125m\n"
                                        "training: {sequence_length: 1024, global_batch: 16}\n"
                                        "parallelism: {tensr: 2}\n");
  const Outcome outcome = command({"run", file});
  CHECK(outcome.status == kBadInput);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.find("bad.yaml:5:") != std::string::npos);
  CHECK(outcome.err.find("tensor") != std::string::npos);
  CHECK(command({"sweep", folder.write("flat.yaml", "name: x\n")}).status == kBadInput);
}

TEST_CASE("a collective algorithm must exist, and the run says where it cannot be used") {
  const TemporaryFolder folder;
  const std::string file = folder.write("small.yaml", kSmall);
  for (const char* name : {"run", "sweep"}) {
    const Outcome unknown = command({name, file, "--set", "collectives.algorithm=rin"});
    CHECK(unknown.status == kBadInput);
    CHECK(unknown.err.find("unknown collectives.algorithm \"rin\"") != std::string::npos);
    CHECK(unknown.err.find("did you mean ring?") != std::string::npos);
  }
  const auto warnings = [&](const std::vector<std::string>& settings) {
    std::vector<std::string> arguments{"run", file, "--json"};
    for (const std::string& setting : settings) arguments.insert(arguments.end(), {"--set", setting});
    const Outcome outcome = command(arguments);
    CHECK(outcome.status == kOk);
    return json::parse(outcome.out).value("warnings", json::array()).dump();
  };
  const std::string none = warnings({"collectives.algorithm=auto"});
  CHECK(none.find("collectives.algorithm") == std::string::npos);
  CHECK(warnings({"collectives.algorithm=pairwise"})
            .find("collectives.algorithm pairwise cannot do all_reduce at all: it runs as ") != std::string::npos);
  CHECK(warnings({"collectives.algorithm=nvls"})
            .find("nvls cannot do all_reduce without all members on one NVSwitch with NVLink SHARP: it runs as ") !=
        std::string::npos);
  CHECK(warnings({"collectives.algorithm=nvls", "cluster.node=dgx-h100"}).find("nvls") == std::string::npos);
}

TEST_CASE("a folder that cannot be written is said before anything is simulated") {
  const TemporaryFolder folder;
  const std::string file = folder.write("small.yaml", kSmall);
  for (const char* name : {"run", "sweep"}) {
    CAPTURE(name);
    const Outcome outcome = command({name, file, "--out", file});  // below a file there is no room for a folder
    CHECK(outcome.status == kFailedRun);
    CHECK(outcome.out.empty());
    CHECK(contains(outcome.err, "cannot"));
    CHECK(contains(outcome.err, file));
  }
}

TEST_CASE("a step that no machine could simulate is refused at its place, at once") {
  const TemporaryFolder folder;
  std::string text = kSmall;
  text.replace(text.find("global_batch: 16"), 16, "global_batch: 1e8");
  const std::string file = folder.write("long.yaml", text);
  const Outcome outcome = command({"run", file});
  CHECK(outcome.status == kBadInput);
  CHECK(contains(outcome.err, file + ":4:"));
  CHECK(contains(outcome.err, "too long to simulate"));
}
