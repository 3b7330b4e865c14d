// Published steps as scenarios, and errors summed up.
#include "sim/study/validation/validation.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "scenarios/csv_table.hpp"
#include "scenarios/load.hpp"
#include "sim/study/validation/validation_text.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace orrery;

namespace {

const std::string kFolder = std::string(ORRERY_SOURCE_DIR) + "/tests/validation/steps";

constexpr std::string_view kHead =
    "id,source,model,architecture,layers,hidden,heads,kv_heads,head_dim,ffn_hidden,gated_mlp,vocab,seq_len,experts,"
    "experts_per_token,moe_ffn_hidden,shared_experts,dense_layers,trainable,gpu,gpus,gpus_per_node,network,"
    "nic_gbps_per_node,precision,framework,release,moe_dispatch,tp,sequence_parallel,pp,vpp,cp,ep,dp,sharding,"
    "shard_group,micro_batch,global_batch,recompute,attention,flags,step_time_s,step_time_from,peak_memory_gib,"
    "suspect,notes\n";
constexpr std::string_view kRow =
    "X-0001,somewhere,small,gpt,4,256,4,4,,1024,n,1024,128,,,,,,all,a100-80gb-sxm,8,8,,,fp16,megatron-lm,,,2,n,2,1,1,1,"
    "2,none,,1,8,,plain,,0.5,measured,10,,\n";

std::vector<MeasuredRun> runs_of(const std::string& text) {
  const Result<CsvTable> table = parse_csv_table(text, "t.csv");
  REQUIRE_MESSAGE(table.ok(), to_string(table.problems()));
  const Result<std::vector<MeasuredRun>> runs = measured_runs(*table);
  REQUIRE_MESSAGE(runs.ok(), to_string(runs.problems()));
  return *runs;
}

std::string with(std::string text, std::string_view from, std::string_view to) {
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

// A run with this error.
ValidatedRun run_with(const std::string& id, const std::string& group, double error, std::string suspect = "") {
  ValidatedRun run;
  run.measured.id = id;
  run.measured.group = group;
  run.measured.step_time_s = 2;
  run.measured.suspect = std::move(suspect);
  run.step_time_s = 2 * (1 + error);
  return run;
}

}  // namespace

TEST_CASE("every row of every shipped table is a scenario that loads, or has a reason") {
  int rows = 0;
  int scenarios = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const Result<CsvTable> table = read_csv_table(entry.path().string());
    REQUIRE_MESSAGE(table.ok(), to_string(table.problems()));
    const Result<std::vector<MeasuredRun>> runs = measured_runs(*table);
    REQUIRE_MESSAGE(runs.ok(), to_string(runs.problems()));
    for (const MeasuredRun& run : *runs) {
      CAPTURE(run.id);
      CHECK(run.scenario.empty() != run.cannot.empty());
      CHECK(run.step_time_s > 0);
      CHECK_FALSE(run.source.empty());
      ++rows;
      if (run.scenario.empty() || rows % 8 != 0) continue;  // an eighth of them, since loading reads the catalogue
      const Result<Scenario> scenario = load_scenario_text(run.scenario, run.id);
      CHECK_MESSAGE(scenario.ok(), run.scenario, to_string(scenario.problems()));
      ++scenarios;
    }
  }
  CHECK(rows > 1000);
  CHECK(scenarios > 80);
}

TEST_CASE("a row becomes the plan that it says, and what it does not say is assumed and told") {
  const MeasuredRun run = runs_of(std::string(kHead) + std::string(kRow)).front();
  CHECK(run.group == "X");
  CHECK(run.assumptions ==
        std::vector<std::string>{"recompute: none", "dropout: 0.1", "gradients: reduced after the backward pass"});
  REQUIRE(run.others.size() == 1);  // a release of Megatron-LM that could not overlap leaves recomputation open alone
  CHECK(run.others.front().what == "recompute: full");
  CHECK(run.peak_memory_gib == std::optional<double>(10));
  const Result<Scenario> scenario = load_scenario_text(run.scenario, "x");
  REQUIRE_MESSAGE(scenario.ok(), to_string(scenario.problems()));
  CHECK(scenario->gpus == 8);
  CHECK(scenario->parallelism.tensor == 2);
  CHECK(scenario->parallelism.pipeline == 2);
  CHECK(scenario->model.layers == 4);
  CHECK(scenario->training.attention == AttentionKind::plain);
  CHECK(scenario->training.dropout == 0.1);
}

TEST_CASE("what is not simulated is a reason, not a scenario") {
  const std::string row(kRow);
  const auto reason = [&](std::string_view from, std::string_view to) {
    return runs_of(std::string(kHead) + with(row, from, to)).front().cannot;
  };
  CHECK(reason(",fp16,", ",nvfp4,") == "precision nvfp4");
  CHECK(reason("a100-80gb-sxm", "abacus").find("no node of the catalogue") == 0);
  CHECK(reason("megatron-lm", "mystery") == "framework mystery");
  CHECK(reason(",none,,1,8", ",magic,,1,8") == "sharding magic");
  CHECK(reason(",all,", ",half,").find("half") != std::string::npos);
}

TEST_CASE("layers that do not divide evenly are dealt out as the frameworks do") {
  const std::string text(kRow);
  // 6 layers and both ends on 2 x 2 virtual stages: 8 / 4. And 7 on 2 stages: 4 and 3.
  const MeasuredRun ends =
      runs_of(std::string(kHead) + with(with(text, "gpt,4,", "gpt,6,"), ",n,2,1,", ",n,4,1,")).front();
  CHECK(ends.scenario.find("account_for_loss_in_pipeline_split: true") != std::string::npos);
  const MeasuredRun uneven = runs_of(std::string(kHead) + with(text, "gpt,4,", "gpt,7,")).front();
  CHECK(uneven.scenario.find("stage_layers: [4, 3]") != std::string::npos);
  CHECK(std::count(uneven.assumptions.begin(), uneven.assumptions.end(), "layers as even as they go") == 1);
}

TEST_CASE("a table with wrong values or without columns is refused with the place") {
  const auto problems = [](const std::string& text) {
    const Result<CsvTable> table = parse_csv_table(text, "t.csv");
    REQUIRE(table.ok());
    const Result<std::vector<MeasuredRun>> runs = measured_runs(*table);
    return runs.ok() ? "" : to_string(runs.problems());
  };
  CHECK(problems("id,source\n1,2\n").find("no column \"step_time_s\"") != std::string::npos);
  const std::string text = std::string(kHead) + with(std::string(kRow), ",0.5,", ",soon,");
  CHECK(problems(text).find("t.csv:2:") == 0);
  CHECK(problems(text).find("step_time_s") != std::string::npos);
  CHECK(problems(std::string(kHead) + with(std::string(kRow), "gpt,4,", "gpt,4.5,")).find("layers") !=
        std::string::npos);
}

TEST_CASE("errors are summed up by source, suspects apart, and the overall mean is that over sources") {
  Validation validation;
  validation.runs = {run_with("A-1", "A", 0.1), run_with("A-2", "A", -0.3), run_with("A-3", "A", 0.2),
                     run_with("A-4", "A", 1.0, "a wrong unit"), run_with("B-1", "B", -0.1)};
  ValidatedRun failed;
  failed.measured = run_with("B-2", "B", 0).measured;
  failed.error = "precision fp3";
  validation.runs.push_back(failed);
  const std::vector<ErrorSummary> groups = by_group(validation, ErrorOf::step_time, false);
  REQUIRE(groups.size() == 2);
  CHECK(groups[0].rows == 3);
  CHECK(groups[0].mean == doctest::Approx(0.2));
  CHECK(groups[0].median == doctest::Approx(0.2));
  CHECK(groups[0].bias == doctest::Approx(0));
  CHECK(groups[0].worst == doctest::Approx(-0.3));
  CHECK(groups[0].worst_id == "A-2");
  CHECK(groups[1].failed == 1);
  CHECK(mean_over(groups, &ErrorSummary::mean) == doctest::Approx(0.15));
  CHECK(by_group(validation, ErrorOf::step_time, true)[0].mean == doctest::Approx(0.4));
  const std::string text = validation_text(validation, true);
  CHECK(text.find("precision fp3 (B-2)") != std::string::npos);
  CHECK(text.find("-30.0 %") != std::string::npos);
  CHECK(validation_csv(validation).find("A-4,A,,,a wrong unit,2,4,1,") != std::string::npos);
}

TEST_CASE("tables are simulated row by row, the same on any number of threads") {
  const test::TemporaryFolder folder;
  const std::string second = with(with(std::string(kRow), "X-0001", "X-0002"), ",fp16,", ",bf16,");
  const std::vector<std::string> files{
      folder.write("a.csv", std::string(kHead) + std::string(kRow) + second),
      folder.write("b.csv", std::string(kHead) + with(std::string(kRow), ",fp16,", ",fp3,"))};
  const Result<Validation> one = validate(files, {.threads = 1});
  REQUIRE_MESSAGE(one.ok(), to_string(one.problems()));
  REQUIRE(one->runs.size() == 3);
  CHECK(one->runs[0].step_time_s.has_value());
  CHECK(one->runs[0].peak_memory_gib.has_value());
  CHECK(one->runs[2].error == "precision fp3");
  CHECK(validation_csv(*one) == validation_csv(*validate(files, {.threads = 3})));
  CHECK_FALSE(validate(std::vector<std::string>{folder.path + "/none.csv"}, {}).ok());
}

TEST_CASE("other readings of a row give a band around what was assumed, and settings that a source states give none") {
  const test::TemporaryFolder folder;
  const std::string file =
      folder.write("a.csv", std::string(kHead) + std::string(kRow) +
                                with(with(std::string(kRow), "X-0001", "X-0002"), ",1,8,,", ",1,8,none,"));
  const Result<Validation> validation = validate(std::vector<std::string>{file}, {.threads = 1, .bands = true});
  REQUIRE_MESSAGE(validation.ok(), to_string(validation.problems()));
  const ValidatedRun& open = validation->runs[0];
  REQUIRE(open.band.has_value());
  CHECK(open.band->low_s == open.step_time_s.value());  // recomputing takes longer
  CHECK(open.band->low.empty());
  CHECK(open.band->high_s > open.band->low_s);
  CHECK(open.band->high == "recompute: full");
  CHECK_FALSE(validation->runs[1].band.has_value());
  CHECK(validation_text(*validation, true).find("other readings of 1 rows") != std::string::npos);
}
