// More hardware does not make a collective slower: NICs one by one, faster NICs, faster NVLink and PCIe. Under forced
// algorithms: what NCCL chooses follows its own view of the machine (collective_choice_test.cpp).
#include <algorithm>
#include <functional>

#include "tests/unit/exec/collective_machines.hpp"

namespace orrery {
namespace {

using namespace testing;

struct Call {
  CollectiveOp op;
  std::int64_t bytes;
};

std::vector<Call> calls() {
  std::vector<Call> all;
  for (const CollectiveOp op : {CollectiveOp::all_reduce, CollectiveOp::all_gather, CollectiveOp::all_to_all}) {
    for (const std::int64_t bytes : {std::int64_t{64} << 10, std::int64_t{4} << 20, std::int64_t{256} << 20}) {
      all.push_back({op, bytes});
    }
  }
  return all;
}

// The times of all calls under a forced algorithm, in seconds.
std::vector<double> times_on(const ClusterSpec& cluster, const std::string& algorithm, const std::string& protocol) {
  const Topology topology = build(cluster);
  std::vector<double> times;
  for (const Call& call : calls()) {
    times.push_back(to_seconds(time_of(topology, all_gpus(topology), call.op, call.bytes,
                                       options_of(TrafficFidelity::coupled, algorithm, protocol))));
  }
  return times;
}

// The most by which `better` is slower than `worse`, as a fraction.
double harm(const std::vector<double>& worse, const std::vector<double>& better) {
  double most = 0;
  for (std::size_t i = 0; i < worse.size(); ++i) most = std::max(most, better[i] / worse[i] - 1);
  return most;
}

const std::vector<std::pair<std::string, NodeSpec>>& nodes() {
  static const std::vector<std::pair<std::string, NodeSpec>> all{
      {"dgx-a100", dgx_a100()}, {"dgx-h100", dgx_h100()}, {"dgx1-v100", dgx1_v100()}, {"pcie", pcie_box()}};
  return all;
}

// What one NIC more may cost, as measured. Rings: on a mesh, whose cycles NICs share unevenly when there are seven.
// Trees: NCCL runs 28 blocks on seven NICs of an H100 node (channels of 45 GB/s, doubled once more) and 16 on eight,
// and a tree's first chunks travel at a block's speed.
double tolerance(const std::string& algorithm) { return algorithm == "ring" ? 0.07 : 0.45; }

TEST_CASE("one NIC more makes no collective slower") {
  for (const auto& each_name : nodes()) {
    const auto& name = each_name.first;
    const auto& base = each_name.second;
    for (const std::string algorithm : {"ring", "tree"}) {
      for (const int count : {2, 3}) {
        std::vector<double> before;
        for (int nics = 1; nics <= 12; ++nics) {
          NodeSpec node = base;
          node.nics = nics;
          const std::vector<double> now = times_on(cluster_of(node, count), algorithm, "simple");
          CAPTURE(name);
          CAPTURE(algorithm);
          CAPTURE(count);
          CAPTURE(nics);
          if (!before.empty()) {
            CHECK(harm(before, now) < tolerance(algorithm));
          }
          before = now;
        }
      }
    }
  }
}

TEST_CASE("twice the NICs carry rings twice as fast, up to one for each GPU") {
  // An all-reduce of 256 MiB over two DGX A100 on `nics` NICs of 24.6 GB/s: 2 x 15/16 of the buffer out of each node,
  // 1.875 x 2^28 / (nics x 24.6e9) s, whatever PCIe switch they sit on; latencies and the last fill add less than 5 %.
  for (int nics = 1; nics <= 8; ++nics) {
    NodeSpec node = dgx_a100();
    node.nics = nics;
    const double least = 1.875 * (1 << 28) / (nics * 24.6e9);
    const Topology topology = build(cluster_of(node, 2));
    for (const TrafficFidelity fidelity : {TrafficFidelity::coupled, TrafficFidelity::message}) {
      const double time = to_seconds(time_of(topology, all_gpus(topology), CollectiveOp::all_reduce, 1 << 28,
                                             options_of(fidelity, "ring", "simple")));
      CAPTURE(nics);
      CHECK(time >= least);
      CHECK(time < 1.05 * least);
    }
  }
}

TEST_CASE("faster links make no collective slower") {
  const std::vector<std::pair<std::string, std::function<void(NodeSpec&)>>> changes{
      {"nic", [](NodeSpec& node) { node.nic.bandwidth = node.nic.bandwidth * 2; }},
      {"nvlink", [](NodeSpec& node) { node.nvlink.bandwidth = node.nvlink.bandwidth * 2; }},
      {"pcie", [](NodeSpec& node) { node.pcie.bandwidth = node.pcie.bandwidth * 2; }}};
  for (const auto& each_name : nodes()) {
    const auto& name = each_name.first;
    const auto& base = each_name.second;
    for (const std::string algorithm : {"ring", "tree"}) {
      for (const int count : {1, 2, 3}) {
        const std::vector<double> before = times_on(cluster_of(base, count), algorithm, "auto");
        for (const auto& each_what : changes) {
          const auto& what = each_what.first;
          const auto& change = each_what.second;
          NodeSpec node = base;
          change(node);
          CAPTURE(name);
          CAPTURE(algorithm);
          CAPTURE(count);
          CAPTURE(what);
          CHECK(harm(before, times_on(cluster_of(node, count), algorithm, "auto")) < 0.02);
        }
      }
    }
  }
}

}  // namespace
}  // namespace orrery
