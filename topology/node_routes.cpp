// Routes inside a node: Dijkstra over the node's graph, once per GPU, then detours over one other GPU.
//
// Method. A link's weight is its place in NCCL's order of path types, in powers of ten, so that one link of a worse
// kind outweighs every path of better ones; the width of an NVLink bundle breaks ties. Traffic never passes through a
// GPU on its own account, so the search leaves GPUs other than its origin unexpanded; the one exception that NCCL
// makes, a relay over NVLink by one GPU, is tried afterwards, for each NVLink neighbour, at a price between NVLink and
// PCIe.
//
// What it leaves out: relays over two GPUs (NCCL does not use them either; such pairs go over PCIe), and boards on
// which PCIe peer-to-peer is switched off, where copies are staged in host memory.
#include <fmt/format.h>

#include <algorithm>
#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/filtered_graph.hpp>
#include <limits>
#include <map>

#include "sim/base/check.hpp"
#include "topology/node_template.hpp"

namespace orrery {

namespace {

using Weight = std::int64_t;

constexpr Weight kNvlinkWeight = 1'000;
constexpr Weight kRelayWeight = 50'000;
constexpr Weight kPcieWeight = 1'000'000;
constexpr Weight kRootWeight = 100'000'000;
constexpr Weight kSocketWeight = 10'000'000'000;
constexpr Weight kUnreachable = std::numeric_limits<Weight>::max() / 4;

struct EdgeData {
  Weight weight = 0;
  int link = 0;
};
using Graph = boost::adjacency_list<boost::vecS, boost::vecS, boost::directedS, boost::no_property, EdgeData>;
using Edge = boost::graph_traits<Graph>::edge_descriptor;

// Keeps the links that leave the origin or something other than a GPU.
struct NoTransit {
  const Graph* graph = nullptr;
  std::size_t gpus = 0;
  std::size_t origin = 0;
  bool operator()(const Edge& edge) const {
    const std::size_t from = source(edge, *graph);
    return from >= gpus || from == origin;
  }
};

struct Tree {
  std::vector<Weight> distance;  // by device
  std::vector<int> arrival;      // link by which the device is reached; -1: none
};

struct Relay {
  int gpu = -1;
  Weight weight = kUnreachable;
};

class Solver {
 public:
  explicit Solver(NodeTemplate& node) : node_(node), graph_(node.devices.size()) {
    for (const NodeLink& link : node.links) {
      if (link.info.kind == LinkKind::nvlink) widest_ = std::max(widest_, link.info.bandwidth.count());
    }
    for (std::size_t i = 0; i < node.links.size(); ++i) {
      const LinkKind kind = node.links[i].info.kind;
      // The fabric is no way from one NIC to another; memory and drives lead nowhere.
      if (kind == LinkKind::nic || kind == LinkKind::memory || kind == LinkKind::drive) continue;
      const EdgeData data{weight_of(node.links[i]), static_cast<int>(i)};
      add_edge(static_cast<std::size_t>(node.links[i].from), static_cast<std::size_t>(node.links[i].to), data, graph_);
    }
    for (int gpu = 0; gpu < node.gpus; ++gpu) trees_.push_back(search(gpu));
    for (int gpu = 0; gpu < node.gpus; ++gpu) neighbours_.push_back(nvlink_neighbours(gpu));
  }

  std::string solve() {
    route_gpus();
    if (unreachable_.empty()) deal_nics();
    if (unreachable_.empty()) route_nics();
    route_hosts();
    return unreachable_;
  }

 private:
  // A wider bundle weighs a little less, by less than any other difference.
  [[nodiscard]] Weight weight_of(const NodeLink& link) const {
    if (link.info.kind == LinkKind::socket) return kSocketWeight;
    if (link.info.kind == LinkKind::pcie) {
      const DeviceKind from = kind_of(link.from);
      const DeviceKind to = kind_of(link.to);
      const bool uplink = (from == DeviceKind::pcie_switch && to == DeviceKind::socket) ||
                          (from == DeviceKind::socket && to == DeviceKind::pcie_switch);
      return uplink ? kRootWeight : kPcieWeight;
    }
    return kNvlinkWeight - static_cast<Weight>(100 * link.info.bandwidth.count() / widest_);
  }

  [[nodiscard]] DeviceKind kind_of(int device) const { return node_.devices[static_cast<std::size_t>(device)].kind; }

  [[nodiscard]] Tree search(int gpu) const {
    const auto devices = node_.devices.size();
    Tree tree{std::vector<Weight>(devices, kUnreachable), std::vector<int>(devices, -1)};
    const auto origin = static_cast<std::size_t>(gpu);
    const boost::filtered_graph<Graph, NoTransit> passable(
        graph_, NoTransit{&graph_, static_cast<std::size_t>(node_.gpus), origin});
    std::vector<Edge> arrivals(devices);
    boost::dijkstra_shortest_paths(passable, origin,
                                   boost::weight_map(get(&EdgeData::weight, graph_))
                                       .distance_map(tree.distance.data())
                                       .distance_inf(kUnreachable)
                                       .visitor(boost::make_dijkstra_visitor(boost::record_edge_predecessors(
                                           arrivals.data(), boost::on_edge_relaxed()))));
    for (std::size_t device = 0; device < devices; ++device) {
      if (device != origin && tree.distance[device] < kUnreachable)
        tree.arrival[device] = graph_[arrivals[device]].link;
    }
    return tree;
  }

  [[nodiscard]] const Tree& tree(int gpu) const { return trees_[static_cast<std::size_t>(gpu)]; }
  [[nodiscard]] Weight direct(int gpu, int device) const {
    return tree(gpu).distance[static_cast<std::size_t>(device)];
  }

  // GPUs that one GPU reaches over NVLink without a relay.
  [[nodiscard]] std::vector<int> nvlink_neighbours(int gpu) const {
    std::vector<int> found;
    for (int other = 0; other < node_.gpus; ++other) {
      if (other != gpu && direct(gpu, other) <= 2 * kNvlinkWeight) found.push_back(other);
    }
    return found;
  }

  // The path from a GPU to a device as the search found it, appended to `links`.
  void append_direct(int gpu, int device, std::vector<int>& links) const {
    const auto begin = static_cast<std::ptrdiff_t>(links.size());
    for (int at = device; at != gpu;) {
      const int link = tree(gpu).arrival[static_cast<std::size_t>(at)];
      links.push_back(link);
      at = node_.links[static_cast<std::size_t>(link)].from;
    }
    std::reverse(links.begin() + begin, links.end());
  }

  // The cheapest way from a GPU to a device over one other GPU, whose own path there weighs at most `rest_most`; among
  // equals `preferred`, then the lowest number.
  template <class Preferred>
  [[nodiscard]] Relay best_relay(int gpu, int device, Weight rest_most, Preferred preferred) const {
    Relay best;
    bool best_preferred = false;
    for (const int via : neighbours_[static_cast<std::size_t>(gpu)]) {
      const Weight rest = direct(via, device);
      if (via == device || rest > rest_most) continue;
      const Weight weight = direct(gpu, via) + kRelayWeight + rest;
      const bool better = weight < best.weight || (weight == best.weight && preferred(via) && !best_preferred);
      if (better) {
        best = {via, weight};
        best_preferred = preferred(via);
      }
    }
    return best;
  }

  // Towards a NIC, the relay is a GPU beside it; any GPU will do where there is no other way.
  template <class Preferred>
  [[nodiscard]] Relay best_nic_relay(int gpu, int nic_device, Preferred preferred) const {
    const bool reached = direct(gpu, nic_device) < kUnreachable;
    return best_relay(gpu, nic_device, reached ? kRootWeight - 1 : kUnreachable - 1, preferred);
  }

  void add_route(PathTable& table, int gpu, const Relay& relay, int device) {
    std::vector<int> links;
    if (relay.weight < direct(gpu, device)) {
      append_direct(gpu, relay.gpu, links);
      append_direct(relay.gpu, device, links);
    } else if (direct(gpu, device) < kUnreachable) {
      append_direct(gpu, device, links);
    } else if (unreachable_.empty()) {
      unreachable_ = fmt::format("{} cannot reach {}", name_of(node_.devices[static_cast<std::size_t>(gpu)]),
                                 name_of(node_.devices[static_cast<std::size_t>(device)]));
    }
    Duration latency{};
    for (const int link : links) latency += node_.links[static_cast<std::size_t>(link)].info.latency;
    table.add(links, latency);
  }

  void route_gpus() {
    node_.nvlink_everywhere = node_.gpus > 1;
    for (int from = 0; from < node_.gpus; ++from) {
      for (int to = 0; to < node_.gpus; ++to) {
        Relay relay;
        if (from != to && direct(from, to) > 2 * kNvlinkWeight) {
          relay = best_relay(from, to, 2 * kNvlinkWeight, [](int) { return false; });
        }
        add_route(node_.gpu_to_gpu, from, relay, to);
        for (const int link : node_.gpu_to_gpu.links(from * node_.gpus + to)) {
          if (node_.links[static_cast<std::size_t>(link)].info.kind != LinkKind::nvlink)
            node_.nvlink_everywhere = false;
        }
      }
    }
  }

  // GPUs that share their set of nearest NICs are dealt its members: evenly spaced where there are more NICs than GPUs
  // (GPU 0 of two gets NIC 0 of four, GPU 1 NIC 2), in turn where there are fewer.
  void deal_nics() {
    node_.nearest_nic.assign(static_cast<std::size_t>(node_.gpus), -1);
    if (node_.nics == 0) return;
    const int nic_first = node_.first(DeviceKind::nic);
    std::vector<std::vector<int>> nearest(static_cast<std::size_t>(node_.gpus));
    for (int gpu = 0; gpu < node_.gpus; ++gpu) {
      using Distance = std::pair<Weight, Weight>;  // over PCIe, then with a relay
      Distance least{kUnreachable, kUnreachable};
      for (int nic = 0; nic < node_.nics; ++nic) {
        Distance distance{direct(gpu, nic_first + nic), 0};
        if (distance.first >= kUnreachable) {
          distance.second = best_nic_relay(gpu, nic_first + nic, [](int) { return false; }).weight;
        }
        std::vector<int>& set = nearest[static_cast<std::size_t>(gpu)];
        if (distance < least) {
          least = distance;
          set.clear();
        }
        if (distance == least) set.push_back(nic);
      }
    }
    std::map<std::vector<int>, std::size_t> sharers;
    for (const std::vector<int>& set : nearest) ++sharers[set];
    std::map<std::vector<int>, std::size_t> dealt;
    for (std::size_t gpu = 0; gpu < nearest.size(); ++gpu) {
      const std::vector<int>& set = nearest[gpu];
      const std::size_t turn = dealt[set]++;
      const std::size_t all = sharers[set];
      node_.nearest_nic[gpu] = set.size() >= all ? set[turn * set.size() / all] : set[turn % set.size()];
    }
  }

  void route_nics() {
    const int nic_first = node_.first(DeviceKind::nic);
    for (int gpu = 0; gpu < node_.gpus; ++gpu) {
      for (int nic = 0; nic < node_.nics; ++nic) {
        const auto owns = [&](int via) { return node_.nearest_nic[static_cast<std::size_t>(via)] == nic; };
        add_route(node_.gpu_to_nic, gpu, best_nic_relay(gpu, nic_first + nic, owns), nic_first + nic);
      }
    }
  }

  void route_hosts() {
    const int first = node_.first(DeviceKind::socket);
    const int end = node_.first(DeviceKind::nic);
    for (int gpu = 0; gpu < node_.gpus; ++gpu) {
      int nearest = first;
      for (int socket = first;
           socket < end && node_.devices[static_cast<std::size_t>(socket)].kind == DeviceKind::socket; ++socket) {
        if (direct(gpu, socket) < direct(gpu, nearest)) nearest = socket;
      }
      node_.host_of.push_back(nearest - first);
      add_route(node_.gpu_to_host, gpu, {}, nearest);
    }
  }

  NodeTemplate& node_;
  Graph graph_;
  double widest_ = 0;  // bandwidth of an NVLink bundle
  std::vector<Tree> trees_;
  std::vector<std::vector<int>> neighbours_;
  std::string unreachable_;
};

}  // namespace

std::string solve_routes(NodeTemplate& node) { return Solver(node).solve(); }

}  // namespace orrery
