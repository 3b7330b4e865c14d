// Data parallelism from whole runs: what of the gradients' all-reduces hides behind the backward pass (Li et al. 2020,
// PyTorch DDP), against a queue worked out by hand.
#include "tests/unit/study/whole_line.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

constexpr std::int64_t kReplicas = 4;
constexpr std::int64_t kLayers = 3;
constexpr std::int64_t kParametersPerLayer = 8;  // two norms with bias; queries-keys-values, projection; up, down
constexpr std::int64_t kParameters = kLayers * kParametersPerLayer + 4;  // table; final norm with bias, head
constexpr std::int64_t kGradient = 4;                                    // bytes of an element, with bf16

// `micro_batches` sequences for each replica; every parameter's gradient a bucket of its own.
Workload replicas(std::int64_t micro_batches) {
  ParallelismSpec parallelism = degrees(1, 1, kReplicas);
  parallelism.sharding.options["bucket_elements"] = std::int64_t{1};
  return workload_of(line_model(kLayers), line_training(128, kReplicas * micro_batches), parallelism);
}

// One NVSwitch; `bandwidth` of a GPU's link into it.
RunResult run_at(double bandwidth, const Workload& workload, TrafficFidelity fidelity = TrafficFidelity::coupled) {
  return run_line(line_cluster(1, kReplicas, bandwidth, 1e9), workload, ideal_traffic(fidelity));
}

// A ring all-reduce of n members moves 2 (n - 1) messages of 1/n of the buffer over every link.
double ring_seconds(std::int64_t bytes, double bandwidth) {
  return static_cast<double>(2 * (kReplicas - 1) * divide_up(bytes, kReplicas)) / bandwidth;
}

struct Interval {
  Instant begin;
  Instant end;
};

// What one rank did: its kernels, and its reductions with the bytes of each.
struct Account {
  std::vector<Interval> kernels;
  std::vector<Interval> reductions;  // from the last partner's arrival
  std::vector<std::int64_t> bytes;
  std::vector<std::int32_t> micro_batches;
  Instant backward_end{};
};

Account account_of(const RunResult& run, const Workload& workload, std::size_t rank = 0) {
  Account account;
  const Program& program = workload.programs[workload.role_of[rank].index()];
  for (const TaskRecord& record : run.ranks[rank].tasks) {
    const Task& task = program.tasks()[record.task.index()];
    if (task.kind == TaskKind::kernels) {
      account.kernels.push_back({record.begin, record.end});
      if (task.phase == Phase::backward) account.backward_end = record.end;
    }
    if (task.kind == TaskKind::collective && task.phase == Phase::gradient_reduction) {
      account.reductions.push_back({record.active, record.end});
      account.bytes.push_back(program.collective(task).bytes.count());
      account.micro_batches.push_back(task.micro_batch);
    }
  }
  return account;
}

Duration overlap(const Account& account) {
  Duration sum{};
  for (const Interval& a : account.reductions) {
    for (const Interval& b : account.kernels) {
      sum += std::max(Duration{}, std::min(a.end, b.end) - std::max(a.begin, b.begin));
    }
  }
  return sum;
}

// Rates are whole bytes per second, and each operation's end is rounded up to a picosecond.
constexpr double kRounding = 1e-10;

constexpr double kFast = 1e13;
constexpr double kSlow = 1e6;
constexpr std::int64_t kLoss = 4;  // bytes of the loss, which is averaged after the last reduction

}  // namespace

TEST_CASE("with fast links only the last bucket's all-reduce is exposed") {
  const Workload workload = replicas(1);
  const RunResult run = run_at(kFast, workload);
  const Account account = account_of(run, workload);
  REQUIRE(account.reductions.size() == kParameters);
  // The last gradient is that of the table (8 rows of 256), and nothing of the backward pass is left to hide it.
  CHECK(account.bytes.back() == 8 * 256 * kGradient);
  const double expected = ring_seconds(account.bytes.back(), kFast) + ring_seconds(kLoss, kFast);
  for (const RankResult& rank : run.ranks) CHECK(seconds(exposed(rank, "data")) == doctest::Approx(expected));
  // All others are over before.
  CHECK(account.reductions[kParameters - 2].end < account.reductions[kParameters - 1].begin);
}

TEST_CASE("with slow links all communication but what overlaps the rest of the backward pass is exposed") {
  // From the first bucket on the links are never idle: communication ends sum(T) after the first bucket is ready,
  // compute at the end of the backward pass, which the run over fast links tells.
  const Workload workload = replicas(1);
  const Account ready = account_of(run_at(kFast, workload), workload);
  const RunResult run = run_at(kSlow, workload);
  double communication = 0;
  std::int64_t elements = 0;
  for (const std::int64_t bytes : ready.bytes) {
    communication += ring_seconds(bytes, kSlow);
    elements += bytes / kGradient;
  }
  CHECK(elements == parameters(line_model(kLayers)));
  const double overlapped = seconds(ready.backward_end - ready.reductions[0].begin);
  REQUIRE(overlapped > 0);
  REQUIRE(communication > 10 * overlapped);
  const double expected = communication - overlapped + ring_seconds(kLoss, kSlow);
  for (const RankResult& rank : run.ranks) {
    CHECK(seconds(exposed(rank, "data")) == doctest::Approx(expected).epsilon(kRounding));
  }
}

TEST_CASE("between fast and slow the exposed part is that of a queue") {
  // Reductions run one after the other on their stream: c_k = max(c_(k-1), r_k) + T_k, with r_k the end of the kernel
  // that makes bucket k's last gradient (from a run over fast links: kernels do not slow down), and exposed is what is
  // left after the backward pass.
  const Workload workload = replicas(1);
  const RunResult fast = run_at(kFast, workload);
  const Account ready = account_of(fast, workload);
  for (const double bandwidth : {1e11, 1e9, 3e8, 1e8, 3e7, 1e7}) {
    CAPTURE(bandwidth);
    double end = 0;
    double total = 0;
    for (std::size_t k = 0; k < ready.reductions.size(); ++k) {
      const double time = ring_seconds(ready.bytes[k], bandwidth);
      end = std::max(end, seconds(ready.reductions[k].begin - Instant{})) + time;
      total += time;
    }
    const double loss = ring_seconds(kLoss, bandwidth);
    const double expected = end - seconds(ready.backward_end - Instant{}) + loss;
    const RunResult run = run_at(bandwidth, workload);
    const Account account = account_of(run, workload);
    const double found = seconds(exposed(run.ranks[0], "data"));
    CHECK(found == doctest::Approx(expected).epsilon(1e-8));
    CHECK(seconds(run.ranks[0].times.compute) ==
          doctest::Approx(seconds(fast.ranks[0].times.compute)).epsilon(kRounding));
    // Exposed and hidden make up all communication.
    CHECK(found + seconds(overlap(account)) == doctest::Approx(total + loss).epsilon(1e-8));
  }
}

TEST_CASE("under accumulation only the last micro-batch communicates") {
  // m = 1 and m = 5 reduce the same gradients behind the same backward pass: same messages, same exposure, and the step
  // grows by the compute of the other four.
  const Workload one = replicas(1);
  const Workload five = replicas(5);
  for (const double bandwidth : {kFast, 1e8, kSlow}) {
    CAPTURE(bandwidth);
    const RunResult a = run_at(bandwidth, one);
    const RunResult b = run_at(bandwidth, five);
    const Account account = account_of(b, five);
    REQUIRE(account.reductions.size() == kParameters);
    for (const std::int32_t micro_batch : account.micro_batches) CHECK(micro_batch == 4);
    CHECK(a.traffic_by_kind.at("data").messages == b.traffic_by_kind.at("data").messages);
    CHECK(a.traffic_by_kind.at("data").bytes == b.traffic_by_kind.at("data").bytes);
    CHECK(seconds(exposed(b.ranks[0], "data")) == doctest::Approx(seconds(exposed(a.ranks[0], "data"))).epsilon(1e-9));
    const Duration more = b.ranks[0].times.compute - a.ranks[0].times.compute;
    CHECK(seconds(more) > 0);
    CHECK(seconds(b.step_time - a.step_time) == doctest::Approx(seconds(more)).epsilon(1e-6));
  }
}

TEST_CASE("messages of data parallelism are those of one ring per bucket") {
  // 28 buckets and the loss, each 2 (n - 1) messages from each of n members: 29 x 6 x 4 = 696.
  const Workload workload = replicas(2);
  for (const TrafficFidelity fidelity : {TrafficFidelity::coupled, TrafficFidelity::message}) {
    CHECK(run_at(1e9, workload, fidelity).traffic_by_kind.at("data").messages == 696);
  }
  CHECK(kParameters == 28);
}
