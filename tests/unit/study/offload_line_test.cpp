// Whole runs with state off the GPU, on hardware without overheads: what the PCIe path, the memory of a socket and the
// drives give away, and who shares it. run_line also plays each run folded, and compares.
#include "sim/study/off_device.hpp"
#include "tests/unit/study/whole_line.hpp"
#include "tests/unit/workloads/shardings.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

constexpr double kPcie = 1e8;
constexpr double kMemory = 1e9;
constexpr double kDrive = 1e7;
constexpr double kCpuBytes = 8 + 28 + 6;  // per parameter: clipping, AdamW, the cast (workloads/offload_test.cpp)

std::string text(const char* value) { return value; }

ClusterSpec hosts(int nodes, int gpus, int sockets = 1, int switches = 0) {
  ClusterSpec cluster = line_cluster(nodes, gpus, 1e12, 1e12);
  NodeSpec& node = cluster.groups[0].node;
  node.sockets = sockets;
  node.switches_per_socket = switches;
  node.socket_link = wire("socket", 1e12);
  node.pcie = wire("pcie", kPcie);
  node.memory_link = wire("memory", kMemory);
  node.drives = 2;
  node.drive_read = wire("read", kDrive);
  node.drive_write = wire("write", kDrive);
  return cluster;
}

Workload offloaded(const Choice& choice, std::int64_t replicas, std::int64_t layers = 4,
                   std::int64_t micro_batches = 1) {
  ParallelismSpec parallelism = degrees(1, 1, replicas);
  parallelism.sharding = choice;
  TrainingSpec training = line_training(128, replicas * micro_batches);
  training.optimizer = {"adamw", {}};
  return workload_of(line_model(layers), training, parallelism);
}

const Choice kZero2{"zero2", {{"offload_optimizer", text("cpu")}}};

double kernel_seconds(const Workload& workload) {
  const Program& program = workload.programs[0];
  double bytes = 0;
  for (const Task& task : program.tasks()) {
    if (task.kind != TaskKind::kernels) continue;
    for (const KernelId id : program.sequence(task)) {
      bytes += static_cast<double>(workload.kernels[id.index()].bytes.count());
    }
  }
  return bytes / 1e9;
}

}  // namespace

// Without overlap_comm nothing runs beside anything: kernels, then gradients out (4 P), the CPUs' pass, weights in (2
// P).
TEST_CASE("one GPU: kernels, gradients out, the update in host memory, weights in, one after the other") {
  const Workload w = offloaded(kZero2, 1);
  const auto p = static_cast<double>(w.parameters);
  const RunResult run = run_line(hosts(1, 1), w, ideal_traffic());
  const double expected = kernel_seconds(w) + 6 * p / kPcie + kCpuBytes * p / kMemory;
  CHECK(seconds(run.step_time) == doctest::Approx(expected).epsilon(1e-3));
  CHECK(seconds(exposed(run.ranks[0], "cpu")) == doctest::Approx(kCpuBytes * p / kMemory).epsilon(1e-6));
  CHECK(seconds(exposed(run.ranks[0], "offload")) == doctest::Approx(6 * p / kPcie).epsilon(1e-6));
  CHECK(run.bytes_by_link_kind.at("memory") == doctest::Approx((6 + kCpuBytes) * p).epsilon(1e-3));
}

// Each of n ranks updates P / n. On one socket they share its memory: as long as one rank alone. On sockets of their
// own they take an n-th.
TEST_CASE("ranks of a socket share its memory, so that more of them update no faster") {
  for (const int n : {2, 4}) {
    const Workload w = offloaded(kZero2, n);
    const double alone = kCpuBytes * static_cast<double>(w.parameters) / kMemory;
    const RunResult shared = run_line(hosts(1, n), w, ideal_traffic());
    const RunResult apart = run_line(hosts(1, n, n), w, ideal_traffic());
    CHECK(seconds(exposed(shared.ranks[0], "cpu")) == doctest::Approx(alone).epsilon(1e-3));
    CHECK(seconds(exposed(apart.ranks[0], "cpu")) == doctest::Approx(alone / n).epsilon(1e-3));
  }
}

// 4 + 2 bytes of P / n each; below one switch all n go over its uplink.
TEST_CASE("GPUs below one PCIe switch share its way to the host") {
  const int n = 4;
  const Workload w = offloaded(kZero2, n);
  const double own = 6 * static_cast<double>(w.parameters) / n / kPcie;
  const RunResult ports = run_line(hosts(1, n), w, ideal_traffic());
  const RunResult below = run_line(hosts(1, n, 1, 1), w, ideal_traffic());
  CHECK(seconds(exposed(ports.ranks[0], "offload")) == doctest::Approx(own).epsilon(1e-2));
  CHECK(seconds(exposed(below.ranks[0], "offload")) == doctest::Approx(n * own).epsilon(1e-2));
}

// k equal sub-groups: read r = 16 P / k over both drives, write w = 12 P / k, update c. One after the other: k (r + c +
// w). With reads ahead, a sub-group's read runs beside the update and write of the one before: r + (k - 1) max(r, c +
// w)
// + c + w. With writes behind as well, the host waits for a write when it has the next: reads set the pace, r k + c +
// w.
TEST_CASE("state on drives: reads, updates and writes, in turn or pipelined") {
  const std::int64_t k = 4;
  Workload w = offloaded({"zero3", {}}, 1);
  const std::int64_t group = divide_up(w.parameters, k);
  const double each = static_cast<double>(w.parameters) / static_cast<double>(k);
  const double r = 16 * each / (2 * kDrive);
  const double write = 12 * each / (2 * kDrive);
  const double c = kCpuBytes * each / kMemory + 2 * each / kPcie;
  const auto update = [&](bool read_ahead, bool write_behind) {
    const Workload run_of = offloaded({"zero3",
                                       {{"offload_optimizer", text("nvme")},
                                        {"sub_group_size", group},
                                        {"stage3_param_persistence_threshold", std::int64_t{0}},
                                        {"offload_optimizer_pipeline_read", read_ahead},
                                        {"offload_optimizer_pipeline_write", write_behind}}},
                                      1);
    const RunResult run = run_line(hosts(1, 1), run_of, ideal_traffic());
    const std::vector<TaskRecord>& tasks = run.ranks[0].tasks;
    Instant begin = kNever;
    Instant end{};
    const Program& program = run_of.programs[0];
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      const Task& task = program.tasks()[t];
      if (task.kind != TaskKind::copy || task.phase != Phase::optimizer || !program.copy(task).offload) continue;
      begin = std::min(begin, tasks[t].begin);
      end = std::max(end, tasks[t].end);
    }
    return seconds(end - begin);
  };
  const auto groups = static_cast<double>(k);
  CHECK(update(false, false) == doctest::Approx(groups * (r + c + write)).epsilon(0.01));
  CHECK(update(true, false) == doctest::Approx(r + (groups - 1) * std::max(r, c + write) + c + write).epsilon(0.02));
  CHECK(update(true, true) == doctest::Approx(groups * r + c + write).epsilon(0.02));
}

TEST_CASE("every way of offloading runs, folded as unfolded, with several micro-batches and sockets") {
  for (const Choice& choice : orrery::testing::offload_choices()) {
    CAPTURE(orrery::testing::name_of(choice));
    const RunResult run = run_line(hosts(2, 4, 2, 1), offloaded(choice, 8, 2, 2), ideal_traffic());
    CHECK(run.step_time > Duration{});
    CHECK(run.bytes_by_link_kind.at("memory") > 0);
  }
}

// Half a node is left out, and one GPU is slow: ranks of a socket wait for one another.
TEST_CASE("folding tells ranks apart that share a socket with fewer or slower others") {
  for (const char* kind : {"zero2", "zero3"}) {
    const Workload w = offloaded({kind, {{"offload_optimizer", text("cpu")}}}, 6, 2, 1);
    ExecutionOptions options = ideal_traffic();
    options.slow_gpus.push_back({GpuId(1), 0.5});
    const RunResult run = run_line(hosts(2, 4, 2), w, options);
    CHECK(run.ranks.size() == 6);
    CHECK(exposed(run.ranks[5], "cpu") < exposed(run.ranks[2], "cpu") + exposed(run.ranks[2], "cpu"));
  }
}

TEST_CASE("a node of which nothing is known beside its GPUs is refused, with the key that would say it") {
  const Workload w = offloaded(kZero2, 2);
  const auto topology = Topology::build(line_cluster(1, 2, 1e12, 1e12));
  REQUIRE(topology.ok());
  const auto run = execute(*topology, w, place_in_order(w), ideal_traffic());
  REQUIRE(!run.ok());
  CHECK(run.problems()[0].key == "cluster.node.memory_link");
}

TEST_CASE("what nodes keep is added up over their ranks, and the fullest is told") {
  const Workload w = offloaded(kZero2, 6);
  ClusterSpec cluster = hosts(2, 4);
  const std::int64_t each = w.programs[0].off_device().host_memory.count();
  cluster.groups[0].node.host_memory = Bytes(4 * each - 1);
  const auto topology = Topology::build(cluster);
  REQUIRE(topology.ok());
  const auto use = off_device_use(*topology, w, place_in_order(w));
  REQUIRE(use.has_value());
  CHECK(use->node == 0);
  CHECK(use->host_memory.needed_bytes == 4 * each);
  CHECK(!use->fits());
  CHECK(!off_device_use(*topology, offloaded({"zero2", {}}, 6), place_in_order(w)).has_value());
}
