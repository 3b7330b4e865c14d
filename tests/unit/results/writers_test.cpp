#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "sim/results/files.hpp"
#include "sim/results/metrics.hpp"
#include "sim/results/quantities.hpp"
#include "sim/results/summary_json.hpp"
#include "sim/results/summary_text.hpp"
#include "sim/results/trace.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/unit/results/made_run.hpp"

using namespace orrery;
using nlohmann::json;

TEST_CASE("summary.json has the documented keys") {
  const json j = json::parse(summary_json(summarize(made::run(), made::workload(), made::facts())));
  CHECK(j["scenario"] == "made by hand");
  CHECK(j["fingerprint"] == "0123456789abcdef");
  CHECK(j["cluster"] == json({{"gpus", 4}, {"nodes", 1}, {"gpu", "x100-40gb"}, {"peak_tflops_per_gpu", 200.0}}));
  CHECK(j["model"]["parameters"] == 1'000'000'000);
  for (const char* key : {"time_s", "tokens", "tokens_per_s", "tokens_per_s_per_gpu", "model_tflops_per_gpu",
                          "hardware_tflops_per_gpu", "mfu", "hfu"}) {
    CHECK_MESSAGE(j["step"].contains(key), key);
  }
  CHECK(j["breakdown"]["exposed_communication_s"]["tensor"].get<double>() == doctest::Approx(0.015));
  CHECK(j["imbalance"]["waiting_s"].get<double>() == doctest::Approx(0.002));
  double parts = 0;
  for (const auto& [kind, value] : j["breakdown"].items()) {
    if (value.is_number()) parts += value.get<double>();
    for (const auto& part : value.is_object() ? value : json::object()) parts += part.get<double>();
  }
  CHECK(parts == doctest::Approx(j["step"]["time_s"].get<double>()).epsilon(1e-12));
  CHECK(j["communication"]["messages"] == 26);
  CHECK(j["communication"]["bytes"] == 52'097'152);
  CHECK(j["communication"]["by_kind"]["tensor"]["messages"] == 24);
  CHECK(j["communication"]["by_link_kind"]["nvlink"] == 104'194'304);
  CHECK(j["memory"]["by_tag"]["weights"] == std::int64_t{10} << 30);
  CHECK(j["memory"]["fits"] == true);
  CHECK(j["training"]["steps"] == 2'441'407);
  CHECK(j["simulation"]["rank_classes"] == 2);
  CHECK_FALSE(j["simulation"].contains("wall_s"));
}

TEST_CASE("a summary survives the way through JSON bit by bit") {
  RunFacts facts = made::facts();
  facts.wall_s = 0.1 + 0.2;
  const std::string text = summary_json(summarize(made::run(), made::workload(), facts));
  const Result<Summary> back = parse_summary_json(text);
  REQUIRE(back.ok());
  CHECK(summary_json(*back) == text);

  facts = made::facts();
  facts.peak = FlopsPerSecond(0);
  facts.memory_limits.clear();
  facts.tokens = 0;
  const std::string sparse = summary_json(summarize(made::run(), made::workload(), facts));
  CHECK(json::parse(sparse).contains("training") == false);
  CHECK(summary_json(*parse_summary_json(sparse)) == sparse);
}

TEST_CASE("text that is no summary is a problem, not a crash") {
  CHECK_FALSE(parse_summary_json("").ok());
  CHECK_FALSE(parse_summary_json("{\"scenario\": 3}").ok());
  CHECK_FALSE(parse_summary_json("[1, 2").ok());
}

TEST_CASE("the text summary tells the answer at a glance") {
  const std::string expected = R"(made by hand
4 x x100-40gb, one-billion: 1.00 billion parameters, 8.19 thousand tokens a step

  step time     100 ms
  throughput    81,920 tokens/s, 20,480 per GPU
  model FLOPs   122.9 TFLOP/s per GPU, MFU 61.4 % (with recomputation 163.8, HFU 81.9 %)
  memory        30.0 GiB of 40.0 GiB, fits (rank 0)
  whole run     2.83 days in 2,441,407 steps, 271 GPU-hours (8 P T / (n X): 2.31 days)

  where the step goes (mean over GPUs)
    compute                        70.0 ms   70.0 %  ██████████████████████▌
    data communication             2.50 ms    2.5 %  █
    tensor communication           15.0 ms   15.0 %  █████
    pipeline bubble                5.50 ms    5.5 %  ██
    waiting for late ranks         2.00 ms    2.0 %  ▌
    waiting for input              3.00 ms    3.0 %  █
    host and launches              2.00 ms    2.0 %  ▌

  communication: 52.1 MB in 26 messages a step
    pipeline                       2.10 MB in 2 messages
    tensor                         50.0 MB in 24 messages
  busiest links
    node0.gpu0->nvswitch           26.0 MB   25.0 % of its capacity

  memory at the peak of rank 0
    activations                   20.0 GiB   66.7 %  █████████████████████▌
    weights                       10.0 GiB   33.3 %  ██████████▌

  1,234 events, 26 flows, 2 classes for 4 ranks, message traffic, fingerprint 0123456789abcdef
  note: micro_batch is not given: 1
  warning: constants of x100 are not measured
)";
  CHECK(summary_text(summarize(made::run(), made::workload(), made::facts())) == expected);
}

TEST_CASE("fewer FLOPs executed than the model has are explained") {
  Summary summary = summarize(made::run(), made::workload(), made::facts());
  summary.step.hardware_tflops_per_gpu = 110;
  summary.step.hfu = 0.55;
  CHECK(summary_text(summary).find("MFU 61.4 % (executed 110.0, HFU 55.0 %: MFU counts the full attention square)\n") !=
        std::string::npos);
}

TEST_CASE("a step that does not fit says which rank, when, and what is largest") {
  RunFacts facts = made::facts();
  facts.memory_limits = {Bytes(std::int64_t{24} << 30), Bytes(std::int64_t{40} << 30)};
  RunResult run = made::run();
  run.ranks[0].memory.first_beyond = TaskId(0);
  const std::string text = summary_text(summarize(run, made::workload(), facts));
  CAPTURE(text);
  CHECK(text.find("OUT OF MEMORY: rank 0 needs 30.0 GiB, its GPU has 24.0 GiB\n"
                  "  runs out in the forward of layer 0 forward 0, micro-batch 0\n"
                  "  needs most 50.0 ms into the step, at activations\n"
                  "  largest then: activations 20.0 GiB, weights 10.0 GiB\n") != std::string::npos);
  CHECK(text.find("DOES NOT FIT") != std::string::npos);
}

TEST_CASE("quantities are read by people") {
  CHECK(with_separators(0) == "0");
  CHECK(with_separators(999) == "999");
  CHECK(with_separators(-1234567) == "-1,234,567");
  CHECK(human_seconds(0) == "0 s");
  CHECK(human_seconds(83.2e-6) == "83.2 us");
  CHECK(human_seconds(0.9996) == "1.00 s");
  CHECK(human_seconds(119) == "119 s");
  CHECK(human_seconds(1800) == "30.0 min");
  CHECK(human_seconds(34 * 86400) == "34.0 days");
  CHECK(human_memory(512) == "512 B");
  CHECK(human_memory(std::int64_t{80} << 30) == "80.0 GiB");
  CHECK(human_traffic(999'999) == "1.00 MB");
  CHECK(human_count(174.6e9) == "175 billion");
  CHECK(human_percent(0.4491) == "44.9 %");
}

TEST_CASE("the trace is Chrome's format, with waiting and transfer apart") {
  const json trace = json::parse(trace_json(made::run(), made::workload()));
  std::map<std::string, json> slices;
  std::vector<std::string> rows;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X") slices[event["name"]] = event;
    if (event["name"] == "thread_name") rows.push_back(event["args"]["name"]);
  }
  CHECK(rows == std::vector<std::string>{"compute", "tensor", "pipeline"});
  // Posted at 40 ms, the partner came at 45, over at 70; in microseconds.
  CHECK(slices.at("wait: activations")["ts"].get<double>() == doctest::Approx(40000));
  CHECK(slices.at("wait: activations")["dur"].get<double>() == doctest::Approx(5000));
  CHECK(slices.at("activations")["ts"].get<double>() == doctest::Approx(45000));
  CHECK(slices.at("activations")["dur"].get<double>() == doctest::Approx(25000));
  CHECK(slices.at("activations")["args"]["op"] == "all_reduce");
  CHECK(slices.at("send \"forward\"")["args"]["bytes"] == 1 << 20);
  CHECK(slices.at("layer 0 forward")["args"]["kernels"] == 2);
  CHECK(slices.count("wait: send \"forward\"") == 0);  // nobody waited
}

namespace {

const MetricSeries& series_of(const std::vector<MetricFamily>& families, const std::string& name) {
  for (const MetricFamily& family : families) {
    if (family.name == name) return family.series.at(0);
  }
  FAIL("no metric " << name);
  return families.at(0).series.at(0);
}

}  // namespace

TEST_CASE("of much memory over time the trace keeps what a screen can show, and the peak") {
  // A saw of 100,000 teeth with one that is higher.
  RunResult run = made::run();
  std::vector<MemorySample>& samples = run.ranks[0].memory_over_time;
  samples.clear();
  for (std::int64_t i = 0; i < 200'000; ++i)
    samples.push_back({Instant(Duration(i * 1000)), Bytes(i % 2 == 0 ? 5 : 9)});
  samples[123'457].allocated = Bytes(11);
  samples.push_back({Instant(Duration(200'000'000)), Bytes(7)});
  std::int64_t counters = 0;
  std::int64_t peak = 0;
  std::int64_t last = 0;
  double before = -1;
  const json trace = json::parse(trace_json(run, made::workload()));
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "C" || event["pid"] != run.ranks[0].rank.value()) continue;
    ++counters;
    last = event["args"]["bytes"].get<std::int64_t>();
    peak = std::max(peak, last);
    CHECK(event["ts"].get<double>() > before);
    before = event["ts"].get<double>();
  }
  CHECK(counters > 4096);
  CHECK(counters <= 2 * 4097 + 1);
  CHECK(peak == 11);
  CHECK(last == 7);
}

TEST_CASE("metrics are means over bins that conserve busy time") {
  // Ten bins of 10 ms. Kernels run in [0, 40] and [70, 90] ms; with communication the GPU is busy in [0, 90].
  const std::vector<MetricFamily> families = metrics_over_time(made::run(), made::workload(), 10);
  const auto& any = series_of(families, "gpu_utilization").points;
  const auto& compute = series_of(families, "gpu_compute_utilization").points;
  REQUIRE(any.size() == 10);
  double any_sum = 0;
  double compute_sum = 0;
  for (std::size_t i = 0; i < 10; ++i) {
    any_sum += any[i].value;
    compute_sum += compute[i].value;
  }
  CHECK(any_sum == doctest::Approx(9));
  CHECK(compute_sum == doctest::Approx(6));
  CHECK(any[9].value == doctest::Approx(0));
  CHECK(compute[5].value == doctest::Approx(0));
  CHECK(compute[0].time_s == doctest::Approx(0.01));

  // The all-reduce took 30 ms from posting to end, and ended in the bin that ends at 80 ms.
  const auto& allreduce = series_of(families, "nccl_allreduce_time_ms");
  REQUIRE(allreduce.points.size() == 1);
  CHECK(allreduce.points[0].value == doctest::Approx(30));
  CHECK(allreduce.points[0].time_s == doctest::Approx(0.08));
  CHECK(series_of(families, "nccl_sendrecv_time_ms").points[0].value == doctest::Approx(10));

  // 10 GiB until 50 ms, then 30, and 12 from 80 ms on: the largest in each bin.
  const auto& memory = series_of(families, "gpu_memory_usage_bytes").points;
  const double gib = 1024.0 * 1024.0 * 1024.0;
  CHECK(memory[4].value == doctest::Approx(10 * gib));
  CHECK(memory[5].value == doctest::Approx(30 * gib));
  CHECK(memory[7].value == doctest::Approx(30 * gib));
  CHECK(memory[8].value == doctest::Approx(30 * gib));  // until the sample at its begin
  CHECK(memory[9].value == doctest::Approx(12 * gib));
}

TEST_CASE("OpenMetrics text is grouped by family and ends with EOF") {
  const std::string text = metrics_openmetrics(metrics_over_time(made::run(), made::workload(), 2));
  CHECK(text.find("# TYPE gpu_memory_usage_bytes gauge\n# UNIT gpu_memory_usage_bytes bytes\n") != std::string::npos);
  CHECK(text.find("gpu_compute_utilization{rank=\"0\"} 0.8 0.05\n") != std::string::npos);
  CHECK(text.find("link_utilization{link_kind=\"nvlink\",link=\"node0.gpu0->nvswitch\"} 0.25 0.1\n") !=
        std::string::npos);
  CHECK(text.substr(text.size() - 6) == "# EOF\n");
  const std::string csv = metrics_csv(metrics_over_time(made::run(), made::workload(), 2));
  CHECK(csv.find("time_s,metric,labels,value\n0.05,gpu_utilization,rank=0,1\n") == 0);
}

TEST_CASE("files are written whole, and folders made") {
  const test::TemporaryFolder temporary;
  const std::string& folder = temporary.path;
  const std::string path = folder + "/a b/c/summary.json";
  CHECK(write_file(path, "first").empty());
  CHECK(write_file(path, "second").empty());
  CHECK(*read_file(path) == "second");
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/a b/c")) files += entry.is_regular_file();
  CHECK(files == 1);  // nothing is left beside
  CHECK_FALSE(write_file(path + "/below-a-file", "x").empty());
  CHECK_FALSE(read_file(folder + "/absent").ok());
}

TEST_CASE("a folder is known to be writable before anything is written to it, and is left as it was") {
  const test::TemporaryFolder folder;
  CHECK(prepare_folder(folder.path + "/new/er").empty());
  CHECK(std::filesystem::is_directory(folder.path + "/new/er"));
  CHECK(std::filesystem::is_empty(folder.path + "/new/er"));
  CHECK_FALSE(prepare_folder(folder.write("file", "x")).empty());
  // The folder is what the user named: nothing else is said.
  const Problems problems = prepare_folder("/dev/null/below");
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().message == "cannot make the folder /dev/null/below: Not a directory");
}

TEST_CASE("a full disk is a problem that says so") {
  if (!std::filesystem::exists("/dev/full")) return;
  // /dev/full cannot be replaced, so a link to it stands where the file beside the result would be written.
  const test::TemporaryFolder folder;
  const std::string path = folder.path + "/summary.json";
  std::filesystem::create_symlink("/dev/full", path + fmt::format(".{}.part", ::getpid()));
  const Problems problems = write_file(path, std::string(100'000, 'x'));
  REQUIRE(problems.size() == 1);
  CHECK(problems.front().message.find("No space left on device") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(path));
}
