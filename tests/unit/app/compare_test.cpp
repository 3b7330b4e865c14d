// `orrery compare` from file to table, JSON and files.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "sim/results/files.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/unit/app/outcome.hpp"

using namespace orrery;
using namespace orrery::test;
using nlohmann::json;

namespace {

constexpr const char* kSmall = R"(name: small
cluster: {node: dgx-a100-80gb, gpus: 4}
model: gpt3-125m
training: {sequence_length: 512, global_batch: 8, micro_batch: 2, precision: bf16}
compare:
  base: bf16
  fp32: {training.precision: fp32}
)";

}  // namespace

TEST_CASE("compare prints a table and says why, or the same as JSON") {
  const TemporaryFolder folder;
  const std::string file = folder.write("small.yaml", kSmall);
  const Outcome text = command({"compare", file, "--out", folder.path + "/out"});
  REQUIRE_MESSAGE(text.status == kOk, text.err);
  for (const char* part : {"step time", "against the first", "peak memory", "bf16 takes", "fp32 takes",
                           "longer than bf16", "fp32 instead of bf16", "Its peak memory is"}) {
    CHECK_MESSAGE(contains(text.out, part), part);
  }
  CHECK(contains(text.err, "wrote comparison.json"));
  CHECK(*read_file(folder.path + "/out/comparison.txt") == text.out);

  const Outcome outcome = command({"compare", file, "--json", "--threads", "1"});
  REQUIRE(outcome.status == kOk);
  const json j = json::parse(outcome.out);
  REQUIRE(j["runs"].size() == 2);
  CHECK(j["runs"][0]["name"] == "bf16");
  CHECK(j["runs"][0]["set"] == json::object());
  CHECK(j["runs"][1]["set"]["training.precision"] == "fp32");
  CHECK(j["runs"][1]["summary"]["plan"]["precision"] == "fp32");
  CHECK(j["explanation"]["pairs"][0]["variant"] == "fp32");
  CHECK(j["explanation"]["pairs"][0]["differences"][0]["cause"] == "machine");

  // What compare says of a run is what run says of it, but for the remark on the block.
  const Outcome run = command({"run", file, "--json", "--set", "training.precision=fp32"});
  json alone = json::parse(run.out);
  CHECK(alone["remarks"].back() == "the variants of the compare block are played by  orrery compare");
  json compared = j["runs"][1]["summary"];
  for (json* summary : {&alone, &compared}) {
    summary->erase("remarks");
    (*summary)["simulation"].erase("wall_s");
  }
  CHECK(alone == compared);
}

TEST_CASE("a variant that cannot be run is listed with its problem, and the status says so") {
  const TemporaryFolder folder;
  const std::string file = folder.write("small.yaml", std::string(kSmall) + "  odd: {parallelism.tensor: 3}\n");
  const Outcome text = command({"compare", file});
  CHECK(text.status == kFailedRun);
  CHECK(contains(text.out, "odd cannot be run: "));
  CHECK(contains(text.out, "small.yaml:"));
  CHECK(contains(text.out, "replicas of 3"));
  CHECK(contains(text.out, "fp32 takes"));
  const Outcome as_json = command({"compare", file, "--json"});
  CHECK(as_json.status == kFailedRun);
  CHECK(contains(as_json.err, "odd: "));
  CHECK(json::parse(as_json.out)["runs"][2].contains("error"));
}

TEST_CASE("compare refuses a scenario without variants, and a folder that cannot be written") {
  const TemporaryFolder folder;
  std::string plain = kSmall;
  plain.resize(plain.find("compare:"));
  const Outcome without = command({"compare", folder.write("plain.yaml", plain)});
  CHECK(without.status == kBadInput);
  CHECK(contains(without.err, "has no variants to compare"));
  const std::string file = folder.write("small.yaml", kSmall);
  const Outcome nowhere = command({"compare", file, "--out", file + "/out"});
  CHECK(nowhere.status == kFailedRun);
  CHECK(nowhere.out.empty());
}
