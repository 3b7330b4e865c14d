// Layers of experts and split sequences in whole runs on hardware without overheads. Every run is also run folded, and
// must say the same (run_line).
#include "sim/exec/kernel_time.hpp"
#include "tests/unit/study/whole_line.hpp"
#include "workloads/registry.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

ModelSpec with_experts(std::int64_t experts, std::int64_t top_k) {
  ModelSpec m = line_model(2);
  m.experts = experts;
  m.top_k = top_k;
  m.expert_ffn_hidden = 512;
  return m;
}

ParallelismSpec spread(std::int64_t expert, std::int64_t data) {
  ParallelismSpec p = degrees(1, 1, data);
  p.expert = expert;
  return p;
}

Workload built(const ModelSpec& m, const TrainingSpec& t, const ParallelismSpec& p, std::int64_t ranks) {
  auto workload = build_workload(m, t, p, ranks);
  if (!workload) FAIL(first_message(workload.problems()));
  return std::move(workload).value();
}

TrainingSpec given(TrainingSpec training, const std::string& shares) {
  training.routing = {"given", {{"shares", OptionValue(shares)}}};
  return training;
}

// What a rank's kernels take on the steady GPU.
double kernel_seconds(const Workload& w, std::size_t rank) {
  const Program& program = w.programs[w.role_of[rank].index()];
  const GpuSpec gpu = steady_gpu();
  double sum = 0;
  for (const Task& task : program.tasks()) {
    if (task.kind != TaskKind::kernels) continue;
    for (const KernelId id : program.sequence(task)) sum += seconds(time_alone(w.kernels[id.index()], gpu));
  }
  return sum;
}

constexpr double kFast = 1e15;  // bytes a second: nothing

}  // namespace

TEST_CASE("skewed routing makes everybody wait for the rank with the popular experts") {
  // Half of all rows go to the first of four ranks, twice its even share. With links that take no time, everybody waits
  // for it in each layer, forward and backward, and it waits for nobody: the step is its kernels' time.
  const ModelSpec m = with_experts(4, 1);
  const TrainingSpec even = line_training(1024, 4);
  const TrainingSpec skewed = given(even, "3,1,1,1");
  const Workload w = built(m, skewed, spread(4, 4), 4);
  const RunResult run = run_line(line_cluster(1, 4, kFast, kFast), w, ideal_traffic());
  const double heaviest = kernel_seconds(w, 0);
  CHECK(heaviest > kernel_seconds(w, 1) * 1.1);
  CHECK(seconds(run.step_time) == doctest::Approx(heaviest).epsilon(1e-3));
  const Workload fair = built(m, even, spread(4, 4), 4);
  const RunResult without = run_line(line_cluster(1, 4, kFast, kFast), fair, ideal_traffic());
  CHECK(seconds(run.step_time - without.step_time) ==
        doctest::Approx(heaviest - kernel_seconds(fair, 0)).epsilon(1e-3));
}

TEST_CASE("zig-zag ends the step sooner than contiguous parts, by what the last rank has too much") {
  ModelSpec m = line_model(2);
  const TrainingSpec t = line_training(2048, 1);
  ParallelismSpec p = degrees(1, 1, 1);
  p.context = 4;
  p.context_kind = {"ring", {{"zig_zag", OptionValue(false)}}};
  const Workload contiguous = built(m, t, p, 4);
  const RunResult slow = run_line(line_cluster(1, 4, kFast, kFast), contiguous, ideal_traffic());
  CHECK(seconds(slow.step_time) == doctest::Approx(kernel_seconds(contiguous, 3)).epsilon(1e-2));
  p.context_kind = {"ring", {}};
  const Workload even = built(m, t, p, 4);
  const RunResult fast = run_line(line_cluster(1, 4, kFast, kFast), even, ideal_traffic());
  CHECK(seconds(fast.step_time) == doctest::Approx(kernel_seconds(even, 0)).epsilon(1e-2));
}

TEST_CASE("folded runs say the same of split sequences, at both fidelities") {
  const TrainingSpec t = line_training(256, 4);
  for (const RegistryRow& row : context_rows()) {
    for (const bool zig_zag : {true, false}) {
      ParallelismSpec p = degrees(1, 1, 2);
      p.context = 4;
      p.context_kind.kind = row.name;
      if (!row.options.empty()) p.context_kind.options["zig_zag"] = zig_zag;
      for (const TrafficFidelity fidelity : {TrafficFidelity::coupled, TrafficFidelity::message}) {
        CAPTURE(row.name);
        const RunResult run =
            run_line(line_cluster(2, 4, 300e9, 25e9), built(line_model(2), t, p, 8), ideal_traffic(fidelity));
        CHECK(run.traffic_by_kind.at("context").bytes > 0);
      }
    }
  }
}

TEST_CASE("folded runs say the same of experts, even and uneven, at both fidelities") {
  const ModelSpec m = with_experts(8, 2);
  const TrainingSpec even = line_training(64, 16);
  for (const RegistryRow& row : dispatch_rows()) {
    for (const bool skewed : {false, true}) {
      ParallelismSpec p = spread(8, 16);
      p.dispatch.kind = row.name;
      if (row.name == "hierarchical") {
        if (skewed) continue;
        p.dispatch.options["ranks_per_node"] = std::int64_t{4};
      }
      const TrainingSpec t = skewed ? given(even, "5,4,3,3,2,2,1,0") : even;
      for (const TrafficFidelity fidelity : {TrafficFidelity::coupled, TrafficFidelity::message}) {
        CAPTURE(row.name);
        CAPTURE(skewed);
        run_line(line_cluster(4, 4, 300e9, 25e9), built(m, t, p, 16), ideal_traffic(fidelity));
      }
    }
  }
}

TEST_CASE("an uneven all-to-all moves as many bytes as an even one, and lasts as long as its heaviest part") {
  // One layer's dispatch dominates: nodes of one GPU with slow ports. 1,024 rows of 256 columns, 2 bytes: 512 KiB from
  // each of four ranks. Half of it goes to rank 0 (twice the even share), from three others: 3 x 256 KiB through its
  // port, against 3 x 128 KiB.
  const ModelSpec m = with_experts(4, 1);
  const TrainingSpec even = line_training(1024, 4);
  const auto run = [&](const TrainingSpec& t, TrafficFidelity fidelity) {
    return run_line(line_cluster(4, 1, 1e9, 1e8), built(m, t, spread(4, 4), 4), ideal_traffic(fidelity));
  };
  for (const TrafficFidelity fidelity : {TrafficFidelity::coupled, TrafficFidelity::message}) {
    const RunResult fair = run(even, fidelity);
    const RunResult skewed = run(given(even, "3,1,1,1"), fidelity);
    const TrafficCount& a = fair.traffic_by_kind.at("expert");
    const TrafficCount& b = skewed.traffic_by_kind.at("expert");
    CHECK(a.messages == b.messages);
    // Of what leaves ranks: 3/4 of all rows when even; with shares of 1/2, 1/6, 1/6, 1/6 a part w of each rank's rows
    // stays on the rank with share w, so that 4 - 1 of 4 leave all the same.
    CHECK(static_cast<double>(b.bytes) == doctest::Approx(static_cast<double>(a.bytes)).epsilon(1e-3));
    const double part = 3 * 128.0 * 1024 / 1e8;  // of one journey through a port, even
    // Four journeys in each of two layers, each lasting twice as long.
    CHECK(seconds(skewed.step_time - fair.step_time) == doctest::Approx(8 * part).epsilon(0.1));
  }
}
