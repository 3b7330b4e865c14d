// What errors of published steps are held to, and what is made of them: samples, bounds, rankings, bands.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "scenarios/csv_table.hpp"
#include "scenarios/load.hpp"
#include "sim/results/files.hpp"
#include "sim/study/validation/bounds.hpp"
#include "sim/study/validation/errors.hpp"
#include "sim/study/validation/expectation.hpp"
#include "sim/study/validation/ranking.hpp"
#include "sim/study/validation/validation.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace orrery;

namespace {

const std::string kRoot = ORRERY_SOURCE_DIR;

ValidatedRun run_of(const std::string& group, const std::string& id, double measured_s, double simulated_s) {
  ValidatedRun run;
  run.measured.id = id;
  run.measured.group = group;
  run.measured.step_time_s = measured_s;
  run.step_time_s = simulated_s;
  return run;
}

Validation two_sources() {
  Validation validation;
  validation.runs = {run_of("A", "A-1", 1, 1.1), run_of("A", "A-2", 1, 1.2), run_of("B", "B-1", 1, 0.8)};
  return validation;
}

Result<Scenario> scenario_of(const std::string& cluster, const std::string& framework) {
  return load_scenario_text(
      "name: x\ncluster: {" + cluster +
          "}\nmodel: gpt3-125m\ntraining: {sequence_length: 1024, global_batch: 64, framework: " + framework + "}\n",
      "x");
}

}  // namespace

TEST_CASE("an error of twice and of half weighs the same in the geometric mean, not in the arithmetic one") {
  const std::vector<NamedError> errors{{"A", "1", 1.0}, {"A", "2", -0.5}, {"A", "3", std::nullopt, true}};
  const ErrorSummary sum = summed_up(errors).front();
  CHECK(sum.rows == 2);
  CHECK(sum.failed == 1);
  CHECK(sum.mean == doctest::Approx(0.75));
  CHECK(sum.geometric == doctest::Approx(1.0));  // both are a factor of two
  CHECK(sum.worst_id == "1");
}

TEST_CASE("what is recorded as bounds is kept by the errors that it was recorded of, and told when they grow") {
  const test::TemporaryFolder folder;
  const Validation now = two_sources();
  const auto bounds = read_bounds(folder.write("bounds.csv", bounds_csv(now, "all", true)));
  REQUIRE_MESSAGE(bounds.ok(), to_string(bounds.problems()));
  CHECK(bounds->size() == 3);  // both sources and their mean
  CHECK(exceeded(now, *bounds, "all").empty());

  // A: 15 % becomes 25 %, and with it the mean over sources, 17.5 %; B stays.
  Validation worse = now;
  worse.runs[0].step_time_s = 1.3;
  const std::vector<std::string> told = exceeded(worse, *bounds, "all");
  REQUIRE(told.size() == 3);  // mean and bias of A, mean overall (its bias turns from -2.5 % into 2.5 %)
  CHECK(told[0].find("A, step time: mean error 25.0 %") == 0);

  // A row that can no longer be simulated does not make a source better.
  Validation fewer = now;
  fewer.runs[1].step_time_s.reset();
  bool rows_told = false;
  for (const std::string& sentence : exceeded(fewer, *bounds, "all")) {
    rows_told = rows_told || sentence.find("A, step time: 1 rows, at least 2") == 0;
  }
  CHECK(rows_told);

  // One source alone is held to its own bounds; one that nobody recorded is told.
  Validation alone;
  alone.runs = {now.runs[2]};
  CHECK(exceeded(alone, *bounds, "all").empty());
  alone.runs[0].measured.group = "C";
  CHECK(exceeded(alone, *bounds, "all").front() == "C, step time: no bound is recorded");
}

TEST_CASE("a sample has so many rows of each source, the same ones in any order of the tables") {
  std::vector<MeasuredRun> runs;
  for (int i = 0; i < 40; ++i) {
    MeasuredRun run;
    run.id = "R-" + std::to_string(i);
    run.group = i < 30 ? "A" : "B";
    if (i % 7 == 0) run.cannot = "no";
    if (i % 5 == 0) run.suspect = "odd";
    runs.push_back(run);
  }
  const std::vector<MeasuredRun> sample = sample_of(runs, 6);
  CHECK(sample.size() == 12);
  std::set<std::string> ids;
  for (const MeasuredRun& run : sample) {
    ids.insert(run.id);
    CHECK(run.cannot.empty());
    CHECK(run.suspect.empty());
  }
  const std::vector<MeasuredRun> reversed(runs.rbegin(), runs.rend());
  std::set<std::string> again;
  for (const MeasuredRun& run : sample_of(reversed, 6)) again.insert(run.id);
  CHECK(ids == again);
}

TEST_CASE("Spearman's correlation is that of ranks, equal values sharing theirs") {
  // Ranks of b: 0, 2, 1, 3 against 0, 1, 2, 3: 1 - 6 x (1 + 1) / (4 x 15) = 0.8.
  CHECK(*spearman(std::vector<double>{1, 2, 3, 4}, std::vector<double>{10, 30, 20, 1000}) == doctest::Approx(0.8));
  CHECK(*spearman(std::vector<double>{1, 2, 3}, std::vector<double>{3, 2, 1}) == doctest::Approx(-1));
  // Ranks 0.5, 0.5, 2 and 0, 1, 2: about their means (-.5, -.5, 1) and (-1, 0, 1): 1.5 / sqrt(1.5 x 2).
  CHECK(*spearman(std::vector<double>{5, 5, 7}, std::vector<double>{1, 2, 3}) == doctest::Approx(1.5 / std::sqrt(3.0)));
  CHECK_FALSE(spearman(std::vector<double>{1, 1}, std::vector<double>{1, 2}).has_value());
}

TEST_CASE("plans of one setting are a sweep, rows of one plan count once, and a wrong choice costs what was measured") {
  Validation validation;
  const auto add = [&](const std::string& plan, double measured_s, double simulated_s) {
    ValidatedRun run = run_of("A", "A-" + std::to_string(validation.runs.size()), measured_s, simulated_s);
    run.measured.plan = plan;
    run.measured.setting = "one";
    validation.runs.push_back(run);
  };
  add("tp1", 10, 12);
  add("tp2", 8, 9);
  add("tp2", 10, 9);  // tp2: 9 in the mean
  add("tp4", 12, 8);  // predicted best, a third longer than the best
  add("tp8", 20, 30);
  const std::vector<PlanSweep> sweeps = plan_sweeps(validation);
  REQUIRE(sweeps.size() == 1);
  CHECK(sweeps[0].plans == 4);
  CHECK(sweeps[0].loss == doctest::Approx(12.0 / 9 - 1));
  CHECK(sweeps[0].chosen_id == "A-3");
  // Measured 10, 9, 12, 20 and simulated 12, 9, 8, 30: ranks 1 0 2 3 and 2 1 0 3, 1 - 6 x (1 + 1 + 4) / 60 = 0.4.
  CHECK(*sweeps[0].spearman == doctest::Approx(0.4));
  const RankingSummary sum = ranking_by_group(sweeps).front();
  CHECK(sum.sweeps == 1);
  CHECK(sum.ranked == 0);
  CHECK(sum.found == 0);
  CHECK(plan_sweeps(validation, 5).empty());
}

TEST_CASE("a run is given the band of its class, or the widest one where nobody has measured such runs") {
  // Twenty runs that took 1.00 to 1.19 times what was simulated.
  std::vector<ComparedRun> runs;
  const RunClass of{"megatron-lm", "16 bits", "several nodes"};
  for (int i = 0; i < 20; ++i) runs.push_back({of, "A", {"a100-80gb-sxm"}, 1 + 0.01 * i});
  for (int i = 0; i < 3; ++i) runs.push_back({{"torchtitan", "16 bits", "one node"}, "B", {"h100-80gb-sxm"}, 0.5});
  const std::vector<ClassAccuracy> classes = accuracy_of(runs);
  REQUIRE(classes.size() == 2);
  // Of twenty equal weights, 5 % lies between the first two: their middles are at 2.5 and 7.5 %.
  CHECK(classes[0].ratio.front() == doctest::Approx(1.005));
  CHECK(classes[0].ratio[2] == doctest::Approx(1.095));
  CHECK(classes[0].ratio.back() == doctest::Approx(1.185));

  const Result<Scenario> known = scenario_of("node: dgx-a100-80gb, nodes: 2", "megatron-lm");
  REQUIRE_MESSAGE(known.ok(), to_string(known.problems()));
  const auto band = expectation_of(*known, 10, classes);
  REQUIRE(band.has_value());
  CHECK(band->covered);
  CHECK(band->low_s == doctest::Approx(10.05));
  CHECK(band->high_s == doctest::Approx(11.85));

  // One node: no class. Three rows of torchtitan: too few for one. Both: the widest, and no claim.
  for (const auto& [cluster, framework] :
       {std::pair{"node: dgx-a100-80gb, nodes: 1", "megatron-lm"}, std::pair{"node: dgx-h100, nodes: 1", "torchtitan"},
        std::pair{"node: dgx-h100, nodes: 2", "megatron-lm"}}) {
    const Result<Scenario> strange = scenario_of(cluster, framework);
    REQUIRE_MESSAGE(strange.ok(), to_string(strange.problems()));
    const auto wide = expectation_of(*strange, 10, classes);
    REQUIRE(wide.has_value());
    CHECK_FALSE(wide->covered);
    CHECK(wide->low_s == doctest::Approx(5));
    CHECK(wide->high_s == doctest::Approx(11.85));
  }
  // Constants carried over from another GPU: wider still.
  const Result<Scenario> carried = scenario_of("node: dgx-b300, nodes: 2", "megatron-lm");
  REQUIRE_MESSAGE(carried.ok(), to_string(carried.problems()));
  CHECK(expectation_of(*carried, 10, classes)->high_s == doctest::Approx(11.85 * kCarriedOver));
  // What reaches its peak is no product.
  const Result<Scenario> ideal = scenario_of("node: ideal-8x, nodes: 1", "megatron-lm");
  REQUIRE_MESSAGE(ideal.ok(), to_string(ideal.problems()));
  CHECK_FALSE(expectation_of(*ideal, 10, classes).has_value());
}

TEST_CASE("the shipped table of accuracies is read as it was written") {
  const Result<std::vector<ClassAccuracy>> classes = read_accuracy(accuracy_path());
  REQUIRE_MESSAGE(classes.ok(), to_string(classes.problems()));
  CHECK(classes->size() >= 8);
  CHECK(accuracy_csv(*classes) == *read_file(accuracy_path()));
  for (const ClassAccuracy& row : *classes) {
    CAPTURE(row.of.framework);
    CHECK(std::is_sorted(row.ratio.begin(), row.ratio.end()));
    CHECK_FALSE(row.sources.empty());
    CHECK_FALSE(row.gpus.empty());
  }
}

TEST_CASE("the table in the README is the one that was recorded") {
  const std::string table = *read_file(kRoot + "/tests/validation/accuracy.md");
  const std::string readme = *read_file(kRoot + "/README.md");
  CHECK(table.find("| mean over sources |") != std::string::npos);
  CHECK(readme.find("<!-- accuracy: begin -->\n" + table + "<!-- accuracy: end -->\n") != std::string::npos);
}
