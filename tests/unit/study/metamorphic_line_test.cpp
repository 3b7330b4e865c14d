// Relations between whole runs that hold whatever the right answer is: units, symmetries, idle hardware, slow parts.
// The line: eight ranks, two in each of tensor, pipeline and data parallelism, on nodes of two GPUs, with kernels that
// have start-up times, partial waves and rates below nominal, and links that have latencies.
#include "tests/unit/study/whole_line.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

// Default constants (those of a GPU that nobody has measured), at a size where a small model keeps it busy for a while.
GpuSpec rough_gpu() {
  GpuSpec gpu;
  gpu.name = "rough";
  gpu.peak.fill(FlopsPerSecond(20e12));
  gpu.vector_peak = FlopsPerSecond(2e12);
  gpu.memory = 80_GiB;
  gpu.memory_bandwidth = 200_GBps;
  gpu.multiprocessors = 20;
  return gpu;
}

// `scale`: 1, or 2 for twice the rates and half of the times of everything.
struct Line {
  ClusterSpec cluster;
  TrainingSpec training;
  ExecutionOptions options;
};

Line line_at(int scale, TrafficFidelity fidelity, int nodes = 4) {
  const double faster = scale;
  Line line;
  GpuSpec gpu = rough_gpu();
  for (FlopsPerSecond& peak : gpu.peak) peak = faster * peak;
  gpu.vector_peak = faster * gpu.vector_peak;
  gpu.memory_bandwidth = faster * gpu.memory_bandwidth;
  KernelConstants& k = gpu.kernels;
  for (Duration* time : {&k.gemm_fixed, &k.attention_fixed, &k.memory_fixed, &k.kernel_gap}) *time /= scale;
  line.cluster = line_cluster(nodes, 2, 0, 0, gpu);
  NodeSpec& node = line.cluster.groups[0].node;
  node.nvlink = wire("nvlink", faster * 5e9, 600_ns / scale);
  node.pcie = wire("pcie", faster * 4e9, 400_ns / scale);
  node.nic = wire("nic", faster * 2e9, 800_ns / scale);
  node.nic.adapter_latency = 1_us / scale;
  node.nic.switch_latency = 200_ns / scale;
  line.training = line_training(128, 8);
  line.training.framework.step_overhead = 100_us / scale;
  line.options = ideal_traffic(fidelity);
  line.options.launch = 4_us / scale;
  line.options.collective_launch = 8_us / scale;
  return line;
}

Workload eight_ranks(const TrainingSpec& training, std::int64_t data = 2) {
  return workload_of(line_model(4, 128), training, degrees(2, 2, data));
}

Placement placed(std::initializer_list<int> gpus) {
  Placement placement;
  for (const int gpu : gpus) placement.gpu_of.emplace_back(gpu);
  return placement;
}

constexpr TrafficFidelity kBoth[] = {TrafficFidelity::coupled, TrafficFidelity::message};

}  // namespace

TEST_CASE("twice the rates and half of the times take half of the time") {
  // The "ideal" protocol has none of NCCL's constants, transfers of 32 KiB run on one block whatever the link, and the
  // number of channels is forced, so every time in the run scales. Each is rounded up to a picosecond: a step of
  // milliseconds (1e9 ps) on a chain of about a thousand kernels and messages may differ by 1e-6.
  for (const TrafficFidelity fidelity : kBoth) {
    const Line slow = line_at(1, fidelity);
    const Line fast = line_at(2, fidelity);
    const RunResult a = run_line(slow.cluster, eight_ranks(slow.training), slow.options);
    const RunResult b = run_line(fast.cluster, eight_ranks(fast.training), fast.options);
    REQUIRE(a.step_time > 1_ms);
    CHECK(2 * seconds(b.step_time) == doctest::Approx(seconds(a.step_time)).epsilon(1e-6));
    CHECK(a.traffic_by_kind.at("data").bytes == b.traffic_by_kind.at("data").bytes);
    for (std::size_t r = 0; r < a.ranks.size(); ++r) {
      const RankTimes& s = a.ranks[r].times;
      const RankTimes& f = b.ranks[r].times;
      CHECK(2 * seconds(f.compute) == doctest::Approx(seconds(s.compute)).epsilon(1e-6));
      CHECK(2 * seconds(f.bubble) == doctest::Approx(seconds(s.bubble)).epsilon(1e-5));
    }
  }
}

TEST_CASE("with NCCL's own latencies, which do not scale, the same takes between half and all of the time") {
  // The protocols' latencies and the rates that NCCL's blocks reach are constants of the library, not of the machine:
  // what they take stays, everything else halves. (Its choices are forced, so that the runs do the same.)
  for (const TrafficFidelity fidelity : kBoth) {
    for (const char* protocol : {"ll", "ll128", "simple"}) {
      CAPTURE(protocol);
      Line slow = line_at(1, fidelity);
      Line fast = line_at(2, fidelity);
      slow.options.traffic.protocol = fast.options.traffic.protocol = protocol;
      const RunResult a = run_line(slow.cluster, eight_ranks(slow.training), slow.options);
      const RunResult b = run_line(fast.cluster, eight_ranks(fast.training), fast.options);
      CHECK(2 * b.step_time > a.step_time);
      CHECK(b.step_time < a.step_time);
    }
  }
}

TEST_CASE("putting ranks on other nodes or GPUs that are alike changes nothing") {
  // On one switch every order of the nodes is a symmetry; so is the other GPU of each, which has its own NIC.
  for (const TrafficFidelity fidelity : kBoth) {
    const Line line = line_at(1, fidelity);
    const Workload workload = eight_ranks(line.training);
    const RunResult plain = run_line(line.cluster, workload, line.options);
    for (const Placement& other : {placed({6, 7, 4, 5, 2, 3, 0, 1}), placed({2, 3, 0, 1, 6, 7, 4, 5}),
                                   placed({4, 5, 6, 7, 0, 1, 2, 3}), placed({1, 0, 3, 2, 5, 4, 7, 6})}) {
      const RunResult moved = run_line(line.cluster, workload, line.options, other);
      CHECK(moved.step_time == plain.step_time);
      CHECK(moved.fingerprint == plain.fingerprint);
    }
  }
}

TEST_CASE("nodes without a rank change nothing") {
  for (const TrafficFidelity fidelity : kBoth) {
    const Line line = line_at(1, fidelity);
    const Line more = line_at(1, fidelity, 7);
    const Workload workload = eight_ranks(line.training);
    const RunResult plain = run_line(line.cluster, workload, line.options);
    CHECK(run_line(more.cluster, workload, more.options).fingerprint == plain.fingerprint);
    // Nor does it matter which nodes are left out.
    CHECK(run_line(more.cluster, workload, more.options, placed({2, 3, 6, 7, 8, 9, 12, 13})).fingerprint ==
          plain.fingerprint);
  }
}

TEST_CASE("a slow GPU never speeds up the step") {
  for (const TrafficFidelity fidelity : kBoth) {
    Line line = line_at(1, fidelity);
    line.options.traffic.protocol = line.options.traffic.algorithm = "auto";
    const Workload workload = eight_ranks(line.training);
    for (int gpu = 0; gpu < 8; ++gpu) {
      Duration before = run_line(line.cluster, workload, line.options).step_time;
      for (const double factor : {0.95, 0.7, 0.4, 0.1}) {
        CAPTURE(gpu);
        CAPTURE(factor);
        ExecutionOptions options = line.options;
        options.slow_gpus = {{GpuId(gpu), factor}};
        const Duration step = run_line(line.cluster, workload, options).step_time;
        CHECK(step >= before);
        before = step;
      }
    }
  }
}

TEST_CASE("twice as many micro-batches compute twice as long, update aside") {
  // compute(m) = m c + u, with u for zeroing gradients and the update: compute(4) - compute(2) is twice
  // compute(2) - compute(1). On one GPU without host time to the picosecond.
  const auto alone = [](std::int64_t m) {
    const Workload workload = workload_of(line_model(4, 128), line_training(128, m), degrees(1, 1, 1));
    const RunResult run = run_line(line_cluster(1, 1, 0, 1e9, rough_gpu()), workload, ideal_traffic());
    return run.ranks[0].times.compute;
  };
  const Duration one = alone(1);
  const Duration two = alone(2);
  CHECK(two > one);
  CHECK(alone(4) - two == 2 * (two - one));

  // In parallel, on a GPU whose kernels do not feel communication, on every rank (to what interrupted kernels round).
  const auto together = [](std::int64_t m) {
    return run_line(line_cluster(4, 2, 1e10, 1e10), eight_ranks(line_training(128, 2 * m)), ideal_traffic());
  };
  const RunResult a = together(2);
  const RunResult b = together(4);
  const RunResult c = together(8);
  for (std::size_t r = 0; r < 8; ++r) {
    const double first = seconds(b.ranks[r].times.compute - a.ranks[r].times.compute);
    const double second = seconds(c.ranks[r].times.compute - b.ranks[r].times.compute);
    CHECK(first > 0);
    CHECK(second == doctest::Approx(2 * first).epsilon(1e-8));
  }
}
