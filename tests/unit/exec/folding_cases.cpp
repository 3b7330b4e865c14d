#include "tests/unit/exec/folding_cases.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "sim/base/random.hpp"
#include "sim/exec/collectives/algorithm.hpp"
#include "tests/unit/exec/executor_fixtures.hpp"

namespace orrery::test {

std::optional<fuzz::SmallCase> random_case(std::uint64_t seed) {
  RandomStream random(seed);
  std::vector<std::uint8_t> bytes(100 + seed % 500);
  for (std::uint8_t& byte : bytes) byte = static_cast<std::uint8_t>(random.below(256));
  return fuzz::draw_small_case(bytes);
}

namespace {

class Twins {
 public:
  explicit Twins(std::uint64_t seed) : random_(seed, "twins") {}

  std::optional<fuzz::SmallCase> draw() { return draw_on(draw_cluster()); }

  std::optional<fuzz::SmallCase> draw_cables() {
    ClusterSpec cluster = plain_cluster(1, plain_gpu(), 2 + below(15));
    cluster.fabric.kind = one_of({FabricKind::leaf_spine, FabricKind::fat_tree});
    cluster.fabric.nodes_per_leaf = 1 + below(5);
    cluster.fabric.leaves_per_pod = 1 + below(3);
    cluster.fabric.link.latency = Duration{};
    cluster.fabric.switch_latency = Duration{};
    slow_ = kNothingSlow;
    return draw_on(cluster);
  }
  // Rings of `size` ranks each, the last one of what is left.
  static void add_rings(Workload& workload, std::size_t size) {
    const std::size_t ranks = workload.ranks();
    PeerKind next{"context_next", std::vector<RankId>(ranks)};
    PeerKind previous{"context_previous", std::vector<RankId>(ranks)};
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t begin = rank / size * size;
      const std::size_t end = std::min(begin + size, ranks);
      const RankId to(rank + 1 < end ? rank + 1 : begin);
      next.of[rank] = to;
      previous.of[to.index()] = RankId(rank);
    }
    workload.peer_kinds = {std::move(next), std::move(previous)};
  }

 private:
  int below(int n) { return static_cast<int>(random_.below(static_cast<std::uint64_t>(n))); }
  template <class Item>
  Item one_of(std::initializer_list<Item> items) {
    return *(items.begin() + below(static_cast<int>(items.size())));
  }

  std::optional<fuzz::SmallCase> draw_on(const ClusterSpec& cluster) {
    Result<Topology> topology = Topology::build(cluster, 1);
    if (!topology) return std::nullopt;
    Workload workload = draw_workload(static_cast<std::size_t>(topology->gpus()));
    Placement placement = place_in_order(workload);
    ExecutionOptions options = draw_options(*topology);
    for (std::size_t rank = 0; rank < workload.ranks(); ++rank) options.record.emplace_back(rank);
    return fuzz::SmallCase{std::move(topology).value(), std::move(workload), std::move(placement), std::move(options)};
  }

  ClusterSpec draw_cluster() {
    const int gpus = one_of({1, 1, 2, 4, 8});
    const int most = gpus == 1 ? 12 : 4;
    ClusterSpec cluster = plain_cluster(gpus);
    NodeSpec& node = cluster.groups[0].node;
    node.wiring = one_of({GpuWiring::nvswitch, GpuWiring::nvswitch, GpuWiring::none});
    node.nics = one_of({1, 1, node.gpus});
    node.gpu.nvlink_sharp = below(2) == 0;
    const auto count = [&] { return below(2) == 0 ? one_of({1, 2, 4}) : 1 + below(most); };
    cluster.groups[0].count = count();
    if (below(3) > 0) {
      NodeSpec other = node;
      change(other);
      cluster.groups.push_back({other, count()});
    }
    cluster.fabric.kind = one_of({FabricKind::single_switch, FabricKind::leaf_spine, FabricKind::fat_tree});
    cluster.fabric.routing = one_of({Routing::adaptive, Routing::adaptive, Routing::ecmp, Routing::fixed});
    cluster.fabric.nodes_per_leaf = 1 + below(4);
    cluster.fabric.leaves_per_pod = 1 + below(2);
    cluster.fabric.oversubscription = one_of({1, 1, 2});
    if (below(2) == 0) cluster.fabric.link.bandwidth = BytesPerSecond(3e9);
    if (below(2) == 0) {  // leaves that show in nothing but the counts
      cluster.fabric.link.latency = Duration{};
      cluster.fabric.switch_latency = Duration{};
    }
    for (NodeGroup& group : cluster.groups) group.node.nic.in_network_reduction = true;
    cluster.fabric.link.in_network_reduction = true;
    slow_ = below(4);
    return cluster;
  }

  void change(NodeSpec& node) {
    const int what = below(9);
    if (what == 0) node.gpu.memory = Bytes(1 << 20);
    if (what == 1) node.nvlink.latency *= 2;
    if (what == 2) node.pcie.latency *= 2;
    if (what == 3) node.nic.latency *= 2;
    // As wide in the end.
    if (what == 4) halve_efficiency(node.nvlink);
    if (what == 5) halve_efficiency(node.nic);
    if (what == 6) halve_efficiency(node.pcie);
    if (what == 7) node.gpu.multiprocessors = 50;
    if (what == 8) node.nic.bandwidth = node.nic.bandwidth * 2;
  }
  static void halve_efficiency(LinkSpec& link) {
    link.bandwidth = link.bandwidth * 2;
    link.efficiency = 0.5;
  }

  Workload draw_workload(std::size_t ranks) {
    Workload workload;
    workload.kernels = {computing(Duration(20'000'000)), streaming(Bytes(1 << 22))};
    workload.role_of.assign(ranks, RoleId(std::size_t{0}));
    workload.group_kinds = {{"data"}, {"tensor"}};
    const bool strided = below(3) == 0;
    const auto size = [&] { return 1 + static_cast<std::size_t>(below(below(2) == 0 ? 3 : static_cast<int>(ranks))); };
    const std::size_t data = size();
    const std::size_t tensor = size();
    const std::size_t ring = size();
    add_groups(workload, GroupKindId(std::size_t{0}), data, strided);
    add_groups(workload, GroupKindId(std::size_t{1}), tensor, below(2) == 0);
    add_rings(workload, ring);
    const int only = below(8);  // that kind of communication, or all of them
    ProgramBuilder builder;
    const StreamId compute = builder.stream("compute", true);
    const StreamId side = builder.stream("data");
    const StreamId sends = builder.stream("send");
    const StreamId receives = builder.stream("receive");
    for (int i = 2 + below(3); i > 0; --i) {
      const int what = only < 4 ? only : below(5);
      if (what <= 1) {
        const auto op = static_cast<CollectiveOp>(below(static_cast<int>(kCollectiveOps)));
        const GroupKindId kind(static_cast<std::size_t>(below(2)));
        const Bytes bytes(one_of<std::int64_t>({64, 3000, 1 << 14, 1 << 20, 1 << 24, 1 << 26}));
        builder.collective({op, kind, bytes}, {.stream = side});
      } else if (what == 2) {
        const Bytes bytes(one_of<std::int64_t>({3000, 1 << 18, 1 << 24}));
        builder.send({PeerKindId(std::size_t{0}), 0, bytes}, {.stream = sends});
        builder.receive({PeerKindId(std::size_t{1}), 0, bytes}, {.stream = receives});
      } else if (what == 3) {
        const auto direction = one_of({CopyDirection::host_to_device, CopyDirection::device_to_host});
        builder.copy({direction, Bytes(1 << 20)}, {.stream = side});
      }
      builder.kernels({KernelId(static_cast<std::size_t>(below(2)))}, {.stream = compute});
    }
    builder.resident({Bytes(1 << 21), MemoryTag::weights});
    workload.programs.push_back(std::move(builder).freeze());
    return workload;
  }

  // Of `size` ranks each, the last one of what is left: neighbours, or ranks that are `strides` apart.
  static void add_groups(Workload& workload, GroupKindId kind, std::size_t size, bool strided) {
    const std::size_t ranks = workload.ranks();
    const std::size_t count = (ranks + size - 1) / size;
    const std::size_t first = workload.communicators.size();
    for (std::size_t c = 0; c < count; ++c) workload.communicators.push_back({kind, {}});
    auto& of = workload.communicator_of.emplace_back();
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t c = first + (strided ? rank % count : rank / size);
      workload.communicators[c].ranks.emplace_back(rank);
      of.emplace_back(c);
    }
  }

  ExecutionOptions draw_options(const Topology& topology) {
    ExecutionOptions options;
    options.traffic.fidelity = one_of({TrafficFidelity::message, TrafficFidelity::coupled});
    if (below(2) == 0) {
      const auto rows = collective_algorithm_rows();
      options.traffic.algorithm = rows[static_cast<std::size_t>(below(static_cast<int>(rows.size())))].name;
    }
    options.traffic.protocol = one_of<const char*>({"auto", "simple", "ll", "ll128"});
    // Slow by as much as it is wider than its twin.
    if (slow_ == 0) options.slow_links.push_back({LinkId(below(topology.links())), 0.5});
    if (slow_ == 1) options.slow_gpus.push_back({GpuId(below(topology.gpus())), 0.5});
    return options;
  }

  RandomStream random_;
  static constexpr int kNothingSlow = 2;  // and above
  int slow_ = 0;
};

// Nothing but transfers of 16 MiB round rings of `size` ranks, the last one of what is left, beside kernels.
std::optional<fuzz::SmallCase> rings_of(std::size_t size, const ClusterSpec& cluster) {
  Result<Topology> topology = Topology::build(cluster);
  REQUIRE(topology.ok());
  Workload workload;
  workload.kernels = {computing(Duration(20'000'000'000))};
  workload.role_of.assign(static_cast<std::size_t>(topology->gpus()), RoleId(std::size_t{0}));
  Twins::add_rings(workload, size);
  ProgramBuilder builder;
  const StreamId compute = builder.stream("compute", true);
  const StreamId sends = builder.stream("send");
  const StreamId receives = builder.stream("receive");
  builder.send({PeerKindId(std::size_t{0}), 0, Bytes(1 << 24)}, {.stream = sends});
  builder.receive({PeerKindId(std::size_t{1}), 0, Bytes(1 << 24)}, {.stream = receives});
  builder.kernels({KernelId(std::size_t{0})}, {.stream = compute});
  workload.programs.push_back(std::move(builder).freeze());
  Placement placement = place_in_order(workload);
  return fuzz::SmallCase{std::move(topology).value(), std::move(workload), std::move(placement), {}};
}

}  // namespace

std::optional<fuzz::SmallCase> unequal_rings(std::uint64_t) { return rings_of(5, plain_cluster(8)); }

std::optional<fuzz::SmallCase> unequal_plans(std::uint64_t) {
  ClusterSpec cluster = plain_cluster(1, plain_gpu(), 2);
  cluster.groups[0].node.pcie.bandwidth = BytesPerSecond(200e9);
  cluster.groups.push_back(cluster.groups[0]);
  LinkSpec& nic = cluster.groups[1].node.nic;
  nic.bandwidth = nic.bandwidth * 2;
  auto drawn = rings_of(2, cluster);
  for (const char* name : {"node2.nic0", "node3.nic0"}) {
    for (const LinkId link : drawn->topology.find_links(name)) {
      if (drawn->topology.link(link).bandwidth == nic.bandwidth) drawn->options.slow_links.push_back({link, 0.5});
    }
  }
  return drawn;
}

std::optional<fuzz::SmallCase> twins(std::uint64_t seed) { return Twins(seed).draw(); }
std::optional<fuzz::SmallCase> cables(std::uint64_t seed) { return Twins(seed).draw_cables(); }

}  // namespace orrery::test
