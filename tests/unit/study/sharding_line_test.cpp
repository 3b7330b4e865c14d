// Whole runs of sharded models on hardware without overheads: what each option does to the time, and how far apart FSDP
// and ZeRO-3 are when everything is taken away in which they differ.
#include "tests/unit/study/whole_line.hpp"
#include "tests/unit/workloads/shardings.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

constexpr std::int64_t kReplicas = 4;
constexpr std::int64_t kLayers = 4;

using Options = std::map<std::string, OptionValue>;

Workload sharded(const Choice& choice, std::int64_t micro_batches = 1) {
  ParallelismSpec parallelism = degrees(1, 1, kReplicas);
  parallelism.sharding = choice;
  return workload_of(line_model(kLayers), line_training(128, kReplicas * micro_batches), parallelism);
}

RunResult run_at(double bandwidth, const Workload& workload) {
  return run_line(line_cluster(1, kReplicas, bandwidth, 1e9), workload, ideal_traffic());
}

double step_seconds(double bandwidth, const Choice& choice, std::int64_t micro_batches = 1) {
  return seconds(run_at(bandwidth, sharded(choice, micro_batches)).step_time);
}

Options with(Options options, const Options& more) {
  for (const auto& [name, value] : more) options[name] = value;
  return options;
}

// Seconds of all kernels of a program at the steady GPU's 1 GB/s, one after the other.
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

// Seconds of a ring's messages over all collectives: n - 1 rounds of an n-th for a gather or a scatter, twice as many
// for a sum.
double communication_seconds(const Workload& workload, double bandwidth) {
  const Program& program = workload.programs[0];
  double sum = 0;
  for (const Task& task : program.tasks()) {
    if (task.kind != TaskKind::collective) continue;
    const CollectiveCall& call = program.collective(task);
    const double rounds = (call.op == CollectiveOp::all_reduce ? 2.0 : 1.0) * (kReplicas - 1);
    sum += rounds * static_cast<double>(divide_up(call.bytes.count(), kReplicas)) / bandwidth;
  }
  return sum;
}

// Links from those that hide everything to those that everything waits for.
constexpr double kBandwidths[] = {1e13, 1e9, 3e8, 1e8, 1e6};

// Gathers and releases of every operator by itself, in both frameworks.
const Options kZeroAlone{{"stage3_param_persistence_threshold", std::int64_t{0}},
                         {"stage3_prefetch_bucket_size", std::int64_t{0}},
                         {"stage3_max_reuse_distance", std::int64_t{0}},
                         {"reduce_bucket_size", std::int64_t{1}}};
const Options kFsdpAlone{{"version", std::int64_t{1}},
                         {"wrap", std::string("size")},
                         {"min_elements", std::int64_t{1}},
                         {"backward_prefetch", std::string("none")},
                         {"inflight_all_gathers", std::int64_t{1}}};

}  // namespace

TEST_CASE("every way of sharding runs folded as unfolded, and takes no less than its kernels or its messages") {
  for (const Choice& choice : testing::sharding_choices()) {
    CAPTURE(testing::name_of(choice));
    const Workload workload = sharded(choice, 2);
    const RunResult run = run_at(5e10, workload);  // compares both
    CHECK(seconds(run.step_time) >= kernel_seconds(workload) * 0.999999);
  }
}

// What more overlap may cost is copies: ZeRO-3 gathers several parameters through a buffer.
TEST_CASE("without prefetching, or with fewer in flight, no run is faster by more than the copies that it saves") {
  struct Pair {
    Choice more;
    Choice less;
  };
  const auto fsdp = [](std::int64_t version, Options options) {
    options["version"] = version;
    return Choice{"fsdp", std::move(options)};
  };
  const std::int64_t one = 1;
  const std::vector<Pair> pairs{
      {fsdp(1, {}), fsdp(1, {{"backward_prefetch", std::string("none")}})},
      {fsdp(1, {}), fsdp(1, {{"backward_prefetch", std::string("post")}})},
      {fsdp(1, {}), fsdp(1, {{"inflight_all_gathers", one}})},
      {fsdp(1, {{"limit_all_gathers", false}}), fsdp(1, {})},
      {fsdp(2, {}), fsdp(2, {{"backward_prefetch", std::string("none")}})},
      {fsdp(2, {{"reshard_after_forward", false}}), fsdp(2, {})},
      {{"zero3", with(kZeroAlone, {{"stage3_prefetch_bucket_size", std::int64_t{1'000'000}}})}, {"zero3", kZeroAlone}},
      {{"zero3", kZeroAlone}, {"zero3", with(kZeroAlone, {{"overlap_comm", false}})}},
      {{"zero3", with(kZeroAlone, {{"stage3_max_reuse_distance", std::int64_t{10'000'000}}})}, {"zero3", kZeroAlone}},
      {{"zero2", {{"overlap_comm", true}, {"reduce_bucket_size", std::int64_t{300'000}}}},
       {"zero2", {{"reduce_bucket_size", std::int64_t{300'000}}}}},
  };
  for (const Pair& pair : pairs) {
    CAPTURE(testing::name_of(pair.less));
    const Workload more = sharded(pair.more);
    const Workload less = sharded(pair.less);
    const double copies = std::max(0.0, kernel_seconds(more) - kernel_seconds(less));
    for (const double bandwidth : kBandwidths) {
      CAPTURE(bandwidth);
      CHECK(seconds(run_at(bandwidth, more).step_time) <=
            seconds(run_at(bandwidth, less).step_time) * (1 + 1e-9) + copies);
    }
  }
}

TEST_CASE("no_sync saves all reductions but the last micro-batch's") {
  for (const std::int64_t version : {1, 2}) {
    const Options options{{"version", version}};
    const double slow = 1e6;
    const double each = step_seconds(slow, {"fsdp", options}, 3);
    const double once = step_seconds(slow, {"fsdp", with(options, {{"no_sync", true}})}, 3);
    // Two of three micro-batches' gradients: 3/4 of 2 bytes each, over links that nothing hides.
    const double gradients = 0.75 * 2 * static_cast<double>(parameters(line_model(kLayers))) / slow;
    CHECK(each - once == doctest::Approx(2 * gradients).epsilon(0.02));
  }
}

// With prefetch off, one gather in flight and the same units on both sides the two frameworks issue the same messages.
// ZeRO-3 without overlap_comm has everything in one stream, kernels and messages one after the other:
//   t(ZeRO-3) = K(ZeRO-3) + C.
// FSDP differs in its kernels (copies and casts), and in what it still hides: reductions, which have a stream of their
// own; a gather beside what is left to compute behind the unit before it (the backward pass of an activation or of
// attention, which have no parameters and so belong to no unit); casts beside messages. So
//   t(ZeRO-3) - t(FSDP) - (K(ZeRO-3) - K(FSDP)) = what it hides,
// which is between nothing and the shorter of its messages and its kernels; at both ends, where one of these is small
// against the step, the two times are the same but for the kernels.
TEST_CASE("FSDP and ZeRO-3 converge when neither prefetches: what is left is what FSDP hides, and its copies") {
  const Workload zero = sharded({"zero3", with(kZeroAlone, {{"overlap_comm", false}})});
  const Workload fsdp = sharded({"fsdp", kFsdpAlone});
  const double kernels_zero = kernel_seconds(zero);
  const double kernels_fsdp = kernel_seconds(fsdp);
  for (const double bandwidth : kBandwidths) {
    CAPTURE(bandwidth);
    const double messages = communication_seconds(zero, bandwidth);
    CHECK(communication_seconds(fsdp, bandwidth) == doctest::Approx(messages).epsilon(1e-3));
    const double t_zero = seconds(run_at(bandwidth, zero).step_time);
    const double t_fsdp = seconds(run_at(bandwidth, fsdp).step_time);
    CHECK(t_zero == doctest::Approx(kernels_zero + messages).epsilon(2e-3));
    const double hidden = t_zero - t_fsdp - (kernels_zero - kernels_fsdp);
    CHECK(hidden >= -2e-3 * t_zero);
    CHECK(hidden <= std::min(messages, kernels_fsdp) + 2e-3 * t_zero);
    if (bandwidth == kBandwidths[0] || bandwidth == kBandwidths[4]) CHECK(hidden <= 2e-3 * t_zero);
  }
}
