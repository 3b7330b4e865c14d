// What a node has beside its GPUs: memory of its sockets, and drives.
#include <doctest/doctest.h>

#include "tests/unit/topology/fixtures.hpp"

using namespace orrery;
using namespace orrery::test;

namespace {

NodeSpec with_host(NodeSpec node) {
  node.memory_link = link_of("memory", 200, 100);
  node.drives = 4;
  node.drive_read = link_of("read", 7, 1000);
  node.drive_write = link_of("write", 4, 1000);
  return node;
}

Topology built(const NodeSpec& node, int count) {
  ClusterSpec cluster;
  cluster.groups.push_back({node, count});
  cluster.fabric.link = link_of("cable", 25, 600);
  auto topology = Topology::build(cluster);
  REQUIRE(topology.ok());
  return std::move(topology).value();
}

}  // namespace

TEST_CASE("each socket has memory of its own, and the node one array of drives") {
  const Topology topology = built(with_host(dgx_a100()), 2);
  for (int gpu = 0; gpu < topology.gpus(); ++gpu) {
    const Route memory = topology.host_memory(GpuId(gpu));
    REQUIRE(memory.links.size() == 1);
    const int node = gpu / 8;
    const int socket = gpu % 8 / 4;
    CHECK(topology.link_name(memory.links[0]) ==
          "node" + std::to_string(node) + ".socket" + std::to_string(socket) + "->memory" + std::to_string(socket));
    CHECK(topology.link(memory.links[0]).kind == LinkKind::memory);
    CHECK(topology.link(memory.links[0]).bandwidth.count() == 200e9);
    CHECK(memory.latency == Duration(100'000));
    const Route read = topology.drive_read(GpuId(gpu));
    const Route write = topology.drive_write(GpuId(gpu));
    REQUIRE(read.links.size() == 1);
    CHECK(write.links == std::vector<LinkId>{Topology::reverse(read.links[0])});
    CHECK(read.links == topology.drive_read(topology.gpu(NodeId(node), 0)).links);
    CHECK(topology.link(read.links[0]).bandwidth.count() == 28e9);  // four of them
    CHECK(topology.link(write.links[0]).bandwidth.count() == 16e9);
  }
  const auto kinds = topology.links_by_kind();
  CHECK(kinds[static_cast<std::size_t>(LinkKind::memory)] == 4);  // one for both ways
  CHECK(kinds[static_cast<std::size_t>(LinkKind::drive)] == 4);
}

TEST_CASE("what is not known of a host leads nowhere, and changes no other route") {
  const Topology bare = built(dgx_a100(), 2);
  const Topology full = built(with_host(dgx_a100()), 2);
  CHECK(bare.host_memory(GpuId(3)).links.empty());
  CHECK(bare.drive_read(GpuId(3)).links.empty());
  CHECK(bare.drive_write(GpuId(3)).links.empty());
  const auto names = [](const Topology& topology, const Route& route) {
    std::string all;
    for (const LinkId link : route.links) all += topology.link_name(link) + " ";
    return all;
  };
  for (int from = 0; from < 16; from += 3) {
    for (int to = 0; to < 16; ++to) {
      if (from == to) continue;
      CHECK(names(bare, bare.route(GpuId(from), GpuId(to))) == names(full, full.route(GpuId(from), GpuId(to))));
    }
    CHECK(names(bare, bare.device_to_host(GpuId(from))) == names(full, full.device_to_host(GpuId(from))));
  }
}

TEST_CASE("drives need both of their links, and memory a sensible one") {
  ClusterSpec cluster;
  NodeSpec node = dgx_a100();
  node.drives = 2;
  cluster.groups.push_back({node, 1});
  const auto without = Topology::build(cluster);
  REQUIRE(!without.ok());
  CHECK(without.problems()[0].key == "cluster.node.drive_read");
  cluster.groups[0].node = with_host(dgx_a100());
  cluster.groups[0].node.memory_link.efficiency = 2;
  const auto wrong = Topology::build(cluster);
  REQUIRE(!wrong.ok());
  CHECK(wrong.problems()[0].key == "cluster.node.memory_link.efficiency");
}
