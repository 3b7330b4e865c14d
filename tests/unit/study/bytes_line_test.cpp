// Bytes by hand against the counters of whole runs: what is sent, what every link carries, and the rates that the links
// had over the step.
#include "tests/unit/study/whole_line.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

constexpr TrafficFidelity kBoth[] = {TrafficFidelity::coupled, TrafficFidelity::message};
constexpr std::int64_t kSequence = 128;
constexpr std::int64_t kHidden = 256;
constexpr std::int64_t kLayers = 4;
constexpr std::int64_t kActivation = kSequence * kHidden * 2;  // bytes, bf16
constexpr double kBandwidth = 1e8;

// What all members of a ring all-reduce send together: 2 (n - 1) rounds of n messages of 1/n each.
std::int64_t ring_bytes(std::int64_t members, std::int64_t bytes) {
  return 2 * (members - 1) * members * divide_up(bytes, members);
}

// Of `bytes` on a link, those that took bandwidth: coupled calls of up to 4 KiB an edge (kUnnoticed) take none.
std::int64_t noticed(TrafficFidelity fidelity, std::int64_t bytes, std::int64_t small) {
  return fidelity == TrafficFidelity::coupled ? bytes - small : bytes;
}

// Every NVLink of the run carried `bytes`, and `busy` of them with bandwidth of their own: so say the busiest links,
// and the mean rate over the step is that over the step time.
void check_even(const RunResult& run, std::int64_t links, std::int64_t bytes, std::int64_t busy) {
  std::int64_t found = 0;
  for (const LinkUse& use : run.busiest_links) {
    if (use.kind != "nvlink") continue;
    ++found;
    CHECK(use.bytes == busy);
    CHECK(use.utilization ==
          doctest::Approx(static_cast<double>(busy) / (kBandwidth * seconds(run.step_time))).epsilon(1e-12));
  }
  CHECK(found == links);
  CHECK(run.bytes_by_link_kind.at("nvlink") == links * bytes);
  CHECK(run.utilization_by_link_kind.at("nvlink") ==
        doctest::Approx(static_cast<double>(busy) / (kBandwidth * seconds(run.step_time))).epsilon(1e-9));
}

}  // namespace

TEST_CASE("data parallelism: every member sends and receives 2 (n - 1) / n of the gradients") {
  // Four members on one switch, each with a link out and a link in. One bucket of all parameters at 4 bytes, and the
  // loss of 4 bytes.
  constexpr std::int64_t kMembers = 4;
  ParallelismSpec parallelism = degrees(1, 1, kMembers);
  parallelism.sharding.options["bucket_elements"] = std::int64_t{1'000'000'000};
  const ModelSpec model = line_model(kLayers, kHidden);
  const Workload workload = workload_of(model, line_training(kSequence, kMembers), parallelism);
  REQUIRE(parameters(model) % kMembers == 0);
  const std::int64_t each = 2 * (kMembers - 1) * (parameters(model) * 4 / kMembers + 1);
  for (const TrafficFidelity fidelity : kBoth) {
    const RunResult run = run_line(line_cluster(1, kMembers, kBandwidth, 1e9), workload, ideal_traffic(fidelity));
    CHECK(run.traffic_by_kind.at("data").bytes == kMembers * each);
    check_even(run, 2 * kMembers, each, noticed(fidelity, each, 2 * (kMembers - 1)));
  }
}

TEST_CASE("tensor parallelism: four all-reduces of the activation in each layer and micro-batch") {
  // Forward one after attention and one after the MLP, backward the same (Shoeybi et al. 2019, section 3); one after
  // the embedding, one before the head backward; the loss reduces a maximum (4 bytes for each token), and the target's
  // logit with the denominator (8). The norm of the gradients: 4 bytes over "model".
  constexpr std::int64_t kMembers = 4;
  constexpr std::int64_t kMicroBatches = 3;
  const Workload workload =
      workload_of(line_model(kLayers, kHidden), line_training(kSequence, kMicroBatches), degrees(kMembers, 1, 1));
  const std::int64_t calls = kMicroBatches * (4 * kLayers + 2 + 2);
  const std::int64_t bytes =
      kMicroBatches * ((4 * kLayers + 2) * ring_bytes(kMembers, kActivation) + ring_bytes(kMembers, 4 * kSequence) +
                       ring_bytes(kMembers, 8 * kSequence));
  for (const TrafficFidelity fidelity : kBoth) {
    const RunResult run = run_line(line_cluster(1, kMembers, kBandwidth, 1e9), workload, ideal_traffic(fidelity));
    CHECK(run.traffic_by_kind.at("tensor").messages == calls * 2 * (kMembers - 1) * kMembers);
    CHECK(run.traffic_by_kind.at("tensor").bytes == bytes);
    CHECK(run.traffic_by_kind.at("model").bytes == ring_bytes(kMembers, 4));
    const std::int64_t small =
        kMicroBatches * (ring_bytes(kMembers, 4 * kSequence) + ring_bytes(kMembers, 8 * kSequence)) +
        ring_bytes(kMembers, 4);
    const std::int64_t each = (bytes + ring_bytes(kMembers, 4)) / kMembers;
    check_even(run, 2 * kMembers, each, noticed(fidelity, each, small / kMembers));
  }
}

TEST_CASE("pipelines: an activation and a gradient over every boundary and micro-batch") {
  // p stages of one GPU each have p v - 1 boundaries between virtual stages. Every byte leaves by one NIC port and
  // arrives by another, as do the 4 bytes of the norm round the ring.
  struct Plan {
    std::string schedule;
    std::int64_t chunks;
  };
  constexpr std::int64_t kStages = 4;
  constexpr std::int64_t kMicroBatches = 8;
  for (const Plan& plan : {Plan{"gpipe", 1}, Plan{"1f1b", 1}, Plan{"interleaved-1f1b", 2}}) {
    CAPTURE(plan.schedule);
    ParallelismSpec parallelism = degrees(1, kStages, 1);
    parallelism.schedule.kind = plan.schedule;
    if (plan.chunks > 1) parallelism.schedule.options["virtual_stages"] = plan.chunks;
    const Workload workload = workload_of(line_model(8, kHidden), line_training(kSequence, kMicroBatches), parallelism);
    const std::int64_t messages = 2 * kMicroBatches * (kStages * plan.chunks - 1);
    for (const TrafficFidelity fidelity : kBoth) {
      const RunResult run = run_line(line_cluster(kStages, 1, 0, kBandwidth), workload, ideal_traffic(fidelity));
      const TrafficCount& count = run.traffic_by_kind.at("pipeline");
      CHECK(count.messages == messages);
      CHECK(count.bytes == messages * kActivation);
      const std::int64_t total = count.bytes + ring_bytes(kStages, 4);
      CHECK(run.bytes_by_link_kind.at("nic") == 2 * total);
      const double ports = 2 * kStages;
      CHECK(run.utilization_by_link_kind.at("nic") ==
            doctest::Approx(2 * static_cast<double>(noticed(fidelity, total, ring_bytes(kStages, 4))) /
                            (ports * kBandwidth * seconds(run.step_time)))
                .epsilon(1e-9));
    }
  }
}

TEST_CASE("in all three dimensions together, every byte between nodes leaves one port and enters one") {
  // Nodes of two GPUs hold a tensor pair; data and pipeline cross between nodes. So the NIC ports carry twice what
  // those kinds send, and of "model" (tensor x pipeline: rings of 4 over two nodes) two hops of four.
  const Workload workload = workload_of(line_model(kLayers, kHidden), line_training(kSequence, 8), degrees(2, 2, 2));
  for (const TrafficFidelity fidelity : kBoth) {
    const RunResult run = run_line(line_cluster(4, 2, kBandwidth, kBandwidth), workload, ideal_traffic(fidelity));
    const std::int64_t data = run.traffic_by_kind.at("data").bytes;
    const std::int64_t pipeline = run.traffic_by_kind.at("pipeline").bytes;
    const std::int64_t model = run.traffic_by_kind.at("model").bytes;
    // 4 pairs of stages x 4 micro-batches x both ways.
    CHECK(pipeline == 4 * 4 * 2 * kActivation);
    CHECK(model == 2 * ring_bytes(4, 4));
    CHECK(run.bytes_by_link_kind.at("nic") == 2 * (data + pipeline + model / 2));
    CHECK(run.bytes_by_link_kind.at("nvlink") == 2 * (run.traffic_by_kind.at("tensor").bytes + model / 2));
  }
}
