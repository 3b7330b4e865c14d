// The tables of the import formats: what every row must hold to, and what the shared ways to map do.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "import_support.hpp"
#include "scenarios/import/formats.hpp"
#include "tests/support/temporary_folder.hpp"

namespace orrery {

namespace {

using namespace scenario_tests;

// Keys that rows lead to and that this version's loader does not have yet: such rows say "not simulated" by themselves,
// and work once the loader has the key. A name here that the loader knows is to be struck off.
const std::set<std::string, std::less<>> kAwaited{
    "parallelism.sharding.mics_hierarchical_params_gather",
};

}  // namespace

TEST_CASE("every row of every import format leads to a key that the loader knows, or says why it leads nowhere") {
  std::set<std::string> awaited;
  for (const ImportFormat* format : import_formats()) {
    CHECK(format->rows.size() > 50);
    for (const ImportRow& row : format->rows) {
      const std::string place = std::string(format->name) + " " + std::string(row.key);
      const bool applies = row.apply != nullptr;
      CHECK_MESSAGE(applies, place);
      const std::string target(row.target);
      if (target.empty()) continue;
      const bool waits = kAwaited.count(target) > 0;
      CHECK_MESSAGE(loader_knows(target) != waits, place << ": " << target);
      if (waits) awaited.insert(target);
    }
  }
  CHECK(awaited.size() == kAwaited.size());
}

TEST_CASE("rows that ignore a key say why") {
  for (const ImportFormat* format : import_formats()) {
    for (const ImportRow& row : format->rows) {
      const std::string place = std::string(format->name) + " " + std::string(row.key);
      if (row.apply == no_influence || row.apply == not_simulated) {
        CHECK_MESSAGE(!row.doc.empty(), place);
        CHECK_MESSAGE(row.target.empty(), place);
      }
    }
  }
}

TEST_CASE("no key of an import format stands twice, and a star stands at the end") {
  for (const ImportFormat* format : import_formats()) {
    std::set<std::string_view> keys;
    for (const ImportRow& row : format->rows) {
      CHECK_MESSAGE(keys.insert(row.key).second, row.key);
      CHECK_MESSAGE(row.key.substr(0, row.key.size() - 1).find('*') == std::string_view::npos, row.key);
      const ImportRow* found = find_import_row(format->rows, row.key);
      REQUIRE(found != nullptr);
      CHECK_MESSAGE(found->key == row.key, row.key);
    }
  }
}

TEST_CASE("the longest row that fits a key counts, and an exact one before all") {
  const auto apply = no_influence;
  const ImportRow rows[] = {{"a*", "", apply, "x"}, {"a.b*", "", apply, "x"}, {"a.bc", "", apply, "x"}};
  CHECK(find_import_row(rows, "a.bc")->key == "a.bc");
  CHECK(find_import_row(rows, "a.bcd")->key == "a.b*");
  CHECK(find_import_row(rows, "a.c")->key == "a*");
  CHECK(find_import_row(rows, "b") == nullptr);
}

TEST_CASE("the format of a plan is told by its name, and else by what it looks like") {
  const auto format_of = [](std::string_view text, const std::string& name) {
    const auto format = find_format("", text, name);
    return format ? std::string((*format)->name) : std::string();
  };
  CHECK(format_of("", "a.json") == "deepspeed");
  CHECK(format_of("", "a.toml") == "torchtitan");
  CHECK(format_of("", "a.sh") == "megatron");
  CHECK(format_of("\n # x\n {\"a\": 1}", "config") == "deepspeed");
  CHECK(format_of("# x\n--num-layers 2", "arguments") == "megatron");
  CHECK(format_of("# x\n[training]\nseq_len = 2", "plan") == "torchtitan");
  CHECK(format_of("tensor: 8", "plan.yaml") == "");
  CHECK(to_string(find_format("deepsped", "", "a").problems()) ==
        "error: --format: no format deepsped\n  note: did you mean deepspeed?");
}

TEST_CASE("options of the command line win over the plan, and the report says so") {
  ImportOptions options;
  options.model = "gpt3-125m";
  options.clusters = {"dgx-a100-80gb x 1"};
  options.load.overrides = {{"training.micro_batch", "2"}, {"parallelism.tensor", "1"}};
  const auto plan = import_text(
      "--num-layers 24 --hidden-size 2048 --num-attention-heads 16 --seq-length 512 --micro-batch-size 4 "
      "--global-batch-size 64 --bf16 --tensor-model-parallel-size 8",
      "plan.txt", options);
  REQUIRE_MESSAGE(plan.ok(), to_string(plan.problems()));
  CHECK(plan->scenario.model.layers == 12);
  CHECK(plan->scenario.training.micro_batch == 2);
  CHECK(plan->scenario.parallelism.tensor == 1);
  for (const char* key : {"--num-layers", "--micro-batch-size", "--tensor-model-parallel-size"}) {
    CHECK_MESSAGE(line_of(*plan, key).fate == Fate::given, key);
  }
  CHECK(line_of(*plan, "--seq-length").fate == Fate::understood);
}

TEST_CASE("several kinds of nodes become groups, and a name of the catalogue is never taken apart") {
  ImportOptions options;
  options.clusters = {"dgx-a100-80gb x 1", "dgx-h100x1"};
  const std::string plan_text =
      "--num-layers 4 --hidden-size 512 --num-attention-heads 8 --seq-length 512 --global-batch-size 64 --bf16";
  const auto plan = import_text(plan_text, "plan.txt", options);
  REQUIRE_MESSAGE(plan.ok(), to_string(plan.problems()));
  REQUIRE(plan->scenario.cluster.groups.size() == 2);
  CHECK(plan->scenario.cluster.groups[1].node.name == "dgx-h100");
  CHECK(plan->scenario.gpus == 16);

  options.clusters = {"hgx-a100-4x-80gb"};  // ends like a count, is none
  const auto uncounted = import_text(plan_text, "plan.txt", options);
  CHECK(to_string(uncounted.problems()).find("how many of these nodes?") != std::string::npos);
}

TEST_CASE("a model's path is written relative to where the scenario will lie") {
  ImportOptions options;
  options.model = kSource + "/scenarios/models/llama-2-7b/config.json";
  options.clusters = {"dgx-a100-80gb x 1"};
  options.load.overrides = {{"training.sequence_length", "4096"}};
  const std::string text =
      R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 1, "bf16": {"enabled": true}})";
  const auto absolute = import_text(text, "ds.json", options);
  REQUIRE_MESSAGE(absolute.ok(), to_string(absolute.problems()));
  CHECK(absolute->text.find("model: " + options.model) != std::string::npos);

  options.model = std::filesystem::proximate(options.model).string();
  options.scenario_folder = kSource + "/scenarios";
  const auto relative = import_text(text, "ds.json", options);
  REQUIRE_MESSAGE(relative.ok(), to_string(relative.problems()));
  CHECK(relative->text.find("model: models/llama-2-7b/config.json") != std::string::npos);
}

TEST_CASE("TorchTitan's schedules are imported by their names, and a table by its path") {
  const auto plan_with = [](const std::string& schedule) {
    return "[training]\nlocal_batch_size = 8\nseq_len = 512\n[parallelism]\npipeline_parallel_degree = 2\n"
           "data_parallel_replicate_degree = 4\ndata_parallel_shard_degree = 1\n" +
           schedule + "\n";
  };
  ImportOptions options;
  options.model = "gpt3-125m";
  options.clusters = {"dgx-a100-80gb x 1"};
  const std::pair<const char*, const char*> kinds[] = {{"1F1B", "1f1b"},
                                                       {"GPipe", "gpipe"},
                                                       {"Interleaved1F1B", "interleaved-1f1b"},
                                                       {"LoopedBFS", "looped-bfs"},
                                                       {"ZBVZeroBubble", "zb-v"},
                                                       {"DualPipeV", "dualpipe-v"}};
  for (const auto& pair : kinds) {
    const char* const name = pair.first;
    const char* const kind = pair.second;
    CAPTURE(name);
    const std::string key = "pipeline_parallel_schedule";
    const auto plan = import_text(plan_with(key + " = \"" + name + "\""), "plan.toml", options);
    REQUIRE_MESSAGE(plan.ok(), to_string(plan.problems()));
    CHECK(plan->scenario.parallelism.schedule.kind == kind);
    CHECK(plan->scenario.training.micro_batch == 1);
  }

  // Two stages of two micro-batches, one forward and one backward at a time.
  const test::TemporaryFolder folder;
  folder.write("plans/table.csv", "0F0,0F1,,0B0,,0B1\n,1F0,1B0,1F1,1B1,\n");
  options.scenario_folder = folder.path + "/scenarios";
  const std::string table = "pipeline_parallel_schedule_csv = \"table.csv\"\npipeline_parallel_microbatch_size = 4";
  const auto plan = import_text(plan_with(table), folder.path + "/plans/plan.toml", options);
  REQUIRE_MESSAGE(plan.ok(), to_string(plan.problems()));
  CHECK(plan->scenario.parallelism.schedule.kind == "table");
  CHECK(plan->text.find("file: ../plans/table.csv") != std::string::npos);
}

}  // namespace orrery
