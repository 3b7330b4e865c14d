#include "sim/study/sweep.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <new>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "sim/results/files.hpp"
#include "sim/study/sweep_files.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace orrery;

namespace {

const std::vector<SweepAxis> kAxes{{"cluster.gpus", {"10", "20", "40"}, -1}, {"parallelism.tensor", {"1", "2"}, -1}};

// n (n - 1) messages, n bytes, no exposed communication: a made-up simulator with known laws.
Summary made_up(const SweepPoint& point) {
  Summary summary;
  const std::int64_t n = std::stoll(point.set.at(0).value);
  summary.scenario = point.name;
  summary.cluster.gpus = n;
  summary.cluster.nodes = 1;
  summary.cluster.gpu = "x100";
  summary.step.time_s = 1.0 / static_cast<double>(n);
  summary.communication.messages = n * n * (point.set.at(1).value == "2" ? 3 : 1);
  summary.communication.bytes = 5 * n;
  return summary;
}

}  // namespace

TEST_CASE("a grid is every combination, the first axis slowest") {
  std::vector<std::string> names;
  for (const SweepPoint& point : grid(kAxes)) names.push_back(point.name);
  CHECK(names == std::vector<std::string>{"gpus=10, tensor=1", "gpus=10, tensor=2", "gpus=20, tensor=1",
                                          "gpus=20, tensor=2", "gpus=40, tensor=1", "gpus=40, tensor=2"});
  CHECK(grid({}).size() == 1);
  // Keys that end alike keep their full names.
  const std::vector<SweepAxis> alike{{"a.link", {"x"}, -1}, {"b.link", {"y"}, -1}};
  CHECK(grid(alike).front().name == "a.link=x, b.link=y");
  // A kind is named after what it is a kind of.
  const std::vector<SweepAxis> kind{{"parallelism.sharding.kind", {"fsdp"}, -1}};
  CHECK(grid(kind).front().name == "sharding=fsdp");
}

TEST_CASE("results stand in grid order whatever finishes first, with any number of threads") {
  const std::vector<SweepPoint> points = grid(kAxes);
  // The first points wait until a later one has finished, where there is a second thread to finish it.
  for (const int threads : {1, 2, 5}) {
    std::atomic<int> finished = 0;
    const auto simulate = [&](const SweepPoint& point) -> Result<Summary> {
      while (threads > 1 && point.name == points.front().name && finished == 0) std::this_thread::yield();
      ++finished;
      return made_up(point);
    };
    std::vector<std::size_t> progress;
    SweepOptions options{.threads = threads, .out = "", .inputs = "", .progress = [&](const SweepProgress& p) {
                           progress.push_back(p.finished);
                         }};
    const SweepResult result = run_sweep(points, simulate, options);
    REQUIRE(result.runs.size() == points.size());
    for (std::size_t i = 0; i < points.size(); ++i) {
      CHECK(result.runs[i].point.name == points[i].name);
      CHECK(result.runs[i].summary.value().scenario == points[i].name);
    }
    CHECK(progress == std::vector<std::size_t>{0, 1, 2, 3, 4, 5, 6});
    CHECK(result.failures() == 0);
  }
}

TEST_CASE("growth laws are found per combination of the other settings") {
  const SweepResult result =
      run_sweep(grid(kAxes), [](const SweepPoint& p) -> Result<Summary> { return made_up(p); }, {});
  // Two quantities that are not zero, at tensor 1 and 2. Along the tensor axis the number of GPUs stays.
  REQUIRE(result.growth.size() == 4);
  CHECK(result.growth[0].quantity == "messages");
  CHECK(result.growth[0].axes == std::vector<std::string>{"cluster.gpus"});
  CHECK(result.growth[0].law.value().exponent == doctest::Approx(2));
  CHECK(result.growth[1].quantity == "bytes");
  CHECK(result.growth[1].law.value().exponent == doctest::Approx(1));
  CHECK(result.growth[2].others.at(0).value == "2");
  CHECK(result.growth[2].law.value().coefficient == doctest::Approx(3));
  CHECK(explain(result.growth).find("messages grow as n^2.00 with the number of GPUs at parallelism.tensor = 1") == 0);
}

TEST_CASE("a law rests on points that are played out alike") {
  // n messages each, but three times as many from 20 GPUs up, where another algorithm is chosen.
  const std::vector<SweepAxis> axes{{"cluster.gpus", {"5", "10", "20", "40", "80"}, -1}};
  const auto simulate = [](const SweepPoint& point) -> Result<Summary> {
    Summary summary;
    summary.cluster.gpus = std::stoll(point.set.at(0).value);
    const bool many = summary.cluster.gpus >= 20;
    summary.communication.messages = summary.cluster.gpus * (many ? 3 : 1);
    summary.simulation.fidelity = "message";
    summary.simulation.algorithms["data all_reduce"] = many ? "ring" : "tree";
    return summary;
  };
  const SweepResult result = run_sweep(grid(axes), simulate, {});
  REQUIRE(result.growth.size() == 1);
  const Growth& growth = result.growth[0];
  CHECK(growth.law.value().exponent == doctest::Approx(1));
  CHECK(growth.law.value().coefficient == doctest::Approx(3));
  CHECK(growth.gpus == std::vector<std::int64_t>{20, 40, 80});
  CHECK(growth.unlike == 2);
  CHECK(explain(result.growth) ==
        "messages grow as n^1.00 with the number of GPUs (3 points, R2 1.0000)\n"
        "  fitted over 3 of 5 points; 2 ran with another fidelity or algorithm and are left out\n");
  const nlohmann::json json = nlohmann::json::parse(results_json(result.runs, result.growth));
  CHECK(json["growth"][0]["gpus"] == nlohmann::json({20, 40, 80}));
  CHECK(json["growth"][0]["unlike_points"] == 2);
}

TEST_CASE("laws of the same points say once what they leave out") {
  const std::vector<SweepAxis> axes{{"cluster.gpus", {"5", "10", "20", "40"}, -1}, {"parallelism.tensor", {"1"}, -1}};
  const auto simulate = [](const SweepPoint& point) -> Result<Summary> {
    Summary summary = made_up(point);
    summary.simulation.fidelity = summary.cluster.gpus == 5 ? "message" : "coupled";
    return summary;
  };
  const std::string text = explain(run_sweep(grid(axes), simulate, {}).growth);
  const std::string said = "  fitted over 3 of 4 points; 1 ran with another fidelity or algorithm and is left out\n";
  REQUIRE(text.size() > said.size());
  CHECK(text.find(said) == text.size() - said.size());
  CHECK(std::count(text.begin(), text.end(), '\n') == 3);  // messages, bytes, and this
}

TEST_CASE("where fewer than three points are played out alike there is no law, and it is said") {
  const std::vector<SweepAxis> axes{{"cluster.gpus", {"5", "10"}, -1}};
  const auto simulate = [](const SweepPoint& point) -> Result<Summary> {
    Summary summary;
    summary.cluster.gpus = std::stoll(point.set.at(0).value);
    summary.communication.messages = summary.cluster.gpus;
    summary.simulation.fidelity = summary.cluster.gpus == 5 ? "message" : "coupled";
    return summary;
  };
  const SweepResult result = run_sweep(grid(axes), simulate, {});
  REQUIRE(result.growth.size() == 1);
  CHECK_FALSE(result.growth[0].law.has_value());
  CHECK(explain(result.growth) ==
        "messages grow with the number of GPUs: not fitted, a law needs three sizes that run alike\n");
}

TEST_CASE("a point that runs out of memory fails, and the others do not") {
  const auto simulate = [](const SweepPoint& point) -> Result<Summary> {
    if (point.set.at(0).value == "20") throw std::bad_alloc();
    return made_up(point);
  };
  const SweepResult result = run_sweep(grid(kAxes), simulate, {.threads = 2, .out = "", .inputs = "", .progress = {}});
  CHECK(result.failures() == 2);
  CHECK(result.runs[2].error.find("out of memory") != std::string::npos);
  CHECK(result.runs[4].summary.has_value());
}

TEST_CASE("a folder that cannot be written ends a sweep before it begins") {
  int simulated = 0;
  const auto simulate = [&](const SweepPoint& point) -> Result<Summary> {
    ++simulated;
    return made_up(point);
  };
  const SweepResult result =
      run_sweep(grid(kAxes), simulate, {.threads = 1, .out = "/dev/null/here", .inputs = "", .progress = {}});
  CHECK(simulated == 0);
  REQUIRE(result.file_problems.size() == 1);
  CHECK(result.file_problems.front().message.find("/dev/null/here") != std::string::npos);
}

TEST_CASE("axes that advance together are one dimension, and no law holds one of them still") {
  const std::vector<SweepAxis> axes{{"cluster.gpus", {"10", "20", "40"}, 0},
                                    {"parallelism.tensor", {"1", "2"}, -1},
                                    {"training.global_batch", {"100", "200", "400"}, 0}};
  const std::vector<SweepPoint> points = grid(axes);
  REQUIRE(points.size() == 6);
  CHECK(points[1].name == "gpus=10, global_batch=100, tensor=2");
  CHECK(points[2].name == "gpus=20, global_batch=200, tensor=1");
  const auto simulate = [](const SweepPoint& p) -> Result<Summary> {
    return made_up({p.name, {p.set[0], p.set[2]}, {0, 1}});
  };
  const SweepResult result = run_sweep(points, simulate, {});
  REQUIRE(result.growth.size() == 4);
  CHECK(result.growth[0].axes == std::vector<std::string>{"cluster.gpus", "training.global_batch"});
  CHECK(result.growth[0].others.at(0).key == "parallelism.tensor");
  CHECK(result.growth[0].law.value().points == 3);
}

TEST_CASE("a sweep that is started again simulates only what is not finished") {
  const test::TemporaryFolder folder;
  const std::vector<SweepPoint> points = grid(kAxes);
  std::mutex mutex;
  std::set<std::string> simulated;
  bool broken = true;
  const auto simulate = [&](const SweepPoint& point) -> Result<Summary> {
    const std::lock_guard lock(mutex);
    simulated.insert(point.name);
    if (broken && point.name == "gpus=20, tensor=2") return Problem{"parallelism.tensor", "does not divide", ""};
    return made_up(point);
  };
  SweepOptions options{.threads = 2, .out = folder.path, .inputs = "file as it is", .progress = nullptr};

  const SweepResult first = run_sweep(points, simulate, options);
  CHECK(simulated.size() == 6);
  CHECK(first.failures() == 1);
  CHECK(first.runs[3].error == "error: parallelism.tensor: does not divide");
  CHECK(first.file_problems.empty());

  // Failed points are tried again, and only these.
  simulated.clear();
  broken = false;
  const SweepResult second = run_sweep(points, simulate, options);
  CHECK(simulated == std::set<std::string>{"gpus=20, tensor=2"});
  CHECK(second.failures() == 0);
  CHECK(second.runs[0].reused);
  CHECK(second.runs[0].summary->communication.messages == 100);

  // All there: nothing to do, and the files stay as they are.
  simulated.clear();
  const std::string before = *read_file(folder.path + "/results.json");
  CHECK(run_sweep(points, simulate, options).failures() == 0);
  CHECK(simulated.empty());
  CHECK(*read_file(folder.path + "/results.json") == before);

  // Another axis value: one row more to simulate. Another file: everything anew.
  const std::vector<SweepAxis> wider{{"cluster.gpus", {"10", "20", "40", "80"}, -1},
                                     {"parallelism.tensor", {"1", "2"}, -1}};
  CHECK(run_sweep(grid(wider), simulate, options).runs.size() == 8);
  CHECK(simulated == std::set<std::string>{"gpus=80, tensor=1", "gpus=80, tensor=2"});
  simulated.clear();
  options.inputs = "file edited";
  CHECK(run_sweep(points, simulate, options).runs.size() == 6);
  CHECK(simulated.size() == 6);
}

TEST_CASE("a result file that is damaged is said so, and everything is simulated anew") {
  const test::TemporaryFolder folder;
  REQUIRE(write_file(folder.path + "/results.json", "{\"runs\": [").empty());
  SweepOptions options{.threads = 1, .out = folder.path, .inputs = "", .progress = nullptr};
  const SweepResult result = run_sweep(
      grid(kAxes), [](const SweepPoint& p) -> Result<Summary> { return made_up(p); }, options);
  CHECK(result.file_problems.size() == 1);
  CHECK(result.failures() == 0);
  CHECK(parse_results_json(*read_file(folder.path + "/results.json"))->size() == 6);
}

TEST_CASE("results.json and results.csv hold runs, settings, figures and errors") {
  const test::TemporaryFolder folder;
  const auto simulate = [](const SweepPoint& p) -> Result<Summary> {
    if (p.set[1].value == "2") return Problem{"", "says \"no\", twice", ""};
    return made_up(p);
  };
  SweepOptions options{.threads = 1, .out = folder.path, .inputs = "", .progress = nullptr};
  const SweepResult result = run_sweep(grid(kAxes), simulate, options);
  CHECK(result.failures() == 3);

  const nlohmann::json j = nlohmann::json::parse(*read_file(folder.path + "/results.json"));
  REQUIRE(j["runs"].size() == 6);
  CHECK(j["runs"][0]["name"] == "gpus=10, tensor=1");
  CHECK(j["runs"][0]["set"]["cluster.gpus"] == 10);
  CHECK(j["runs"][0]["summary"]["communication"]["messages"] == 100);
  CHECK(j["runs"][1]["error"] == "error: says \"no\", twice");
  CHECK_FALSE(j["runs"][1].contains("summary"));
  CHECK(j["growth"][0]["exponent"].get<double>() == doctest::Approx(2));
  CHECK(j["explanation"].get<std::string>().find("messages grow as n^2.00") == 0);

  const std::string csv = *read_file(folder.path + "/results.csv");
  CHECK(csv.find("name,cluster.gpus,parallelism.tensor,scenario,") == 0);
  CHECK(csv.find("\"gpus=10, tensor=1\",10,1,") != std::string::npos);
  CHECK(csv.find("\"error: says \"\"no\"\", twice\"") != std::string::npos);
}
