// The bubble of pipeline schedules, from whole runs: Huang et al. 2019 (GPipe), Narayanan et al. 2021 (1F1B and its
// interleaved form): with p stages, m micro-batches and v chunks per stage of equal time, a stage is idle for
// (p - 1) / (v m) of the time that it computes.
#include "tests/unit/study/whole_line.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

// Attention's loads reach a millionth of bandwidth, those of everything else all of it: a layer then takes what its
// attention takes, and embedding, head, gradients and update (which have none) nothing next to it.
GpuSpec attention_bound() {
  GpuSpec gpu = steady_gpu();
  gpu.kernels.memory_rate.fill(1);
  gpu.kernels.memory_rate[static_cast<std::size_t>(KernelKind::attention_forward)] = 1e-6;
  gpu.kernels.memory_rate[static_cast<std::size_t>(KernelKind::attention_backward)] = 1e-6;
  return gpu;
}

struct Pipeline {
  std::string schedule;
  std::int64_t stages;
  std::int64_t micro_batches;
  std::int64_t chunks = 1;
};

constexpr std::int64_t kLayersPerChunk = 2;
constexpr std::int64_t kSequence = 512;

Workload pipeline_workload(const Pipeline& p) {
  ParallelismSpec parallelism = degrees(1, p.stages, 1);
  parallelism.schedule.kind = p.schedule;
  if (p.chunks > 1) parallelism.schedule.options["virtual_stages"] = p.chunks;
  return workload_of(line_model(kLayersPerChunk * p.stages * p.chunks), line_training(kSequence, p.micro_batches),
                     parallelism);
}

// The attention of one layer, alone.
double attention_seconds(const Workload& workload, KernelKind kind, const GpuSpec& gpu) {
  Duration sum{};
  int kernels = 0;
  for (const Kernel& kernel : workload.kernels) {
    if (kernel.kind != kind) continue;
    sum += time_alone(kernel, gpu);
    ++kernels;
  }
  REQUIRE(kernels == 1);  // kernels are interned: one for all layers
  return seconds(sum);
}

}  // namespace

TEST_CASE("a pipeline of equal stages without transfer times idles for (p - 1) / (v m) of its compute") {
  // Compute of a stage: C = m v c, with c = 2 layers x (forward + backward attention). The last stage starts after the
  // p - 1 forward passes before it and the first ends after the p - 1 backward passes behind it, of a chunk each, so
  // the step takes C + (p - 1) c, whatever the split of c into forward and backward, and the idle share of compute is
  // (p - 1) c / (m v c).
  //
  // What the bound leaves out: all other kernels, at most 60 passes over the activation of a layer where attention
  // reads it at least 4 times at 1e-6 of the rate (60 / 4 x 1e-6), and transfers, once over it at 100 times the memory
  // rate. 1e-4 covers both, in m + p - 1 rounds alike.
  const std::vector<Pipeline> all{
      {"gpipe", 2, 2},
      {"gpipe", 2, 8},
      {"gpipe", 4, 1},
      {"gpipe", 4, 4},
      {"gpipe", 4, 12},
      {"gpipe", 8, 16},
      {"1f1b", 2, 2},
      {"1f1b", 2, 8},
      {"1f1b", 4, 1},
      {"1f1b", 4, 4},
      {"1f1b", 4, 12},
      {"1f1b", 8, 16},
      {"1f1b", 3, 7},
      {"1f1b", 4, 2},
      {"interleaved-1f1b", 2, 2, 2},
      {"interleaved-1f1b", 2, 8, 3},
      {"interleaved-1f1b", 4, 4, 2},
      {"interleaved-1f1b", 4, 16, 2},
      {"interleaved-1f1b", 4, 8, 4},
      {"interleaved-1f1b", 8, 16, 2},
  };
  const GpuSpec gpu = attention_bound();
  for (const Pipeline& p : all) {
    CAPTURE(p.schedule);
    CAPTURE(p.stages);
    CAPTURE(p.micro_batches);
    CAPTURE(p.chunks);
    const Workload workload = pipeline_workload(p);
    const RunResult run =
        run_line(line_cluster(static_cast<int>(p.stages), 1, 0, 1e14, gpu), workload, ideal_traffic());
    const double layers = kLayersPerChunk;
    const double backward = layers * attention_seconds(workload, KernelKind::attention_backward, gpu);
    const double c = backward + layers * attention_seconds(workload, KernelKind::attention_forward, gpu);
    const auto passes = static_cast<double>(p.micro_batches * p.chunks);
    const auto behind = static_cast<double>(p.stages - 1);
    const double step = seconds(run.step_time);
    CHECK(step == doctest::Approx((passes + behind) * c).epsilon(1e-4));
    for (const RankResult& rank : run.ranks) {
      const double compute = seconds(rank.times.compute);
      CHECK(compute == doctest::Approx(passes * c).epsilon(1e-4));
      CHECK((step - compute) / compute == doctest::Approx(behind / passes).epsilon(2e-3));
      // All of it is waiting for other stages: for neighbours and, at the end, in the all-reduce of the gradients' norm
      // for the first stage, which does the last backward pass.
      CHECK(seconds(rank.times.bubble) == doctest::Approx(behind * c).epsilon(2e-3));
      CHECK(rank.times.waiting == Duration{});
    }
  }
}

TEST_CASE("GPipe and 1F1B take the same time, and 1F1B holds fewer activations") {
  const GpuSpec gpu = attention_bound();
  const ClusterSpec cluster = line_cluster(4, 1, 0, 1e14, gpu);
  const RunResult gpipe = run_line(cluster, pipeline_workload(Pipeline{"gpipe", 4, 12}), ideal_traffic());
  const RunResult alternating = run_line(cluster, pipeline_workload(Pipeline{"1f1b", 4, 12}), ideal_traffic());
  CHECK(seconds(gpipe.step_time) == doctest::Approx(seconds(alternating.step_time)).epsilon(1e-6));
  // Stage s holds min(p - s, m) micro-batches' activations in 1F1B, m in GPipe.
  const auto activations = [](const RunResult& run, std::size_t r) {
    return run.ranks[r].memory.by_tag[static_cast<std::size_t>(MemoryTag::activations)];
  };
  for (std::size_t r = 0; r < 4; ++r) CHECK(activations(alternating, r) < activations(gpipe, r));
}
