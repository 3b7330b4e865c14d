#include "tests/fuzz/small_case.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "sim/exec/collectives/protocol.hpp"
#include "tests/fuzz/draws.hpp"

namespace orrery::fuzz {

namespace {

constexpr std::array<std::string_view, 4> kStreams{"compute", "side", "communication", "copies"};

Duration draw_time(Draws& draws, std::uint64_t nanoseconds_most) {
  if (!draws.once_in(3)) return Duration(static_cast<std::int64_t>(draws.below(nanoseconds_most + 1) * 1000));
  return Duration(static_cast<std::int64_t>(draws.below(nanoseconds_most * 1000 + 1)));
}

// 1 MB/s to 1 TB/s, whole or with a fraction.
BytesPerSecond draw_bandwidth(Draws& draws) {
  constexpr std::array<double, 5> kScales{1e9, 1e8, 1e7, 1e6, 1e10};
  const double digits = 1 + static_cast<double>(draws.below(100));
  const double fraction = draws.once_in(3) ? static_cast<double>(draws.below(1000)) / 777 : 0;
  return BytesPerSecond((digits + fraction) * draws.one_of(kScales));
}

Bytes draw_bytes(Draws& draws) {
  constexpr std::array<std::uint64_t, 6> kMost{1 << 12, 1 << 16, 1 << 20, 3, 1 << 22, 1 << 25};
  return Bytes(static_cast<std::int64_t>(draws.below(draws.one_of(kMost))));
}

LinkSpec draw_link(Draws& draws, std::string name) {
  LinkSpec link;
  link.name = std::move(name);
  link.bandwidth = draw_bandwidth(draws);
  if (draws.once_in(3)) link.efficiency = static_cast<double>(1 + draws.below(1000)) / 1000;
  link.latency = draw_time(draws, 2000);
  if (draws.once_in(3)) link.adapter_latency = draw_time(draws, 2000);
  if (draws.once_in(3)) link.switch_latency = draw_time(draws, 500);
  return link;
}

GpuSpec draw_gpu(Draws& draws) {
  constexpr std::array<int, 6> kMultiprocessors{108, 1, 2, 7, 33, 160};
  GpuSpec gpu;
  gpu.name = "gpu";
  gpu.multiprocessors = draws.one_of(kMultiprocessors);
  gpu.vector_peak = FlopsPerSecond(1e12 * static_cast<double>(draws.below(30)));
  gpu.memory = Bytes(std::int64_t{80} << 30);
  gpu.nvlink_sharp = draws.once_in(2);
  gpu.memory_bandwidth = BytesPerSecond(1e10 * static_cast<double>(1 + draws.below(400)));
  for (std::size_t p = 0; p < kPrecisions; ++p) {
    // All have bf16; the others decide which generation the library takes the GPU for.
    if (draws.once_in(2) || p == static_cast<std::size_t>(Precision::bf16)) {
      gpu.peak[p] = FlopsPerSecond(1e13 * static_cast<double>(1 + draws.below(250)));
    }
  }
  if (!draws.once_in(2)) return gpu;
  const auto share = [&] { return static_cast<double>(1 + draws.below(100)) / 100; };
  gpu.kernels.memory_ceiling = share();
  gpu.kernels.memory_rate.fill(share());
  gpu.kernels.gemm_last_wave = share();
  gpu.kernels.memory_fixed = draw_time(draws, 4000);
  gpu.kernels.gemm_fixed = draw_time(draws, 4000);
  gpu.kernels.kernel_gap = draw_time(draws, 2000);
  return gpu;
}

// A chain through all GPUs, or pairs of them; some edges more.
std::vector<MeshEdge> draw_mesh(Draws& draws, int gpus) {
  std::vector<MeshEdge> edges;
  const bool pairs = gpus == 4 && draws.once_in(4);
  for (int gpu = 0; gpu + 1 < gpus; ++gpu) {
    if (!pairs || gpu % 2 == 0) edges.push_back({gpu, gpu + 1, draws.between(1, 3)});
  }
  for (int a = 0; a < gpus; ++a) {
    for (int b = a + 2; b < gpus; ++b) {
      if (draws.once_in(2)) edges.push_back({a, b, draws.between(1, 3)});
    }
  }
  return edges;
}

NodeSpec draw_node(Draws& draws) {
  NodeSpec node;
  node.name = "node";
  node.gpu = draw_gpu(draws);
  node.gpus = draws.between(1, 4);
  node.wiring = static_cast<GpuWiring>(draws.below(3));
  node.nvlink = draw_link(draws, "nvlink");
  if (node.wiring == GpuWiring::mesh) node.mesh_links = draw_mesh(draws, node.gpus);
  node.sockets = draws.between(1, 2);
  node.switches_per_socket = draws.between(0, 2);
  node.pcie = draw_link(draws, "pcie");
  if (!draws.once_in(8)) node.socket_link = draw_link(draws, "socket");
  node.nics = draws.once_in(16) ? 0 : draws.between(1, 4);
  node.nic = draw_link(draws, "nic");
  return node;
}

ClusterSpec draw_cluster(Draws& draws) {
  ClusterSpec cluster;
  const int nodes = draws.between(1, 4);
  const int first = draws.once_in(4) && nodes > 1 ? draws.between(1, nodes - 1) : nodes;
  cluster.groups.push_back({draw_node(draws), first});
  if (first < nodes) {
    // Other nodes altogether, or the same with other cables.
    NodeSpec other = draws.once_in(2) ? draw_node(draws) : cluster.groups[0].node;
    other.nic.latency = draw_time(draws, 2000);
    cluster.groups.push_back({other, nodes - first});
  }
  cluster.fabric.kind = static_cast<FabricKind>(draws.below(4));
  cluster.fabric.routing = static_cast<Routing>(draws.below(3));
  cluster.fabric.link = draw_link(draws, "cable");
  if (draws.once_in(2)) cluster.fabric.switch_latency = draw_time(draws, 500);
  cluster.fabric.nodes_per_leaf = draws.between(1, 4);
  cluster.fabric.leaves_per_pod = draws.between(1, 3);
  if (draws.once_in(3)) cluster.fabric.oversubscription = 1 + static_cast<double>(draws.below(50)) / 7;
  if (draws.once_in(3)) cluster.fabric.core_oversubscription = 1 + static_cast<double>(draws.below(50)) / 7;
  return cluster;
}

Kernel draw_kernel(Draws& draws, std::size_t number) {
  Kernel kernel;
  kernel.name = fmt::format("kernel{}", number);
  kernel.kind = static_cast<KernelKind>(
      (static_cast<std::size_t>(KernelKind::elementwise) + draws.below(kKernelKinds)) % kKernelKinds);
  kernel.m = draws.between(1, 4000);
  kernel.n = draws.between(1, 4000);
  kernel.k = draws.between(1, 256);
  kernel.batch = draws.between(1, 4);
  kernel.causal = draws.once_in(2);
  kernel.within_call = draws.once_in(4);
  kernel.flops = Flops(2.0 * static_cast<double>(kernel.m * kernel.n * kernel.k * kernel.batch));
  kernel.bytes = draw_bytes(draws);
  return kernel;
}

class StepBuilder {
 public:
  StepBuilder(Draws& draws, std::size_t ranks) : draws_(draws) {
    const std::size_t roles = 1 + static_cast<std::size_t>(draws.below(std::min<std::size_t>(ranks, 4)));
    roles_.resize(roles);
    // Every role has a rank; the other ranks play any.
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const std::size_t role = rank < roles ? rank : static_cast<std::size_t>(draws.below(roles));
      workload_.role_of.emplace_back(role);
      roles_[role].ranks.emplace_back(rank);
    }
    for (Role& role : roles_) {
      for (const std::string_view name : kStreams) role.builder.stream(name, name == "compute");
    }
    for (std::size_t i = 0, n = 1 + static_cast<std::size_t>(draws.below(6)); i < n; ++i) {
      workload_.kernels.push_back(draw_kernel(draws, i));
    }
    for (std::uint64_t i = 0, n = draws.below(4); i < n; ++i) add_group_kind();
    for (std::uint64_t i = 0, n = draws.below(3); i < n; ++i) add_peers();
    for (std::uint64_t i = 0, n = draws.below(3); i < n; ++i) {
      roles_[static_cast<std::size_t>(draws.below(roles))].builder.resident({draw_bytes(draws), draw_tag()});
    }
  }

  Workload build() && {
    for (std::uint64_t i = 0, n = draws_.below(32); i < n; ++i) add_round();
    for (Role& role : roles_) {
      for (const MemoryOperation& block : std::exchange(role.blocks, {})) free_at_end(role, block);
      workload_.programs.push_back(std::move(role.builder).freeze());
    }
    return std::move(workload_);
  }

 private:
  struct Role {
    ProgramBuilder builder;
    std::vector<RankId> ranks;
    std::vector<TaskId> tasks;
    std::vector<MemoryOperation> blocks;  // allocated and not freed
    std::vector<StreamId> group_stream;   // [group kinds]
  };
  struct Group {
    GroupKindId kind;
    std::vector<std::size_t> roles;
  };
  struct Peers {
    PeerKindId next;
    PeerKindId previous;
    std::vector<std::size_t> senders;  // roles
    std::vector<std::size_t> receivers;
  };

  MemoryTag draw_tag() { return static_cast<MemoryTag>(draws_.below(kMemoryTags)); }
  StreamId draw_stream() { return StreamId(static_cast<std::size_t>(draws_.below(kStreams.size()))); }

  // At least one.
  std::vector<std::size_t> draw_roles() {
    std::vector<std::size_t> chosen;
    const std::size_t first = static_cast<std::size_t>(draws_.below(roles_.size()));
    const bool all = !draws_.once_in(3);
    for (std::size_t role = 0; role < roles_.size(); ++role) {
      if (all || role == first || draws_.once_in(2)) chosen.push_back(role);
    }
    return chosen;
  }

  std::vector<RankId> ranks_of(const std::vector<std::size_t>& roles) {
    std::vector<RankId> ranks;
    for (const std::size_t role : roles)
      ranks.insert(ranks.end(), roles_[role].ranks.begin(), roles_[role].ranks.end());
    return ranks;
  }

  // The ranks of some roles, in any order, cut anywhere.
  void add_group_kind() {
    const GroupKindId kind(workload_.group_kinds.size());
    constexpr std::array<std::string_view, 3> kNames{"data", "tensor", "expert"};
    workload_.group_kinds.push_back({std::string(kNames[kind.index()])});
    Group group{kind, draw_roles()};
    std::vector<RankId> ranks = ranks_of(group.roles);
    if (draws_.once_in(2)) draws_.shuffle(ranks);
    auto& of = workload_.communicator_of.emplace_back(workload_.ranks());
    const bool cut = draws_.once_in(2);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      if (i == 0 || (cut && draws_.once_in(3))) workload_.communicators.push_back({kind, {}});
      workload_.communicators.back().ranks.push_back(ranks[i]);
      of[ranks[i].index()] = CommunicatorId(workload_.communicators.size() - 1);
    }
    for (Role& role : roles_) role.group_stream.push_back(draw_stream());
    groups_.push_back(std::move(group));
  }

  // One role to another of as many ranks, or any permutation of the ranks of some roles, fixed points included.
  void add_peers() {
    Peers peers{PeerKindId(workload_.peer_kinds.size()), PeerKindId(workload_.peer_kinds.size() + 1), {}, {}};
    const std::size_t from = static_cast<std::size_t>(draws_.below(roles_.size()));
    const std::size_t to = static_cast<std::size_t>(draws_.below(roles_.size()));
    if (from != to && roles_[from].ranks.size() == roles_[to].ranks.size()) {
      peers.senders = {from};
      peers.receivers = {to};
    } else {
      peers.senders = peers.receivers = draw_roles();
    }
    const std::vector<RankId> senders = ranks_of(peers.senders);
    std::vector<RankId> receivers = ranks_of(peers.receivers);
    std::rotate(receivers.begin(), receivers.begin() + static_cast<std::ptrdiff_t>(1 % receivers.size()),
                receivers.end());
    if (draws_.once_in(2)) draws_.shuffle(receivers);
    const std::string name = peers_.empty() ? "pipeline" : "context";
    PeerKind next{name + "_next", std::vector<RankId>(workload_.ranks())};
    PeerKind previous{name + "_previous", std::vector<RankId>(workload_.ranks())};
    for (std::size_t i = 0; i < senders.size(); ++i) {
      next.of[senders[i].index()] = receivers[i];
      previous.of[receivers[i].index()] = senders[i];
    }
    workload_.peer_kinds.push_back(std::move(next));
    workload_.peer_kinds.push_back(std::move(previous));
    peers_.push_back(std::move(peers));
  }

  // What is common to all ways of adding a task. Dependencies are on the first `tasks_before` tasks of the role.
  struct Common {
    std::vector<TaskId> after;
    std::vector<MemoryOperation> memory;
    TaskOptions options;
  };
  Common draw_common(Role& role, StreamId stream, std::size_t tasks_before) {
    Common common;
    for (std::uint64_t i = 0, n = tasks_before == 0 ? 0 : draws_.below(3); i < n; ++i) {
      common.after.push_back(role.tasks[tasks_before - 1 - static_cast<std::size_t>(draws_.below(tasks_before))]);
    }
    if (draws_.once_in(4)) {
      common.memory.push_back({draw_bytes(draws_), draw_tag()});
      role.blocks.push_back(common.memory.back());
    }
    if (!role.blocks.empty() && draws_.once_in(4)) {
      const auto freed = role.blocks.begin() + static_cast<std::ptrdiff_t>(draws_.below(role.blocks.size()));
      common.memory.push_back({Bytes(0) - freed->bytes, freed->tag});
      role.blocks.erase(freed);
    }
    common.options = {.stream = stream, .label = "task", .blocks_host = draws_.once_in(8)};
    if (draws_.once_in(4)) common.options.issue = draws_.once_in(4) ? Issue::opens_call : Issue::within_call;
    return common;
  }
  static TaskOptions options_of(const Common& common) {
    TaskOptions options = common.options;
    options.after = common.after;
    options.memory = common.memory;
    return options;
  }

  void free_at_end(Role& role, const MemoryOperation& block) {
    const MemoryOperation freed{Bytes(0) - block.bytes, block.tag};
    role.builder.host(Duration{}, {.stream = StreamId(std::size_t{0}), .label = "free", .memory = {&freed, 1}});
  }

  void add_round() {
    const std::uint64_t choice = draws_.below(8);
    if (choice >= 4 && choice < 6 && !groups_.empty()) return add_collective(draws_.one_of(groups_));
    if (choice >= 6 && !peers_.empty()) return add_transfer(draws_.below(peers_.size()));
    Role& role = roles_[static_cast<std::size_t>(draws_.below(roles_.size()))];
    const StreamId stream = draws_.once_in(2) ? draw_stream() : StreamId(std::size_t{0});
    const Common common = draw_common(role, stream, role.tasks.size());
    if (choice == 2) {
      const auto direction = draws_.once_in(2) ? CopyDirection::device_to_host : CopyDirection::host_to_device;
      role.tasks.push_back(role.builder.copy({direction, draw_bytes(draws_)}, options_of(common)));
    } else if (choice == 3) {
      role.tasks.push_back(role.builder.host(draw_time(draws_, 50'000), options_of(common)));
    } else {
      KernelSequence sequence;
      for (std::uint64_t i = 0, n = draws_.below(6); i < n; ++i) {
        sequence.emplace_back(static_cast<std::size_t>(draws_.below(workload_.kernels.size())));
      }
      role.tasks.push_back(role.builder.kernels(std::move(sequence), options_of(common)));
    }
  }

  void add_collective(const Group& group) {
    const CollectiveCall call{static_cast<CollectiveOp>(draws_.below(kCollectiveOps)), group.kind, draw_bytes(draws_)};
    for (const std::size_t r : group.roles) {
      Role& role = roles_[r];
      const Common common = draw_common(role, role.group_stream[group.kind.index()], role.tasks.size());
      role.tasks.push_back(role.builder.collective(call, options_of(common)));
    }
  }

  void add_transfer(std::uint64_t index) {
    const Peers& peers = peers_[static_cast<std::size_t>(index)];
    const std::size_t send_stream = static_cast<std::size_t>(draws_.below(kStreams.size()));
    const std::size_t offset = static_cast<std::size_t>(draws_.below(kStreams.size() - 1));
    const std::size_t receive_stream = (send_stream + 1 + offset) % kStreams.size();
    const auto tag =
        static_cast<std::int32_t>((index * kStreams.size() + send_stream) * kStreams.size() + receive_stream);
    const TransferCall send{peers.next, tag, draw_bytes(draws_)};
    const TransferCall receive{peers.previous, tag, send.bytes};
    const bool both = peers.senders == peers.receivers;
    for (const std::size_t r : peers.senders) {
      Role& role = roles_[r];
      const std::size_t before = role.tasks.size();
      const bool send_first = !both || draws_.once_in(2);
      for (int side = 0; side < (both ? 2 : 1); ++side) {
        add_side(role, (side == 0) == send_first, both && side == 0, before, send, receive, send_stream,
                 receive_stream);
      }
    }
    if (both) return;
    for (const std::size_t r : peers.receivers) {
      add_side(roles_[r], false, false, roles_[r].tasks.size(), send, receive, send_stream, receive_stream);
    }
  }

  void add_side(Role& role, bool sends, bool must_not_block, std::size_t before, const TransferCall& send,
                const TransferCall& receive, std::size_t send_stream, std::size_t receive_stream) {
    Common common = draw_common(role, StreamId(sends ? send_stream : receive_stream), before);
    if (must_not_block) common.options.blocks_host = false;
    role.tasks.push_back(sends ? role.builder.send(send, options_of(common))
                               : role.builder.receive(receive, options_of(common)));
  }

  Draws& draws_;
  Workload workload_;
  std::vector<Role> roles_;
  std::vector<Group> groups_;
  std::vector<Peers> peers_;
};

ExecutionOptions draw_options(Draws& draws, const Topology& topology, const Workload& workload) {
  ExecutionOptions options;
  options.fold = false;  // the laws look at every rank
  options.traffic.fidelity = draws.once_in(2) ? TrafficFidelity::message : TrafficFidelity::coupled;
  if (draws.once_in(2)) options.traffic.algorithm = draws.one_of(collective_algorithm_rows()).name;
  if (draws.once_in(2)) options.traffic.protocol = draws.one_of(protocol_rows()).name;
  if (draws.once_in(4)) options.traffic.channels = draws.between(1, 40);
  options.traffic.library = draws.one_of(library_rows()).name;
  options.seed = draws.below(1 << 16);
  if (draws.once_in(3)) options.kernel_jitter = static_cast<double>(draws.below(300)) / 100;
  for (std::uint64_t i = 0, n = draws.below(3); i < n; ++i) {
    options.slow_gpus.push_back(
        {GpuId(static_cast<std::size_t>(draws.below(static_cast<std::uint64_t>(topology.gpus())))),
         static_cast<double>(1 + draws.below(100)) / 100});
  }
  for (std::uint64_t i = 0, n = draws.below(3); i < n; ++i) {
    options.slow_links.push_back(
        {LinkId(static_cast<std::size_t>(draws.below(static_cast<std::uint64_t>(topology.links())))),
         static_cast<double>(1 + draws.below(100)) / 100});
  }
  if (draws.once_in(2)) options.launch = draw_time(draws, 10'000);
  if (draws.once_in(2)) options.collective_launch = draw_time(draws, 10'000);
  if (draws.once_in(2)) options.driver_launch = draw_time(draws, 10'000);
  options.graphs = draws.once_in(3);
  options.traffic.pxn = !draws.once_in(4);
  for (std::size_t rank = 0; rank < workload.ranks(); ++rank) options.record.emplace_back(rank);
  return options;
}

std::string describe(const Program& program, const Task& task) {
  switch (task.kind) {
    case TaskKind::kernels: {
      std::string text = "kernels";
      for (const KernelId kernel : program.sequence(task)) text += fmt::format(" {}", kernel.value());
      return text;
    }
    case TaskKind::collective: {
      const CollectiveCall& call = program.collective(task);
      return fmt::format("{} of {} B over group kind {}", name_of(call.op), call.bytes.count(), call.group.value());
    }
    case TaskKind::send:
    case TaskKind::receive: {
      const TransferCall& call = program.transfer(task);
      return fmt::format("{} {} B, peer kind {}, tag {}", task.kind == TaskKind::send ? "send" : "receive",
                         call.bytes.count(), call.peer.value(), call.tag);
    }
    case TaskKind::copy: {
      const CopyCall& call = program.copy(task);
      return fmt::format("copy {} B {}", call.bytes.count(),
                         call.direction == CopyDirection::host_to_device ? "to the GPU" : "to the host");
    }
    case TaskKind::host:
      return fmt::format("host work of {} ps", program.host_work(task).count());
  }
  return {};
}

std::string describe(const NodeSpec& node) {
  return fmt::format(
      "{} GPUs, wiring {}, nvlink {} B/s, {} sockets, {} switches each, pcie {} B/s, {} NICs of {} B/s, {} SMs",
      node.gpus, static_cast<int>(node.wiring), node.nvlink.payload_bandwidth().count(), node.sockets,
      node.switches_per_socket, node.pcie.payload_bandwidth().count(), node.nics, node.nic.payload_bandwidth().count(),
      node.gpu.multiprocessors);
}

}  // namespace

std::optional<SmallCase> draw_small_case(std::span<const std::uint8_t> bytes) {
  Draws draws(bytes);
  const ClusterSpec cluster = draw_cluster(draws);
  Result<Topology> topology = Topology::build(cluster, draws.below(1 << 16));
  if (!topology) return std::nullopt;

  // Any of the GPUs, in order or not.
  std::vector<GpuId> gpus;
  for (int gpu = 0; gpu < topology->gpus(); ++gpu) gpus.emplace_back(gpu);
  if (draws.once_in(3)) draws.shuffle(gpus);
  if (draws.once_in(3)) gpus.resize(1 + static_cast<std::size_t>(draws.below(gpus.size())));

  Workload workload = StepBuilder(draws, gpus.size()).build();
  ExecutionOptions options = draw_options(draws, *topology, workload);
  return SmallCase{std::move(topology).value(), std::move(workload), {std::move(gpus)}, std::move(options)};
}

std::string describe(const SmallCase& drawn) {
  const ClusterSpec& cluster = drawn.topology.spec();
  std::string text;
  for (const NodeGroup& group : cluster.groups)
    text += fmt::format("{} nodes: {}\n", group.count, describe(group.node));
  text += fmt::format("fabric {}, routing {}, {} nodes a leaf, cable {} B/s\n", static_cast<int>(cluster.fabric.kind),
                      static_cast<int>(cluster.fabric.routing), cluster.fabric.nodes_per_leaf,
                      cluster.fabric.link.payload_bandwidth().count());
  const ExecutionOptions& options = drawn.options;
  text += fmt::format(
      "fidelity {}, algorithm {}, protocol {}, {} channels, {}, seed {}, jitter {}, launch {} ps, {} ps, {} ps, "
      "graphs {}, {} slow GPUs, {} slow links\n",
      options.traffic.fidelity == TrafficFidelity::message ? "message" : "coupled", options.traffic.algorithm,
      options.traffic.protocol, options.traffic.channels, options.traffic.library, options.seed, options.kernel_jitter,
      options.launch.count(), options.collective_launch.count(), options.driver_launch.count(), options.graphs,
      options.slow_gpus.size(), options.slow_links.size());
  const Workload& workload = drawn.workload;
  for (std::size_t rank = 0; rank < workload.ranks(); ++rank) {
    text += fmt::format("rank {}: role {} on GPU {}", rank, workload.role_of[rank].value(),
                        drawn.placement.gpu_of[rank].value());
    for (const PeerKind& kind : workload.peer_kinds) text += fmt::format(", {} {}", kind.name, kind.of[rank].value());
    text += "\n";
  }
  for (const Communicator& communicator : workload.communicators) {
    text += fmt::format("group kind {}:", communicator.kind.value());
    for (const RankId rank : communicator.ranks) text += fmt::format(" {}", rank.value());
    text += "\n";
  }
  for (std::size_t role = 0; role < workload.programs.size(); ++role) {
    const Program& program = workload.programs[role];
    for (std::size_t t = 0; t < program.tasks().size(); ++t) {
      const Task& task = program.tasks()[t];
      text += fmt::format("role {} task {} on {}{}: {}", role, t, program.streams()[task.stream.index()].name,
                          task.blocks_host ? ", blocks the host" : "", describe(program, task));
      for (const TaskId before : program.dependencies(task)) text += fmt::format(", after {}", before.value());
      text += "\n";
    }
  }
  return text;
}

}  // namespace orrery::fuzz
