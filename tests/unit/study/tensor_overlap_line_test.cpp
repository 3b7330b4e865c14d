// Tensor-parallel communication beside its products, played out: what it hides, and that it hides nothing without
// compute to hide behind. (run_line also plays each case folded.)
#include <filesystem>

#include "scenarios/catalog.hpp"
#include "tests/unit/study/whole_line.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

constexpr std::int64_t kTensor = 4;

ParallelismSpec plan(bool overlap) {
  ParallelismSpec p = degrees(kTensor, 1, 1);
  p.sequence_parallel = true;
  p.tp_comm_overlap = overlap;
  return p;
}

RunResult run(const ClusterSpec& cluster, bool overlap, const ExecutionOptions& options = ideal_traffic()) {
  ModelSpec model = line_model(2, 1024);
  model.heads = model.kv_heads = 8;
  model.head_dim = 128;
  return run_line(cluster, workload_of(model, line_training(512, 1), plan(overlap)), options);
}

// A GPU that is a thousand billion times as fast as the steady one.
GpuSpec infinitely_fast() {
  GpuSpec gpu = steady_gpu();
  gpu.memory_bandwidth = BytesPerSecond(1e15);
  gpu.peak.fill(FlopsPerSecond(1e24));
  gpu.vector_peak = FlopsPerSecond(1e24);
  gpu.kernels.memory_rate.fill(1);
  return gpu;
}

}  // namespace

TEST_CASE("a ring exchange hides behind products that last longer") {
  // The steady GPU takes 2 B / (1 GB/s) for the least product: far longer than what it waits for at 100 GB/s.
  const ClusterSpec cluster = line_cluster(1, kTensor, 100e9, 100e9);
  const RunResult without = run(cluster, false);
  const RunResult with = run(cluster, true);
  for (std::size_t r = 0; r < without.ranks.size(); ++r) {
    CHECK(exposed(without.ranks[r], "tensor") > Duration{});
    CHECK(exposed(with.ranks[r], "tensor") < exposed(without.ranks[r], "tensor"));
  }
}

TEST_CASE("where compute takes no time, overlap hides nothing") {
  // All that a rank waits for is its bytes over the link, in whatever pieces: rings of one channel without latency.
  const ClusterSpec cluster = line_cluster(1, kTensor, 1e6, 1e6, infinitely_fast());
  const RunResult without = run(cluster, false);
  const RunResult with = run(cluster, true);
  CHECK(seconds(with.step_time) == doctest::Approx(seconds(without.step_time)).epsilon(1e-3));
  for (std::size_t r = 0; r < without.ranks.size(); ++r) {
    CHECK(seconds(exposed(with.ranks[r], "tensor")) ==
          doctest::Approx(seconds(exposed(without.ranks[r], "tensor"))).epsilon(1e-3));
  }
}

TEST_CASE("where launches are all that takes time, a chunk costs the driver's part of one") {
  // Two layers, one micro-batch. Without overlap each has ten gathers and reduce-scatters by calls of their own,
  // forward and backward; with it none, but 2 x 9 + 2 x 7 launches within calls forward, and 2 x 9 + 4 backward
  // (tests/unit/workloads/tensor_overlap_test.cpp). Its other calls are as many.
  const ClusterSpec cluster = line_cluster(1, kTensor, 1e15, 1e15, infinitely_fast());
  ExecutionOptions options = ideal_traffic();
  options.launch = 50_us;
  options.collective_launch = 20_us;
  const Duration without = run(cluster, false, options).step_time;
  for (const Duration driver : {2_us, 5_us}) {
    options.driver_launch = driver;
    CHECK(run(cluster, false, options).step_time == without);
    CHECK(seconds(run(cluster, true, options).step_time) ==
          doctest::Approx(seconds(without + 2 * (54 * driver - 200_us))).epsilon(1e-6));
  }
}

TEST_CASE("where launches cost nothing, it does not matter which call they belong to") {
  const ClusterSpec cluster = line_cluster(1, kTensor, 100e9, 100e9);
  ExecutionOptions options = ideal_traffic();
  const RunResult free = run(cluster, true, options);
  options.driver_launch = 5_us;
  for (const std::string& difference : differences(free, run(cluster, true, options))) FAIL_CHECK(difference);
}

TEST_CASE("overlap shortens a step of large products on an A100 node, by less than what it hides") {
  // GPT of hidden size 8,192 in 8: a chunk of 2,048 / 8 rows still fills the GPU's tiles. What is gained is less than
  // the exposed time that went away, for the products are smaller and share the GPU with transfers.
  Catalog catalog((std::filesystem::path(ORRERY_SOURCE_DIR)).string());
  const auto& node = catalog.node("dgx-a100-80gb");
  REQUIRE(node.ok());
  ClusterSpec cluster;
  cluster.groups.push_back({*node, 1});
  ModelSpec model = line_model(2, 8192);
  model.heads = model.kv_heads = 64;
  model.head_dim = 128;
  const auto play = [&](bool overlap) {
    ParallelismSpec p = degrees(8, 1, 1);
    p.sequence_parallel = true;
    p.tp_comm_overlap = overlap;
    TrainingSpec training = line_training(2048, 4);
    training.micro_batch = 4;
    return run_line(cluster, workload_of(model, training, p), {});
  };
  const RunResult without = play(false);
  const RunResult with = play(true);
  const double hidden = seconds(exposed(without.ranks[0], "tensor")) - seconds(exposed(with.ranks[0], "tensor"));
  CHECK(hidden > 0);
  CHECK(with.step_time < without.step_time);
  CHECK(seconds(without.step_time) - seconds(with.step_time) < hidden);
  CHECK(with.ranks[0].times.compute > without.ranks[0].times.compute);
}
