// What must hold for every fabric in the registry, with every routing, on clusters of odd sizes: compared link by link
// with the explicit graph of the same cluster.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/edmonds_karp_max_flow.hpp>
#include <cmath>
#include <functional>
#include <map>
#include <queue>
#include <set>

#include "tests/unit/topology/fixtures.hpp"
#include "topology/registry.hpp"

namespace orrery {
namespace {

using test::cluster_of;

struct Case {
  std::string name;
  ClusterSpec spec;
};

NodeSpec small_node(int gpus, int nics) {
  NodeSpec node = test::dgx_a100();
  node.gpus = gpus;
  node.nics = nics;
  return node;
}

// Node groups that a fabric may have to join.
std::vector<Case> node_mixes() {
  std::vector<Case> mixes;
  mixes.push_back({"1 GPU", cluster_of(test::single_gpu(), 1)});
  mixes.push_back({"4 GPUs, 2 NICs", cluster_of(small_node(4, 2), 1)});
  mixes.push_back({"2 GPUs, 5 NICs", cluster_of(small_node(2, 5), 1)});
  Case mixed{"mixed", cluster_of(small_node(3, 3), 1)};
  mixed.spec.groups.push_back({test::single_gpu(), 1});
  mixed.spec.groups.back().node.nic = test::link_of("slow", 10, 700);
  mixes.push_back(mixed);
  return mixes;
}

std::vector<Case> all_cases() {
  std::vector<Case> cases;
  for (const FabricInfo& fabric : kFabrics) {
    for (const RoutingInfo& routing : kRoutings) {
      for (const Case& mix : node_mixes()) {
        for (const auto& [nodes, nodes_per_leaf, leaves_per_pod] :
             {std::tuple{1, 4, 2}, {2, 1, 1}, {5, 2, 2}, {7, 1, 3}, {9, 3, 1}, {12, 2, 3}}) {
          for (const double oversubscription : {1.0, 1.5}) {
            Case made = mix;
            made.spec.fabric.kind = fabric.kind;
            made.spec.fabric.routing = routing.routing;
            made.spec.fabric.nodes_per_leaf = nodes_per_leaf;
            made.spec.fabric.leaves_per_pod = leaves_per_pod;
            made.spec.fabric.oversubscription = oversubscription;
            made.spec.fabric.core_oversubscription = leaves_per_pod > 1 ? oversubscription : 1;
            made.spec.groups[0].count = nodes;
            if (mix.spec.groups.size() > 1) made.spec.groups[1].count = (nodes + 1) / 2;
            made.name = fmt::format("{} {} {} nodes={} per leaf={} per pod={} oversubscription={}", fabric.name,
                                    routing.name, mix.name, nodes, nodes_per_leaf, leaves_per_pod, oversubscription);
            cases.push_back(made);
          }
        }
      }
    }
  }
  return cases;
}

// Calls `body` with every case that can be built; those that cannot are short of uplinks, and say so.
void for_each_case(const std::function<void(const Topology&, const ExplicitGraph&)>& body) {
  int built = 0;
  for (const Case& made : all_cases()) {
    CAPTURE(made.name);
    const Result<Topology> topology = Topology::build(made.spec, 3);
    if (!topology.ok()) {
      REQUIRE(made.spec.fabric.oversubscription > 1);
      for (const Problem& problem : topology.problems())
        CHECK(problem.key.find("oversubscription") != std::string::npos);
      continue;
    }
    ++built;
    body(*topology, materialize(*topology));
  }
  CHECK(built > 400);
}

int vertex_of(const ExplicitGraph& graph, const std::string& name) {
  const auto found = std::find(graph.vertices.begin(), graph.vertices.end(), name);
  REQUIRE(found != graph.vertices.end());
  return static_cast<int>(found - graph.vertices.begin());
}

int gpu_vertex(const Topology& topology, const ExplicitGraph& graph, GpuId gpu) {
  return vertex_of(graph, fmt::format("node{}.gpu{}", topology.node_of(gpu).value(), topology.local_index(gpu)));
}

void check_walk(const ExplicitGraph& graph, const Route& route, int from, int to) {
  int at = from;
  Duration latency{};
  std::set<LinkId> seen;
  for (const LinkId link : route.links) {
    REQUIRE(link.valid());
    REQUIRE(link.index() < graph.edges.size());
    const ExplicitGraph::Edge& edge = graph.edges[link.index()];
    REQUIRE(edge.from == at);
    CHECK(seen.insert(link).second);
    latency += edge.info.latency;
    at = edge.to;
  }
  CHECK(at == to);
  CHECK(latency == route.latency);
}

TEST_CASE("Every route is a walk through existing links from sender to receiver, and its latency is their sum") {
  for_each_case([](const Topology& topology, const ExplicitGraph& graph) {
    std::vector<int> vertices;
    for (int gpu = 0; gpu < topology.gpus(); ++gpu) vertices.push_back(gpu_vertex(topology, graph, GpuId(gpu)));
    for (int from = 0; from < topology.gpus(); ++from) {
      for (int to = from % 3; to < topology.gpus(); to += 1 + to % 3) {
        const Route route = topology.route(GpuId(from), GpuId(to), {-1, -1, static_cast<std::uint64_t>(from)});
        check_walk(graph, route, vertices[static_cast<std::size_t>(from)], vertices[static_cast<std::size_t>(to)]);
        const int out = topology.node_spec(topology.node_of(GpuId(from))).nics - 1;
        const int in = topology.node_spec(topology.node_of(GpuId(to))).nics / 2;
        check_walk(graph, topology.route(GpuId(from), GpuId(to), {out, in, 5}),
                   vertices[static_cast<std::size_t>(from)], vertices[static_cast<std::size_t>(to)]);
      }
    }
  });
}

TEST_CASE("Both directions of a link mirror each other, and with adaptive routing so do routes") {
  for_each_case([](const Topology& topology, const ExplicitGraph& graph) {
    REQUIRE(topology.links() == static_cast<int>(graph.edges.size()));
    for (int i = 0; i < topology.links(); ++i) {
      const ExplicitGraph::Edge& edge = graph.edges[static_cast<std::size_t>(i)];
      const ExplicitGraph::Edge& back = graph.edges[Topology::reverse(LinkId(i)).index()];
      CHECK(edge.from == back.to);
      CHECK(edge.to == back.from);
      CHECK(edge.info.bandwidth == back.info.bandwidth);
      CHECK(edge.info.bandwidth.count() > 0);
      CHECK(edge.info.kind == back.info.kind);
    }
    const int last = topology.gpus() - 1;
    for (int gpu = 0; gpu < topology.gpus(); ++gpu) {
      const Route there = topology.route(GpuId(gpu), GpuId(last));
      Route back = topology.route(GpuId(last), GpuId(gpu));
      CHECK(there.links.size() == back.links.size());
      CHECK(there.latency == back.latency);
      if (topology.spec().fabric.routing != Routing::adaptive ||
          topology.node_of(GpuId(gpu)) == topology.node_of(GpuId(last))) {
        continue;
      }
      std::reverse(back.links.begin(), back.links.end());
      for (std::size_t i = 0; i < there.links.size(); ++i) CHECK(there.links[i] == Topology::reverse(back.links[i]));
    }
  });
}

TEST_CASE("Every link has a name of its own, by which it is found") {
  for_each_case([](const Topology& topology, const ExplicitGraph& graph) {
    std::set<std::string> names;
    for (int i = 0; i < topology.links(); ++i) {
      const std::string name = topology.link_name(LinkId(i));
      CHECK(names.insert(name).second);
      // A full look-up of each of many links is slow in a debug build; every seventh covers all kinds of links.
      if (i % 7 == 0) CHECK(topology.find_link(name) == LinkId(i));
    }
    CHECK(std::set<std::string>(graph.vertices.begin(), graph.vertices.end()).size() == graph.vertices.size());
  });
}

// Links and latency of the best path between two NICs through switches alone, by breadth-first search (all cables
// between switches are alike, so that the fewest links also make the least latency).
std::pair<int, Duration> shortest(const ExplicitGraph& graph, int from, int to) {
  std::vector<int> hops(graph.vertices.size(), -1);
  std::vector<Duration> latency(graph.vertices.size());
  std::queue<int> open;
  hops[static_cast<std::size_t>(from)] = 0;
  open.push(from);
  while (!open.empty()) {
    const int at = open.front();
    open.pop();
    for (const ExplicitGraph::Edge& edge : graph.edges) {
      const bool fabric = edge.info.kind == LinkKind::fabric || edge.info.kind == LinkKind::nic;
      const bool enters_node = graph.vertices[static_cast<std::size_t>(edge.to)].starts_with("node");
      if (edge.from != at || !fabric || hops[static_cast<std::size_t>(edge.to)] >= 0 ||
          (enters_node && edge.to != to)) {
        continue;
      }
      hops[static_cast<std::size_t>(edge.to)] = hops[static_cast<std::size_t>(at)] + 1;
      latency[static_cast<std::size_t>(edge.to)] = latency[static_cast<std::size_t>(at)] + edge.info.latency;
      open.push(edge.to);
    }
  }
  return {hops[static_cast<std::size_t>(to)], latency[static_cast<std::size_t>(to)]};
}

TEST_CASE("No path between two NICs is shorter than the one that the formula gives") {
  for_each_case([](const Topology& topology, const ExplicitGraph& graph) {
    const int to = topology.gpus() - 1;
    for (int from = 0; from < topology.gpus(); from += 3) {
      if (topology.node_of(GpuId(from)) == topology.node_of(GpuId(to))) continue;
      int begin = -1;
      int end = -1;
      std::pair<int, Duration> taken{};
      for (const LinkId link : topology.route(GpuId(from), GpuId(to)).links) {
        const ExplicitGraph::Edge& edge = graph.edges[link.index()];
        if (edge.info.kind != LinkKind::nic && edge.info.kind != LinkKind::fabric) continue;
        if (begin < 0) begin = edge.from;
        end = edge.to;
        ++taken.first;
        taken.second += edge.info.latency;
      }
      CHECK(taken == shortest(graph, begin, end));
    }
  });
}

// Maximum flow between the NICs of two sets of nodes, in units of 1 MB/s.
double max_flow(const Topology& topology, const ExplicitGraph& graph, int first_nodes) {
  using Traits = boost::adjacency_list_traits<boost::vecS, boost::vecS, boost::directedS>;
  struct Arc {
    std::int64_t capacity = 0;
    std::int64_t residual = 0;
    Traits::edge_descriptor reverse;
  };
  using Flow = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, Arc>;
  Flow flow(graph.vertices.size() + 2);
  const auto source = graph.vertices.size();
  const auto sink = source + 1;
  const auto add = [&flow](std::size_t from, std::size_t to, std::int64_t capacity) {
    const auto arc = add_edge(from, to, {capacity, 0, {}}, flow).first;
    const auto back = add_edge(to, from, {0, 0, {}}, flow).first;
    flow[arc].reverse = back;
    flow[back].reverse = arc;
  };
  for (const ExplicitGraph::Edge& edge : graph.edges) {
    if (edge.info.kind != LinkKind::fabric && edge.info.kind != LinkKind::nic) continue;
    add(static_cast<std::size_t>(edge.from), static_cast<std::size_t>(edge.to),
        std::llround(edge.info.bandwidth.count() / 1e6));
  }
  for (int node = 0; node < topology.nodes(); ++node) {
    for (int nic = 0; nic < topology.node_spec(NodeId(node)).nics; ++nic) {
      const auto vertex = static_cast<std::size_t>(vertex_of(graph, fmt::format("node{}.nic{}", node, nic)));
      constexpr std::int64_t kUnlimited = 1'000'000'000;
      node < first_nodes ? add(source, vertex, kUnlimited) : add(vertex, sink, kUnlimited);
    }
  }
  return static_cast<double>(boost::edmonds_karp_max_flow(flow, source, sink,
                                                          boost::capacity_map(get(&Arc::capacity, flow))
                                                              .residual_capacity_map(get(&Arc::residual, flow))
                                                              .reverse_edge_map(get(&Arc::reverse, flow))));
}

TEST_CASE("Bisection bandwidth by formula is the maximum flow between the halves") {
  for_each_case([](const Topology& topology, const ExplicitGraph& graph) {
    // Halves as documented: whole leaves (or units), or nodes on one leaf.
    const FabricSpec& fabric = topology.spec().fabric;
    const int per_leaf = fabric.kind == FabricKind::single_switch ? topology.nodes() : fabric.nodes_per_leaf;
    const int blocks = (topology.nodes() + per_leaf - 1) / per_leaf;
    const int first = blocks > 1 ? blocks / 2 * per_leaf : topology.nodes() / 2;
    CHECK(topology.bisection_bandwidth().count() / 1e6 == doctest::Approx(max_flow(topology, graph, first)));
  });
}

TEST_CASE("All traffic over a link of the fabric goes through the ports behind it, and merged links have just those") {
  for_each_case([](const Topology& topology, const ExplicitGraph& /*graph*/) {
    std::map<LinkId, std::set<LinkId>> ports;  // by link of the fabric
    for (int a = 0; a < topology.nodes(); ++a) {
      for (int b = 0; b < topology.nodes(); ++b) {
        if (a == b) continue;
        const GpuId from = topology.gpu(NodeId(a), 0);
        const GpuId to = topology.gpu(NodeId(b), 0);
        for (int out = 0; out < topology.node_spec(NodeId(a)).nics; ++out) {
          for (int in = 0; in < topology.node_spec(NodeId(b)).nics; ++in) {
            const Route route = topology.route(from, to, {.from_nic = out, .to_nic = in, .flow_label = 0});
            std::vector<LinkId> ends;
            for (const LinkId link : route.links) {
              if (topology.link(link).kind == LinkKind::nic) ends.push_back(link);
            }
            REQUIRE(ends.size() == 2);
            for (const LinkId link : route.links) {
              // Links come in pairs, upwards first: below its lower end are those who send up, or receive from above.
              if (topology.link(link).kind == LinkKind::fabric) ports[link].insert(ends[link.value() % 2 == 0 ? 0 : 1]);
            }
          }
        }
      }
    }
    const bool merged = topology.spec().fabric.routing == Routing::adaptive;
    for (const auto& [link, through] : ports) {
      double sum = 0;
      for (const LinkId port : through) sum += topology.link(port).bandwidth.count();
      const double behind = topology.ports_behind(link).count();
      CHECK(sum <= behind * (1 + 1e-12));
      // Where nodes differ, a port may have nobody to talk to over the link.
      if (merged && topology.spec().groups.size() == 1) CHECK(behind == doctest::Approx(sum).epsilon(1e-12));
      if (!merged) CHECK(std::isinf(behind));
    }
    CHECK(std::isinf(topology.ports_behind(LinkId(0)).count()));  // inside a node
  });
}

TEST_CASE("Adaptive all-to-all traffic loads equal links of a regular cluster equally") {
  for (const FabricInfo& fabric : kFabrics) {
    ClusterSpec spec = cluster_of(small_node(4, 4), 8, fabric.kind);
    spec.fabric.nodes_per_leaf = 2;
    spec.fabric.leaves_per_pod = 2;
    const Result<Topology> topology = Topology::build(spec);
    REQUIRE(topology.ok());
    std::vector<int> load(static_cast<std::size_t>(topology->links()));
    for (int from = 0; from < topology->gpus(); ++from) {
      for (int to = 0; to < topology->gpus(); ++to) {
        for (const LinkId link : topology->route(GpuId(from), GpuId(to)).links) ++load[link.index()];
      }
    }
    std::map<std::string, std::set<int>> loads;  // by the name without its numbers
    for (int i = 0; i < topology->links(); ++i) {
      std::string name = topology->link_name(LinkId(i));
      name.erase(std::remove_if(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; }), name.end());
      loads[name].insert(load[static_cast<std::size_t>(i)]);
    }
    for (const auto& kind : loads) {
      CAPTURE(kind.first);
      CHECK(kind.second.size() == 1);
    }
  }
}

}  // namespace
}  // namespace orrery
