// Every pipeline schedule through the whole simulator: on equal stages without transfer times a step takes what its
// table of slots takes on paper (tests/unit/workloads/ideal_schedule_test.cpp has the papers' bubbles), and folded runs
// tell the same as unfolded ones.
#include "tests/unit/study/whole_line.hpp"
#include "workloads/schedules/ideal.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

// Products reach a hundred-thousandth of memory bandwidth, everything else all of it. Unfused, a product and the two
// products of its gradients move the same bytes, so that forward pass, input half and weight half take the same time.
GpuSpec product_bound() {
  GpuSpec gpu = steady_gpu();
  gpu.kernels.memory_rate.fill(1);
  gpu.kernels.memory_rate[static_cast<std::size_t>(KernelKind::gemm)] = 1e-5;
  return gpu;
}

constexpr std::int64_t kLayersPerChunk = 2;

// Few tokens and a wide model: the head's product, of a hidden x 8 table, is small beside those of hidden x hidden
// ones.
Workload step_of(const std::string& kind, std::int64_t stages, std::int64_t micro_batches,
                 std::int64_t virtual_stages) {
  ModelSpec model = line_model(kLayersPerChunk * virtual_stages, 16384);
  TrainingSpec training = line_training(16, micro_batches);
  training.framework.fused_kernels = false;
  ParallelismSpec parallelism = degrees(1, stages, 1);
  parallelism.schedule.kind = kind;
  return workload_of(model, training, parallelism);
}

// The forward products of a chunk.
double unit_of(const Workload& workload, const GpuSpec& gpu) {
  Duration sum{};
  for (const Kernel& kernel : workload.kernels) {
    if (kernel.kind == KernelKind::gemm && kernel.name.ends_with(".forward") && kernel.name != "logits.forward") {
      sum += time_alone(kernel, gpu);
    }
  }
  return kLayersPerChunk * seconds(sum);
}

}  // namespace

TEST_CASE("a step of every schedule takes what its table takes on paper") {
  // What the bound leaves out, of each of the 3 m passes through a chunk: the head, (16 + 16 / h + 8) h against (12 h^2
  // + 26 x 16 h) 2 elements, 6e-5; the addition of the weights' gradients, 12 bytes against 2 at 1e-5 of the rate,
  // 6e-5; everything else is less. And once a step the update, 30 passes over the weights or so: 30 / 2 x 1e-5.
  const GpuSpec gpu = product_bound();
  for (const RegistryRow& row : schedule_rows()) {
    const ScheduleRow& schedule_row = *find_schedule(row.name);
    if (schedule_row.slots == nullptr) continue;
    for (const auto& shape : {std::pair{2, 4}, std::pair{4, 8}, std::pair{4, 12}}) {
      const int stages = shape.first;
      const int micro_batches = shape.second;
      const std::string kind(row.name);
      CAPTURE(kind);
      CAPTURE(stages);
      CAPTURE(micro_batches);
      const Schedule schedule = make_schedule({kind, {}}, stages, micro_batches).value();
      const Workload workload = step_of(kind, stages, micro_batches, schedule.placement.virtual_stages());
      const RunResult run =
          run_line(line_cluster(static_cast<int>(stages), 1, 0, 1e14, gpu), workload, ideal_traffic());
      const IdealRun ideal = play_ideally(schedule);
      const double unit = unit_of(workload, gpu);
      const double passes = static_cast<double>(ideal.busy(0));
      CHECK(std::abs(seconds(run.step_time) / unit - static_cast<double>(ideal.step())) < 3e-4 * passes);
      for (const RankResult& rank : run.ranks) {
        CHECK(seconds(rank.times.compute) / unit == doctest::Approx(passes).epsilon(3e-4));
      }
    }
  }
}

TEST_CASE("folded runs of every schedule tell of every rank what unfolded ones tell") {
  for (const RegistryRow& row : schedule_rows()) {
    if (find_schedule(row.name)->slots == nullptr) continue;
    for (const char* sharding : {"none", "distributed-optimizer"}) {
      CAPTURE(row.name);
      CAPTURE(sharding);
      ModelSpec model = line_model(8);
      model.tied_embeddings = true;
      ParallelismSpec parallelism = degrees(2, 4, 2);
      parallelism.schedule.kind = row.name;
      parallelism.sharding.kind = sharding;
      parallelism.sequence_parallel = true;
      const Workload workload = workload_of(model, line_training(128, 16), parallelism);
      const ClusterSpec cluster = line_cluster(8, 2, 3e11, 2.5e10);
      ExecutionOptions options;
      options.launch = Duration(4'000'000);
      const RunResult run = run_line(cluster, workload, options);  // compares the two
      CHECK(run.step_time > Duration{});
    }
  }
}

TEST_CASE("a pair that takes turns hides rows that travel to experts behind the other's kernels") {
  struct Paired {
    const char* kind;
    std::string_view option;
    std::int64_t pipeline;
  };
  for (const Paired& paired : {Paired{"dualpipe", "overlap_pairs", 2}, Paired{"dualpipe-v", "overlap_pairs", 2},
                               Paired{"interleaved-1f1b", kOverlapExperts, 2}, Paired{"1f1b", kOverlapExperts, 1}}) {
    CAPTURE(paired.kind);
    ModelSpec model = line_model(8);
    model.experts = 8;
    model.top_k = 2;
    model.expert_ffn_hidden = model.ffn_hidden;
    ParallelismSpec parallelism = degrees(1, paired.pipeline, 4);
    parallelism.expert = 4;
    parallelism.schedule.kind = paired.kind;
    const ClusterSpec cluster = line_cluster(static_cast<int>(paired.pipeline), 4, 6e7, 2.5e10);
    const auto step = [&](bool turns) {
      parallelism.schedule.options[std::string(paired.option)] = turns;
      return run_line(cluster, workload_of(model, line_training(512, 64), parallelism), {});  // folded and not
    };
    const RunResult turns = step(true);
    const RunResult serial = step(false);
    CHECK(turns.step_time < serial.step_time);
    // What is saved is waiting for experts; that of the norm and the embedding is no concern of pairs.
    const auto waits = [](const RunResult& run) {
      Duration sum{};
      for (const RankResult& rank : run.ranks) {
        const auto found = rank.times.exposed_communication.find("expert");
        if (found != rank.times.exposed_communication.end()) sum += found->second;
      }
      return sum;
    };
    CHECK(waits(turns) < waits(serial) / 2);
  }
}
